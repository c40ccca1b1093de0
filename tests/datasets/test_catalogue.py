import hashlib
import json
import sys
import types
import warnings

import numpy as np
import pandas as pd
import pytest

from openset.datasets import CATALOGUE, content_sha256, dataset_table, load_dataset

FIGURES = ("boat", "cone-torus", "four-gauss", "regular")
NOT_HAD = ("auslan", "caltech-256", "imagenet")
FROM_PMLB = [name for name, entry in CATALOGUE.items() if entry.pmlb]


@pytest.fixture
def pmlb(monkeypatch):
    """A stand-in for the package pmlb: its frames by name, and what was asked of it."""
    module = types.ModuleType("pmlb")
    module.frames, module.asked = {}, []

    def fetch_data(name):
        module.asked.append(name)
        if name not in module.frames:
            raise ValueError("Dataset not found in PMLB.")
        return module.frames[name].copy()

    module.fetch_data = fetch_data
    monkeypatch.setitem(sys.modules, "pmlb", module)
    monkeypatch.delenv("OPENSET_DATA", raising=False)
    return module


@pytest.fixture
def tiny_yeast(pmlb, monkeypatch):
    """A yeast of four rows that counts as the right one."""
    frame = pd.DataFrame({"mcg": [0.1, 0.2, 0.3, 0.4], "target": [0, 0, 1, 1]})
    pmlb.frames["yeast"] = frame
    digest = content_sha256(frame[["mcg"]].to_numpy(), frame["target"].to_numpy())
    entry = CATALOGUE["yeast"]._replace(sha256=digest)
    monkeypatch.setitem(CATALOGUE, "yeast", entry)
    return frame


def test_the_paper_has_22_and_its_figures_4():
    assert len(CATALOGUE) == 26
    assert tuple(CATALOGUE)[-4:] == FIGURES
    assert len(FROM_PMLB) == 14


def test_fetched_without_a_home(pmlb, tiny_yeast):
    yeast = load_dataset("yeast")
    assert pmlb.asked == ["yeast"]
    np.testing.assert_array_equal(yeast.data[:, 0], tiny_yeast["mcg"])
    assert yeast.feature_names == ["mcg"]


def test_fetched_once_and_kept_in_the_home(pmlb, tiny_yeast, tmp_path):
    first = load_dataset("yeast", data_home=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["yeast.parquet"]
    second = load_dataset("yeast", data_home=tmp_path)
    assert pmlb.asked == ["yeast"]
    np.testing.assert_array_equal(first.data, second.data)
    np.testing.assert_array_equal(first.target, second.target)


def test_a_home_that_cannot_be_written_to(pmlb, tiny_yeast, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    with pytest.warns(UserWarning, match=r"yeast\.parquet was fetched but .*No space left"):
        assert load_dataset("yeast", data_home=tmp_path).data.shape == (4, 1)
    assert list(tmp_path.iterdir()) == []


def test_what_is_fetched_must_have_the_checksum(pmlb, tiny_yeast, tmp_path):
    pmlb.frames["yeast"] = tiny_yeast.iloc[[1, 0, 2, 3]]
    with pytest.raises(ValueError, match=r"yeast of PMLB does not contain .*SHA-256"):
        load_dataset("yeast", data_home=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_another_checksum_is_loaded_with_a_warning(pmlb, tiny_yeast, tmp_path):
    other = tiny_yeast.assign(mcg=[0.1, 0.2, 0.3, np.nan])
    other.to_parquet(tmp_path / "yeast.parquet")
    with pytest.warns(UserWarning, match="not comparable with published"):
        assert load_dataset("yeast", data_home=tmp_path).data.shape == (4, 1)
    assert pmlb.asked == []


def test_mfeat_has_another_name_in_pmlb(pmlb):
    with pytest.raises(OSError, match=r"did not provide .*'mfeat_factors'.*not found in PMLB"):
        load_dataset("mfeat-factors")


def test_without_pmlb(monkeypatch):
    monkeypatch.setitem(sys.modules, "pmlb", None)
    monkeypatch.delenv("OPENSET_DATA", raising=False)
    with pytest.raises(ImportError, match="pip install pmlb"):
        load_dataset("yeast")


@pytest.mark.parametrize("name", [*NOT_HAD, "kddcup", "aloi", "mnist"])
def test_what_cannot_be_fetched_says_where_to_get_it(pmlb, tmp_path, name):
    where = CATALOGUE[name].where[:20]
    with pytest.raises(ValueError, match=rf"'{name}' is not in .*{where}.*{name}\.parquet"):
        load_dataset(name, data_home=tmp_path)
    assert pmlb.asked == []


@pytest.mark.parametrize("name", FIGURES)
def test_the_sets_of_the_figures_name_their_generator(pmlb, tmp_path, name):
    with pytest.raises(ValueError, match=f"make_{name.replace('-', '_')}"):
        load_dataset(name, data_home=tmp_path)


def test_a_misspelt_name_of_the_paper(pmlb, tmp_path):
    with pytest.raises(ValueError, match="did you mean 'pendigits'"):
        load_dataset("pendigit", data_home=tmp_path)


@pytest.mark.parametrize("name", [n for n in CATALOGUE if CATALOGUE[n].sha256])
def test_reference_files_have_their_checksums(data_home, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y = load_dataset(name, data_home=data_home, return_X_y=True)
    _, sizes = np.unique(y, return_counts=True)
    assert (*X.shape, len(sizes), sizes.min(), sizes.max()) == CATALOGUE[name].shape


def test_checksums_are_of_the_source_s_values(data_home, golden_dir):
    # The reference solutions name the SHA-256 of PMLB's own text; written as text, our values
    # give just that, so what the catalogue's checksums stand for is what PMLB published.
    problems = json.loads((golden_dir / "ossvm_binary.json").read_text())["problems"]
    texts = {p["dataset"]: p["data_tsv_sha256"] for p in problems}
    assert len(texts) == 8
    for name, expected in texts.items():
        bunch = load_dataset(name, data_home=data_home)
        stored = pd.read_parquet(data_home / f"{name}.parquet")
        frame = pd.DataFrame(bunch.data, columns=bunch.feature_names)
        if name not in ("letter", "optdigits", "pendigits"):  # all numbers have a point there
            frame = frame.astype(stored.drop(columns="target").dtypes)
        text = frame.assign(target=bunch.target).to_csv(sep="\t", index=False, lineterminator="\n")
        assert hashlib.sha256(text.encode()).hexdigest() == expected, name


def test_checksum_forgives_the_last_bit_and_nothing_more():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)).round(4), rng.integers(0, 3, 50)
    digest = content_sha256(X, y)
    assert content_sha256(np.nextafter(X, np.inf), y.astype(np.int16)) == digest
    assert content_sha256(X + 1e-5, y) != digest
    assert content_sha256(X[::-1], y[::-1]) != digest
    assert content_sha256(X.reshape(25, 6), y) != digest
    assert content_sha256(X, y + 1) != digest


def test_table_from_the_data(data_home):
    rows = {row.name: row for row in dataset_table(data_home)}
    assert list(rows)[:26] == list(CATALOGUE)
    for name in NOT_HAD:
        assert rows[name].source == ""
        assert rows[name].counted == (None,) * 5
    # The README of the data says which agree with the paper.
    same = {name for name, row in rows.items() if row.counted == row.published}
    assert same == set(CATALOGUE) - {*FIGURES, *NOT_HAD, "mnist"}
    assert rows["mnist"].counted == (70_000, 784, 10, 6_313, 7_877)
    assert rows["clinc150-minilm"].counted[:3] == (23_700, 384, 151)
    assert rows["clinc150-minilm"].published is None


def test_table_of_an_empty_home(tmp_path):
    rows = dataset_table(tmp_path)
    assert [row.name for row in rows if row.source == "pmlb"] == FROM_PMLB
    assert not any(row.source == "file" for row in rows)


def test_table_of_a_file_that_is_no_dataset(tmp_path):
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=r"bad\.parquet is not a dataset"):
        dataset_table(tmp_path)
