"""Which columns are features: not an index, whoever wrote the table, and no number beyond 2^53."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from openset.persistence import load_model, read_card, save_model

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


def _polars(table, path):
    pytest.importorskip("polars").from_pandas(table.reset_index(drop=True)).write_parquet(path)


def _arrow(table, path):
    pq.write_table(pa.table({c: table[c].to_list() for c in table.columns}), path)


def _bare(table, path):
    """The column of the index without the metadata."""
    pq.write_table(pa.Table.from_pandas(table).replace_schema_metadata(None), path)


WRITERS = {
    "pandas.parquet": lambda table, path: table.to_parquet(path),
    "fastindex.parquet": lambda table, path: table.to_parquet(path, index=False),
    "arrow.parquet": _arrow,
    "bare.parquet": _bare,
    "polars.parquet": _polars,
    "feather.feather": lambda table, path: pyarrow.feather.write_feather(table, path),
    "file.arrow": lambda table, path: pyarrow.feather.write_feather(table, path),
    "pandas.csv": lambda table, path: table.to_csv(path),
    "again.csv": lambda table, path: table.reset_index(names="Unnamed: 0").to_csv(
        path, index=False
    ),
    "folder": lambda table, path: [
        path.mkdir(),
        table[:70].to_parquet(path / "0.parquet"),
        table[70:].to_parquet(path / "1.parquet"),
    ],
}
INDICES = {
    "sorted by class": lambda table: table.sort_values("kind").index,
    "sampled": lambda table: np.random.default_rng(0).integers(0, 90, len(table)),
    "dates": lambda table: pd.date_range("2024-01-01", periods=len(table)),
}


def _table(index="sorted by class", seed=0):
    table = blobs(seed=seed).drop(columns=["id", "note"]).sort_values("kind")
    # An index that gives the class away.
    return table.set_index(pd.Index(INDICES[index](table)))


@pytest.fixture(scope="module")
def answered(run, tmp_path_factory):
    """What a model learns and answers, by the writer and the index of its table."""

    def answer(writer, index):
        folder = tmp_path_factory.mktemp("index")
        train, new = folder / writer, folder / f"new-{writer}"
        WRITERS[writer](_table(index), train)
        WRITERS[writer](_table(index, seed=1), new)
        fit = ("fit", train, "-t", "kind", "-m", "knn", "--turns", 0, "--jobs", 1)
        result = run(*fit, "-o", folder / "m.skops")
        assert result.exit_code == 0, result.stderr
        assert read_card(folder / "m.skops")["data"]["features"] == FEATURES
        result = run("predict", folder / "m.skops", new, "-o", folder / "a.csv", "--jobs", 1)
        assert result.exit_code == 0, result.stderr
        return pd.read_csv(folder / "a.csv")[["prediction", "known_score", "reason"]]

    return answer


@pytest.mark.parametrize("writer", WRITERS)
def test_tables_that_differ_in_the_writer_give_the_same_answers(answered, writer):
    expected = answered("arrow.parquet", "sorted by class")
    pd.testing.assert_frame_equal(answered(writer, "sorted by class"), expected)


# Dates in a text table are no numbers, and never were features.
@pytest.mark.parametrize(
    ("writer", "index"),
    [*(("pandas.parquet", name) for name in INDICES), ("pandas.csv", "sampled")],
)
def test_tables_that_differ_in_the_index_give_the_same_answers(answered, writer, index):
    expected = answered("arrow.parquet", "sorted by class")
    pd.testing.assert_frame_equal(answered(writer, index), expected)


def test_every_command_leaves_the_index_out(run, trained, tmp_path):
    """A model fitted on an array takes the columns by position."""
    table = _table("sampled").drop(columns="kind")
    model = load_model(trained.model)[-1].fit(table.to_numpy(), _table().kind.to_numpy())
    save_model(model, tmp_path / "m.skops")
    table.to_parquet(tmp_path / "t.parquet")
    result = run("predict", tmp_path / "m.skops", tmp_path / "t.parquet", "-o", tmp_path / "a.csv")
    assert result.exit_code == 0, result.stderr
    answers = pd.read_csv(tmp_path / "a.csv").prediction
    assert answers.tolist() == model.predict(table.to_numpy()).tolist()


def test_an_index_may_be_asked_for(run, tmp_path):
    table = _table().set_index("kind").assign(x=np.arange(160) % 7)
    table.to_parquet(tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "-m", "knn", "--turns", 0, "--jobs", 1)
    result = run(*fit, "-t", "kind", "-o", tmp_path / "m.skops")
    assert result.exit_code == 0, result.stderr
    table.reset_index().set_index("x").to_parquet(tmp_path / "t.parquet")
    result = run(*fit, "-t", "kind", "--features", "x,mass", "-o", tmp_path / "m.skops")
    assert read_card(tmp_path / "m.skops")["data"]["features"] == ["x", "mass"]


COUNTS = {
    "filtered": lambda n, rng: np.sort(rng.choice(10 * n, n, replace=False)),
    "shuffled sample": lambda n, rng: rng.choice(3 * n // 2, n, replace=False),
    "seconds": lambda n, rng: 1_700_000_000 + np.cumsum(rng.integers(0, 100, n)),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_a_column_that_counts_gets_a_warning(run, tmp_path, kind):
    number = COUNTS[kind](160, np.random.default_rng(0))
    blobs().assign(number=number).to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", tmp_path / "t.csv", "-t", "kind", "-m", "knn", "--turns", 0, "-o", tmp_path / "m")
    told = run(*fit).stderr
    assert "column 'number' of" in told and "seems to count the rows" in told
    assert "--drop 'number'" in told
    assert run(*fit, "--drop", "number").stderr == ""
    assert run(*fit, "--features", "number,mass").stderr == ""


def test_other_whole_numbers_get_no_warning(run, tmp_path):
    rng = np.random.default_rng(0)
    others = {"age": rng.integers(0, 90, 160), "price": rng.integers(0, 10**6, 160)}
    others |= {"rank": np.sort(rng.integers(0, 5, 160)), "real": np.sort(rng.normal(size=160))}
    blobs().assign(**others).to_csv(tmp_path / "t.csv", index=False)
    told = run(
        "fit", tmp_path / "t.csv", "-t", "kind", "-m", "knn", "--turns", 0, "-o", tmp_path / "m"
    )
    assert (told.exit_code, told.stderr) == (0, "")


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_beyond_2_53_name_file_and_column(run, fails, trained, tmp_path, dtype):
    large = np.arange(160, dtype=dtype) % 9
    large[7] = 2**53 + 1
    table = blobs().assign(mass=large)
    table.to_parquet(tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "-t", "kind", "-m", "knn", "-o", tmp_path / "m.skops")
    told = fails(*fit)
    assert f"{tmp_path / 't.parquet'}: column 'mass' has 1 integers beyond 2^53" in told
    assert "data row 8: '9007199254740993'" in told and "--drop 'mass'" in told
    told = fails("predict", trained.model, tmp_path / "t.parquet", "-o", tmp_path / "a.csv")
    assert f"{tmp_path / 't.parquet'}: column 'mass' has 9007199254740993 in data row 8" in told


def test_large_identifiers_are_no_features(run, tmp_path):
    table = blobs().assign(user_id=2**60 + np.arange(160) ** 2)
    table.to_parquet(tmp_path / "t.parquet")
    fit = ("fit", tmp_path / "t.parquet", "-t", "kind", "-m", "knn", "-o", tmp_path / "m.skops")
    told = run(*fit, "--turns", 0, "--json")
    assert told.exit_code == 0, told.stderr
    dropped = json.loads(told.stdout)["data"]["dropped"]
    assert dropped["user_id"] == "an identifier: integers beyond 2^53"
