"""Tables: every format gives the same, and every trouble is told in one line."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.datasets import dump_svmlight_file

from openset.tables import TableError, numbers, open_table, open_writer, read_training

from ..cli.conftest import blobs

FEATURES = ["width", "height", "mass"]


def _written(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".tsv":
        table.to_csv(path, index=False, sep="\t")
    elif path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    else:
        pyarrow.feather.write_feather(pa.Table.from_pandas(table, preserve_index=False), path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow", ".feather"])
def test_formats_of_frames(tmp_path, ending):
    table = blobs()
    path = _written(table, tmp_path / f"table{ending}")
    data = read_training(open_table(path), "kind")
    np.testing.assert_allclose(data.X, table[FEATURES], rtol=1e-12)
    assert data.y.tolist() == table.kind.tolist()
    assert data.features == FEATURES
    assert data.n_rows == len(table)
    assert set(data.encoder.dropped_) == {"id", "note"}


def test_formats_of_arrays(tmp_path):
    table = blobs()
    X, y = table[FEATURES].to_numpy(), table.kind.to_numpy(dtype=str)
    codes = np.unique(y, return_inverse=True)[1]
    np.savez(tmp_path / "t.npz", X=X, kind=y)
    np.save(tmp_path / "t.npy", np.column_stack([X, codes]))
    np.save(tmp_path / "s.npy", table[FEATURES].assign(kind=codes).to_records(index=False))
    dump_svmlight_file(X, codes, str(tmp_path / "t.svm"), zero_based=False)

    def read(name, target):
        return read_training(open_table(tmp_path / name), target)

    for name, target, labels in [
        ("t.npz", "kind", y),
        ("t.npy", "x3", codes),
        ("s.npy", "kind", codes),
        ("t.svm", "label", codes),
    ]:
        data = read(name, target)
        np.testing.assert_allclose(data.X, X, rtol=1e-12)
        np.testing.assert_array_equal(data.y, labels)
    # A model of one kind of array takes the other.
    assert read("t.npz", "kind").features == read("t.npy", "x3").features == ["x0", "x1", "x2"]


def test_svmlight_is_read_in_windows(tmp_path, monkeypatch):
    monkeypatch.setattr("openset.tables._files.SVMLIGHT_CELLS", 100)
    rng = np.random.default_rng(0)
    X = rng.random((50, 30)) * (rng.random((50, 30)) < 0.2)
    X[:, 29] = 0
    X[7, 29] = 1.0
    dump_svmlight_file(X, np.arange(50) % 3, str(tmp_path / "t.svm"), zero_based=False)
    batches = list(open_table(tmp_path / "t.svm").batches())
    assert len(batches) > 10
    found = np.concatenate([np.column_stack(b.columns)[:, 1:] for b in batches])
    np.testing.assert_allclose(found, X)


def _read(path, content, target="c", encoding="utf-8", **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_training(open_table(path, encoding), target, **options)


def test_byte_order_mark(tmp_path):
    data = _read(tmp_path / "t.csv", "\ufeffx,c\n1,a\n2.5,b\n")
    assert data.features == ["x"]


def test_quoted_newlines_commas_and_quotes(tmp_path):
    text = 'x,note,c\n1,"two\nlines, and ""quotes""",a\n2.5,plain,b\n'
    data = _read(tmp_path / "t.csv", text)
    assert data.X.ravel().tolist() == [1.0, 2.5]
    assert list(data.encoder.dropped_) == ["note"]


def test_quoted_newlines_across_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("openset.tables._files.CSV_BLOCK", 256)
    rows = "".join(f'{i * i},"line\n{i}",{"ab"[i % 2]}\n' for i in range(200))
    data = _read(tmp_path / "t.csv", "x,note,c\n" + rows)
    assert data.X.ravel().tolist() == [i * i for i in range(200)]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_found(tmp_path, delimiter):
    text = "x;z;c\n1;0;a\n2.5;5;b\n".replace(";", delimiter)
    assert _read(tmp_path / "t.csv", text).X.tolist() == [[1, 0], [2.5, 5]]


def test_other_encodings_are_named(tmp_path):
    content = "x,c\n1,café\n2.5,thé\n".encode("latin-1")
    with pytest.raises(TableError, match="not utf-8 text; set its encoding"):
        _read(tmp_path / "t.csv", content)
    assert _read(tmp_path / "t.csv", content, encoding="latin-1").y.tolist() == ["café", "thé"]
    with pytest.raises(TableError, match="unknown encoding 'latin-99'"):
        _read(tmp_path / "t.csv", content, encoding="latin-99")
    with pytest.raises(TableError, match="not utf-8 text"):
        _read(tmp_path / "t.csv", "x,é\n1,a\n".encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("", "c", "is empty"),
        ("x,c\n", "c", "a header and no rows"),
        ("x\n1\n2\n", "x", "no numeric or categorical column other than the target 'x'"),
        ("c\na\nb\n", "c", "no numeric or categorical column other than the target"),
        ("x,kind\n1,a\n2.5,b\n", "knd", "no column 'knd', the target; did you mean 'kind'"),
        ("x,kind\n1,a\n2.5,b\n", "Kind", "did you mean 'kind'"),
        ("x,kind\n1,a\n2.5,b\n", "zzz", "its columns are x, kind"),
        ("x,c\n1,a\n2.5,a\n", "c", "only one class, 'a'"),
        ("x,c\n1,\n2.5,\n", "c", "no class in any row"),
        ("x,c\n1,a\n2.5,\n9,b\n", "c", "1 rows without a class in 'c', the first in data row 2"),
        (
            "x,c\n1,a\nfoo,b\n9,b\n",
            "c",
            r"'x' has 1 non-numeric cells out of 3 \(data row 2: 'foo'\); fix .* --drop 'x'",
        ),
        ("x,c\n1,a\n,b\n9,b\n", "c", "missing values in 1 of 3 rows .data rows 2.*--missing drop"),
        ("x,c\n1,a\nN/A,b\n9,b\n", "c", "missing values in 1 of 3 rows"),
        ("x,c\n1,a\ninf,b\n9,b\n", "c", "'x' is infinite in data row 2"),
        ("x,c\n1,a,7\n2.5,b\n", "c", "Expected 2 columns, got 3"),
        ("x,x,c\n1,2,a\n", "c", "more than one column named 'x'; rename them$"),
        ("0.5,1,0.5\n1,2,3\n", "c", "named '0.5'; rename them; is the first line a header"),
        ("x;c\n1;a\n0,5;b\n-1,5e3;a\n", "c", "'x' has numbers with a decimal comma .*row 2: '0,5'"),
        ("x,c\n1,a\n1,b\n", "c", r"no numeric or categorical column.*'x': always 1"),
        ("\x00\x01\x02", "c", "cannot read|no column"),
    ],
)
def test_troubles_of_a_text_table(tmp_path, text, target, message):
    with pytest.raises(TableError, match=message):
        _read(tmp_path / "t.csv", text, target)


def test_a_text_that_looks_like_a_decimal_comma_is_a_text(tmp_path):
    notes = ["1,5", *(f"note {i}" for i in range(29))]  # too many values for categories
    text = "x;note;c\n" + "".join(f"{i % 4};{notes[i]};{'ab'[i % 2]}\n" for i in range(30))
    data = _read(tmp_path / "t.csv", text)
    assert data.features == ["x"]
    assert data.encoder.dropped_ == {"note": "not numeric, for example '1,5'"}


def test_a_measurement_is_no_class(tmp_path):
    rows = "".join(f"{i % 7},{i / 3:.3f}\n" for i in range(60))
    with pytest.raises(TableError, match=r"60 different values in 60 rows.*not a class"):
        _read(tmp_path / "t.csv", "x,c\n" + rows)


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".npy", ".npz", ".svm"])
def test_damaged_files(tmp_path, ending):
    with pytest.raises(TableError, match=r"cannot read|holds no features"):
        _read(tmp_path / f"t{ending}", b"nonsense \x80 here")


def test_objects_in_numpy_files_are_not_unpickled(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{"a": 1}, "b"], dtype=object), allow_pickle=True)
    with pytest.raises(TableError, match="holds objects"):
        open_table(tmp_path / "t.npy")


def test_bad_paths(tmp_path):
    with pytest.raises(TableError, match="there is no file"):
        open_table(tmp_path / "absent.csv")
    with pytest.raises(TableError, match="is a folder without Parquet files"):
        open_table(tmp_path)
    (tmp_path / "t.xls").write_text("x")
    with pytest.raises(TableError, match=r"unknown suffix '\.xls'"):
        open_table(tmp_path / "t.xls")
    np.savez(tmp_path / "t.npz", X=np.zeros((3, 2)), y=np.zeros(4))
    with pytest.raises(TableError, match="different numbers of rows"):
        open_table(tmp_path / "t.npz")
    np.save(tmp_path / "t.npy", np.zeros((2, 2, 2)))
    with pytest.raises(TableError, match="shape"):
        open_table(tmp_path / "t.npy")


def test_missing_values_have_two_remedies(tmp_path):
    text = "x,z,c\n1,2,a\n,3,b\n3,9,a\n7,8,b\n"
    dropped = _read(tmp_path / "t.csv", text, missing="drop")
    assert dropped.X.tolist() == [[1, 2], [3, 9], [7, 8]]
    kept = _read(tmp_path / "t.csv", text, missing="median")
    assert np.isnan(kept.X).tolist() == [[False] * 2, [True, False], [False] * 2, [False] * 2]
    with pytest.raises(TableError, match="no row without a missing value"):
        _read(tmp_path / "t.csv", "x,z,c\n1,,a\n,3,b\n", missing="drop")


def test_what_is_dropped_and_why(tmp_path):
    table = pd.DataFrame(
        {
            "row": [5, 6, 7, 8],
            "user_id": [17, 4, 99, 3],
            "x": [0.5, 0.1, 0.9, 0.3],
            "same": [2, 2, 2, 2],
            "empty": [None, None, None, None],
            "text": ["p", "q", "r", "s"],
            "zero": [-0.0, 0.0, 0.0, 0.0],
            "split": ["train", "Train", "train", "oos_test"],
            "c": ["a", "b", "a", "b"],
        }
    )
    data = read_training(open_table(_written(table, tmp_path / "t.csv")), "c")
    assert data.features == ["x"]
    assert data.encoder.dropped_ == {
        "row": "counts the rows",
        "user_id": "an identifier: all values differ",
        "same": "always 2",
        "empty": "no values",
        "text": "not numeric, for example 'p'",
        "zero": "always 0",
        "split": "names parts of the data: Train, oos_test, train",
    }
    chosen = read_training(open_table(tmp_path / "t.csv"), "c", features=["x", "user_id"])
    assert chosen.features == ["x", "user_id"]
    table["split"], table["kind_of"] = ["train", "test"] * 2, ["blood_test", "skin_test"] * 2
    both = open_table(_written(table, tmp_path / "t.csv"))
    assert [*read_training(both, "c").encoder.categories_] == ["kind_of"]
    assert [*read_training(both, "c", features=["x", "split"]).encoder.categories_] == ["split"]
    fewer = read_training(open_table(tmp_path / "t.csv"), "c", drop=["row"])
    assert fewer.encoder.dropped_["row"] == "by --drop"
    with pytest.raises(TableError, match="no column 'y', given as a feature"):
        read_training(open_table(tmp_path / "t.csv"), "c", features=["y"])
    with pytest.raises(TableError, match="cannot also be a feature"):
        read_training(open_table(tmp_path / "t.csv"), "c", features=["x", "c"])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["1", "2", "1"], [1, 2, 1]),
        (["-1", "2", "-1"], [-1, 2, -1]),
        (["01", "02", "01"], ["01", "02", "01"]),
        (["NA", "x", "NA"], ["NA", "x", "NA"]),
        ([" a", "b ", "a"], ["a", "b", "a"]),
        (["1.5", "2", "1.5"], ["1.5", "2", "1.5"]),
        (["1.0", "2.0", "1"], [1, 2, 1]),
        (["1.0", "1.1", "1.0"], ["1.0", "1.1", "1.0"]),
    ],
)
def test_labels(tmp_path, labels, expected):
    rows = "".join(f"{i * i},{label}\n" for i, label in enumerate(labels))
    assert _read(tmp_path / "t.csv", "x,c\n" + rows).y.tolist() == expected


def test_typed_labels_are_those_of_text(tmp_path):
    for values in ([1, 2, 1], [1.0, 2.0, 1.0], pd.Categorical(["1", "2", "1"])):
        table = pd.DataFrame({"x": [0.0, 1.0, 4.0], "c": values})
        table.to_parquet(tmp_path / "t.parquet")
        assert read_training(open_table(tmp_path / "t.parquet"), "c").y.tolist() == [1, 2, 1]


def test_numbers():
    values, bad = numbers(pa.array(["1", " 2.5 ", "-1e3", "", "NA", "?", "x", "1.2.3", None]))
    np.testing.assert_array_equal(values[:3], [1, 2.5, -1000])
    assert np.isnan(values[3:]).all()
    assert bad.tolist() == [6, 7]
    values, bad = numbers(pa.array([True, False, None]))
    np.testing.assert_array_equal(values, [1, 0, np.nan])
    assert bad.size == 0
    values, bad = numbers(pa.array([[1], None]))
    assert bad.tolist() == [0]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow", ".feather"])
def test_written_tables_are_read_back(tmp_path, ending):
    texts = ['a "quoted", text', "two\nlines", "tab\there", "", "plain"]
    batch = pa.RecordBatch.from_pydict({"t": texts, "n, m": [1, 2, 3, 4, 5]})
    plain = pa.RecordBatch.from_pydict({"t": ["p"] * 2, "n, m": [6, 7]})
    path = tmp_path / f"t{ending}"
    with open_writer(path, batch.schema) as writer:
        writer.write(batch)
        writer.write(plain)
    table = pa.Table.from_batches(open_table(path).batches())
    assert table["t"].to_pylist() == [*texts, "p", "p"]
    assert [int(n) for n in table["n, m"].to_pylist()] == [1, 2, 3, 4, 5, 6, 7]
    if ending == ".csv":
        assert path.read_text().endswith("p,6\np,7\n")  # no quotes where none are needed


def test_nothing_half_written_stays(tmp_path):
    schema = pa.schema([("x", pa.int64())])
    with pytest.raises(RuntimeError, match="stop"):
        with open_writer(tmp_path / "t.parquet", schema) as writer:
            writer.write(pa.RecordBatch.from_pydict({"x": [1]}))
            raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
