import builtins
import re

import numpy as np
import pandas as pd
import pytest

from openset.datasets import load_dataset


@pytest.fixture
def home(tmp_path):
    """A data home with one small dataset whose columns are of every kind the loader knows."""
    frame = pd.DataFrame(
        {
            "x1": np.array([1, 2, 3], dtype=np.uint8),
            "flag": [True, False, True],
            "x2": np.array([0.5, np.nan, 1.5], dtype=np.float16),
            "split": ["train", "train", "test"],
            "target": ["a", "b", "a"],
        }
    )
    frame.to_parquet(tmp_path / "small.parquet")
    return tmp_path


def test_bunch(home):
    bunch = load_dataset("small", data_home=home)
    assert bunch.data.dtype == np.float64
    np.testing.assert_array_equal(bunch.data, [[1, 1, 0.5], [2, 0, np.nan], [3, 1, 1.5]])
    assert bunch.target.tolist() == ["a", "b", "a"]
    assert bunch.feature_names == ["x1", "flag", "x2"]
    assert bunch.name == "small"
    assert bunch.split.tolist() == ["train", "train", "test"]


def test_return_X_y(home):
    X, y = load_dataset("small", data_home=str(home), return_X_y=True)
    assert X.shape == (3, 3)
    assert y.tolist() == ["a", "b", "a"]


def test_home_from_environment_and_the_argument_wins(home, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENSET_DATA", str(home))
    assert load_dataset("small").name == "small"
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match="no Parquet file"):
        load_dataset("small", data_home=empty)


@pytest.mark.parametrize("value", [None, ""])
def test_no_data_home(value, monkeypatch):
    monkeypatch.delenv("OPENSET_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("OPENSET_DATA", value)
    with pytest.raises(ValueError, match=r"data_home=.*OPENSET_DATA"):
        load_dataset("small")


def test_data_home_is_no_folder(tmp_path, monkeypatch):
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match=r"^data_home is .*missing"):
        load_dataset("small", data_home=missing)
    monkeypatch.setenv("OPENSET_DATA", str(missing))
    with pytest.raises(FileNotFoundError, match=r"OPENSET_DATA is .*missing"):
        load_dataset("small")


@pytest.mark.parametrize("name", ["smal", "small.parquet"])
def test_unknown_name_suggests_a_close_one(home, name):
    with pytest.raises(ValueError, match=rf"no dataset '{re.escape(name)}'.*mean 'small'\?"):
        load_dataset(name, data_home=home)


def test_unknown_name_lists_what_there_is(home):
    with pytest.raises(ValueError, match="contains small"):
        load_dataset("zebra", data_home=home)


def test_a_name_does_not_leave_the_home(home, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    with pytest.raises(ValueError, match="no dataset"):
        load_dataset("../small", data_home=inner)


def test_name_must_be_a_string(home):
    with pytest.raises(TypeError, match="name must be a string, not 3"):
        load_dataset(3, data_home=home)


def test_misspelt_target(tmp_path):
    pd.DataFrame({"x": [1.0], "Target": [1]}).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=r"no column 'target'.*last columns are \['x', 'Target'\]"):
        load_dataset("bad", data_home=tmp_path)


def test_missing_label(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "target": ["a", None]})
    frame.to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match="'target' is missing in 1 rows"):
        load_dataset("bad", data_home=tmp_path)


def test_no_features(tmp_path):
    pd.DataFrame({"text": ["a"], "target": [1]}).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match="no numeric column besides 'target'"):
        load_dataset("bad", data_home=tmp_path)


def test_a_text_column_named_like_a_field(tmp_path):
    pd.DataFrame({"x": [1.0], "name": ["a"], "target": [1]}).to_parquet(tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match=r"\['name'\].*rename"):
        load_dataset("bad", data_home=tmp_path)


@pytest.mark.parametrize("content", [b"", b"PAR1 but nothing behind it"])
def test_corrupt_file(tmp_path, content):
    (tmp_path / "bad.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"bad\.parquet cannot be read as Parquet"):
        load_dataset("bad", data_home=tmp_path)


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_missing_extra(home, monkeypatch, missing):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"{missing} is missing.*openset\[data\]"):
        load_dataset("small", data_home=home)


# rows, features, classes as the README of the data states them
@pytest.mark.parametrize(
    ("name", "shape", "n_classes"),
    [("letter", (20_000, 16), 26), ("boat", (100, 2), 3), ("kddcup", (10_237, 41), 32)],
)
def test_reference_files(data_home, name, shape, n_classes):
    bunch = load_dataset(name, data_home=data_home)
    assert bunch.data.shape == shape
    assert len(bunch.feature_names) == shape[1]
    assert np.unique(bunch.target).size == n_classes
    assert bunch.target.dtype == np.int16
    assert np.isfinite(bunch.data).all()


def test_clinc_keeps_split_and_text(data_home):
    clinc = load_dataset("clinc150-minilm", data_home=data_home)
    assert clinc.data.shape == (23_700, 384)
    assert clinc.feature_names[0] == "e000"
    assert np.unique(clinc.target).size == 151
    assert set(clinc.split) == {"train", "val", "test", "oos_train", "oos_val", "oos_test"}
    assert (np.char.startswith(clinc.split.astype(str), "oos") == (clinc.target == "oos")).all()
    assert clinc.text.shape == clinc.target.shape
    np.testing.assert_allclose(np.linalg.norm(clinc.data, axis=1), 1, atol=2e-3)
