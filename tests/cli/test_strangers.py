"""Files of strangers and names that hurt: nothing is overwritten, nothing reaches the terminal."""

import os
import re

import numpy as np
import pytest

from openset import OpenSetSVC
from openset.persistence import save_model
from openset.tables import TableError, open_table

from ..fuzz import fuzz_tables
from ..fuzz.__main__ import run as attack
from .conftest import blobs

CLEAR = "\x1b[2J"


def test_fit_does_not_replace_its_data(fails, trained, tmp_path):
    data = tmp_path / "d.csv"
    data.write_bytes(trained.train.read_bytes())
    (tmp_path / "link.csv").symlink_to(data)
    for output in (data, tmp_path / "link.csv"):
        told = fails("fit", data, "-t", "kind", "-o", output, "--turns", 0)
        assert re.search(
            r"cannot write .*\.csv: it is read by this command; choose another name", told
        )
        assert data.read_bytes() == trained.train.read_bytes()


def test_export_does_not_replace_the_model(fails, trained):
    before = trained.model.read_bytes()
    assert "it is read by this command" in fails("export", trained.model, "--onnx", trained.model)
    assert trained.model.read_bytes() == before


def test_escape_sequences_of_a_model_are_printed_escaped(run, tmp_path):
    X, y = np.arange(20.0)[:, None], np.repeat([f"a{CLEAR}", "b\nclasses: fine"], 10)
    card = {"parameters": {"C": CLEAR}, "certificate": {"bounded": [True]}}
    save_model(OpenSetSVC(gamma=1.0).fit(X, y), tmp_path / "m.skops", card)
    told = run("info", tmp_path / "m.skops")
    assert told.exit_code == 0
    assert "\x1b" not in told.output
    assert r"a\x1b[2J, b\nclasses: fine" in told.stdout


def test_escape_sequences_of_an_error_are_printed_escaped(run, trained, tmp_path):
    (tmp_path / "t.csv").write_text(f"x{CLEAR},y\n1,2\n")
    told = run("predict", trained.model, tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    assert told.exit_code == 1
    assert "\x1b" not in told.stderr
    assert r"x\x1b[2J" in told.stderr


def test_brackets_in_names_are_no_markup(run, tmp_path):
    # Rich would print [red] as a colour, and an unmatched [/b] would end the command.
    names = ["[red]a", "[/b]", "[link=x]c[/link]", "d"]
    table = blobs().assign(kind=lambda t: t["kind"].map(dict(zip("abcd", names, strict=True))))
    table.drop(columns=["id", "note"]).to_csv(tmp_path / "[b]t.csv", index=False)
    data, model = tmp_path / "[b]t.csv", tmp_path / "m.skops"
    for words in (
        ("fit", data, "-t", "kind", "-o", model, "-m", "osnn"),
        ("info", model),
        ("evaluate", model, data, "-t", "kind"),
    ):
        result = run(*words)
        assert result.exit_code == 0, result.output
        assert all(name in result.output for name in names), result.output
    page = tmp_path / "p.html"
    words = ("-t", "kind", "-o", page, "--methods", "osnn,svm", "--repeats", 2)
    result = run("compare", data, *words)
    assert result.exit_code == 0 and "[b]t.csv" in result.output
    assert "[b]t.csv" in page.read_text()
    (tmp_path / "home").mkdir()
    table = table.rename(columns={"kind": "target"})[["width", "height", "mass", "target"]]
    table.to_parquet(tmp_path / "home" / "[red]x[b].parquet")
    assert "[red]x[b]" in run("datasets", "--data-home", tmp_path / "home").output


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_bytes("x,kind\n1,a\n2,b\n".encode(encoding))
    with pytest.raises(TableError, match=r"looks like UTF-16: set its encoding to utf-16"):
        open_table(path)
    if encoding == "utf-16":
        assert open_table(path, "utf-16").names == ["x", "kind"]


def test_lines_that_end_in_cr_are_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"x,kind\r1,a\r2,b\r")
    with pytest.raises(TableError, match="end in CR alone"):
        open_table(tmp_path / "t.csv")


def test_devices_and_fifos_are_no_tables(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(TableError, match="device or a FIFO"):
        open_table(tmp_path / "t.csv")


def test_arrays_under_a_wrong_name(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(3))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(TableError, match=r"rename it to \.npz"):
        open_table(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.eye(3))
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(TableError, match=r"rename it to \.npy"):
        open_table(tmp_path / "b.npz")


def test_an_array_of_another_byte_order(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(3, 2).astype(">f8"))
    (batch,) = open_table(tmp_path / "a.npy").batches()
    assert batch.column(1).to_pylist() == [1.0, 3.0, 5.0]


def test_a_damaged_header_of_an_array(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    content = (tmp_path / "a.npy").read_bytes().replace(b"(3, 3), }", b"(3, 3), (", 1)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(TableError, match=r"cannot read .*a\.npy"):
        open_table(tmp_path / "a.npy")


def test_damaged_tables_are_read_or_refused():
    # A few of the cases of `make fuzz`; a damaged Arrow file once ended the process.
    _, failures = attack({"tables": fuzz_tables.attack}, seed=0, minutes=1, cases=200)
    assert failures == 0


def test_a_feature_index_that_would_fill_the_memory(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:0.5 99999999999:1\n")
    with pytest.raises(TableError, match="feature index 99999999999; at most"):
        open_table(tmp_path / "t.svm")


def test_many_columns_and_few_values(tmp_path):
    # Found by the attack on tables: the look for names that occur twice took hours.
    (tmp_path / "t.svm").write_text("1 1:2\n" * 3000 + "2 100000:0.5\n")
    table = open_table(tmp_path / "t.svm")
    assert len(table.names) == 100_001
    first = next(table.batches())
    assert first.num_rows < 1000 and first.column(1)[0].as_py() == 2.0
