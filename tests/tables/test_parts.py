"""Parts of a folder that workers read: what each returns, and a fit on a cluster."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

from openset.tables import (  # noqa: E402
    TableError,
    open_table,
    part_readers,
    read_training,
)


def write(folder, frame, n_parts=3):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), n_parts)):
        frame.iloc[rows].to_parquet(folder / f"{k}.parquet")
    return folder


def frame(n=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "colour": np.array(["red", "green", "blue"])[rng.integers(0, 3, n)],
            "yes": rng.random(n) < 0.5,
            "kind": rng.integers(0, 4, n),
        }
    )


def parts_of(folder, missing="error", classes=None, n_rows=60):
    table = open_table(folder)
    like = read_training(table.head(n_rows), "kind", missing=missing)
    return part_readers(table, like, classes)


@pytest.mark.parametrize("labels", ["integers", "texts"])
def test_parts_are_the_table(tmp_path, labels):
    data = frame()
    if labels == "texts":
        data["kind"] = np.array(["a", "bb", "c", "d"])[data["kind"]]
    folder = write(tmp_path / "parts", data)
    whole = read_training(open_table(folder), "kind")
    found = [part() for part in parts_of(folder)]
    assert_array_equal(np.vstack([X for X, _ in found]), whole.X)
    y = np.concatenate([y for _, y in found])
    assert_array_equal(y, whole.y)
    kept = whole.y[:2]
    for X, y in (part() for part in parts_of(folder, classes=kept)):
        assert len(X) == len(y) and np.isin(y, kept).all()


@pytest.mark.parametrize("missing", ["drop", "median"])
def test_missing_values(tmp_path, missing):
    data = frame().astype({"kind": object})
    data.loc[[5, 120, 250], "x"] = np.nan
    data.loc[[7, 260], "kind"] = None
    folder = write(tmp_path / "parts", data)
    whole = read_training(open_table(folder), "kind", missing=missing)
    found = [part() for part in parts_of(folder, missing)]
    assert_array_equal(np.vstack([X for X, _ in found]), whole.X)
    assert_array_equal(np.concatenate([y for _, y in found]), whole.y)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("x", np.nan, "'x' has no value in data row 51"),
        ("x", np.inf, "'x' is infinite in data row 51"),
        ("kind", "", "has no class in data row 51"),
        ("kind", "other", "has the class 'other', but the first classes of all parts are integers"),
    ],
)
def test_bad_cells_name_the_part(tmp_path, column, value, message):
    data = frame().astype({"kind": str})
    data.loc[150, column] = value
    folder = write(tmp_path / "parts", data)
    first, second, third = parts_of(folder)
    first(), third()
    with pytest.raises(TableError, match=message) as error:
        second()
    assert "1.parquet" in str(error.value)
