"""The store: what is written once stays, and errors say what to do."""

import csv
import os
import resource
import sqlite3
import threading
from dataclasses import replace

import numpy as np
import pytest

from openset.study import Store, StoreError, Study, Task

COLUMNS = (
    "dataset n_known run method status error "
    "NA HNA OSFMmacro OSFMmicro FMmacro FMmicro AKS AUS "
    "params extra n_train n_test_known n_test_unknown "
    "seconds_search seconds_fit seconds_predict fingerprint versions"
).split()

KEY = {"dataset": "digits", "n_known": 3, "run": 0, "method": "PISVM"}
DONE = {**KEY, "status": "done", "NA": 1 / 3, "params": '{"gamma": 0.1}', "n_train": 12}
FAILED = {**KEY, "status": "failed", "error": 'ValueError: a, "b"\nc'}
STUDY = Study("s", ("digits",), ("PISVM",), (3,), 2)
GRID = {"PISVM": {"threshold": [0.5]}}


def _full(row):
    return {**dict.fromkeys(COLUMNS), **row}


def test_the_columns_of_the_results(store):
    assert list(store.frame().columns) == COLUMNS


def test_what_is_done_stays_and_what_failed_is_replaced(store):
    store.put(FAILED)
    assert store.tasks("failed") == {Task(**KEY)}
    store.put(DONE)
    store.put(FAILED, {**DONE, "NA": 0.5})
    assert store.rows() == [_full(DONE)]
    assert (store.tasks("done"), store.tasks("failed")) == ({Task(**KEY)}, set())


def test_rows_are_there_after_opening_again(store):
    store.put(DONE, {**FAILED, "run": 1})
    with Store(store.path) as again:  # the first is still open: a run can be looked at
        assert again.rows() == store.rows()
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_export_and_import(store, tmp_path, name):
    path = tmp_path / name
    store.put(DONE, {**FAILED, "run": 1})
    assert store.export_csv(path) == 2
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    with Store(tmp_path / "other.sqlite", create=True) as other:
        other.put({**DONE, "run": 1}, {**DONE, "run": 2})
        assert other.import_csv(path) == 2
        assert other.import_csv(path) == 2  # again changes nothing
        assert other.rows() == [_full(DONE), _full({**DONE, "run": 1}), _full({**DONE, "run": 2})]


@pytest.mark.parametrize(
    ("old", "new"),
    [("UnbiasedSVC", "FixedBiasSVC"), ("WeibullSVM", "WSVM"), ("OpenSetNearestNeighbors", "OSNN")],
)
def test_an_old_export_is_converted(store, tmp_path, old, new):
    path = tmp_path / "old.csv"
    store.put({**DONE, "method": old})
    store.export_csv(path)
    with open(path, newline="") as file:
        header, row = csv.reader(file)
    k = header.index("extra")
    header[k : k + 1], row[k : k + 1] = ["bias", "ovo_bias"], ["[0.5, -1.0]", ""]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, row])
    with Store(tmp_path / "other.sqlite", create=True) as other:
        other.import_csv(path)
        (found,) = other.rows()
    assert found == _full({**DONE, "method": new, "extra": '{"bias": [0.5, -1.0]}'})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0].remove("NA"), "no column 'NA'"),
        (lambda rows: rows.clear(), "no column 'dataset'"),
        (lambda rows: rows[0].reverse(), "the columns"),
        (lambda rows: rows[1].pop(), "line 2"),
        (lambda rows: rows[1].__setitem__(1, "three"), "line 2: .*'three'"),
        (lambda rows: rows[1].__setitem__(0, ""), "line 2: one of dataset"),
        (lambda rows: rows[1].__setitem__(4, "running"), "line 2: status is 'running'"),
    ],
)
def test_bad_csv_files(store, tmp_path, change, message):
    path = tmp_path / "rows.csv"
    store.put(DONE)
    store.export_csv(path)
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    change(rows)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    with Store(tmp_path / "other.sqlite", create=True) as other:
        with pytest.raises(ValueError, match=message):
            other.import_csv(path)
        assert other.rows() == []


def test_results_of_another_study_are_not_mixed(store):
    store.put({**DONE, "fingerprint": STUDY.fingerprint("PISVM")}, {**FAILED, "run": 1})
    store.check(STUDY)
    store.check(Study("renamed", ("iris",), ("PISVM",), (3, 6), 5))
    store.check(Study("others", ("digits",), ("OSNN",), (3,), 2, seed=1))
    with pytest.raises(StoreError, match="results of PISVM with another seed"):
        store.check(Study("s", ("digits",), ("PISVM",), (3,), 2, seed=1))


def test_an_import_checks_that_rows_belong_to_the_study(store, tmp_path):
    path = tmp_path / "rows.csv"
    store.put({**DONE, "fingerprint": STUDY.fingerprint("PISVM")}, {**FAILED, "run": 1})
    store.export_csv(path)
    with Store(tmp_path / "other.sqlite", create=True) as other:
        for change in ({"seed": 1}, {"search": {"n_repeats": 3}}, {"grids": GRID}):
            with pytest.raises(StoreError, match=r"rows.csv holds results of PISVM .* again"):
                other.import_csv(path, replace(STUDY, **change))
        assert other.rows() == []
        assert other.import_csv(path, STUDY) == 2


def test_an_export_without_fingerprints_is_for_reading_only(store, tmp_path):
    path = tmp_path / "old.csv"
    store.put(DONE)
    store.export_csv(path)
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    for row in rows:
        del row[COLUMNS.index("fingerprint")]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    with Store(tmp_path / "other.sqlite", create=True) as other:
        with pytest.raises(StoreError, match="do not belong to the study"):
            other.import_csv(path, STUDY)
        other.import_csv(path)
        assert other.rows() == [_full(DONE)]


def test_files_that_are_no_store(tmp_path):
    with pytest.raises(StoreError, match=r"no results at .*run the study first"):
        Store(tmp_path / "absent.sqlite")
    with pytest.raises(StoreError, match="no folder"):
        Store(tmp_path / "absent" / "results.sqlite", create=True)
    text = tmp_path / "text.sqlite"
    text.write_text("not a database, but long enough to be looked at as one" * 10)
    for create in (False, True):
        with pytest.raises(StoreError, match="not a file of results"):
            Store(text, create=create)
    other = tmp_path / "other.sqlite"
    sqlite3.connect(other).execute("CREATE TABLE x (y)")
    with pytest.raises(StoreError, match="not a file of results"):
        Store(other)


@pytest.fixture
def unprivileged():
    """Root may write everywhere; be somebody else for a while."""
    if os.name != "posix":
        pytest.skip("file modes are those of POSIX")
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield
    if root:
        os.seteuid(0)


def test_a_store_that_cannot_be_written(store, tmp_path, unprivileged):
    if os.geteuid() == 65534:
        os.seteuid(0)
    store.put(DONE)
    store.close()
    for path in (tmp_path, *tmp_path.parents[:3]):
        path.chmod(0o755)
    store.path.chmod(0o444)
    tmp_path.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(65534)
    with pytest.raises(StoreError, match="writable"):
        Store(store.path, create=True)
    with pytest.raises(StoreError, match="writable"):
        Store(tmp_path / "new.sqlite", create=True)


def test_a_full_disk_keeps_what_is_there(store):
    store.put(DONE)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(path.stat().st_size for path in store.path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, limit[1]))
    try:
        with pytest.raises(StoreError, match="Finished tasks are kept"):
            for run in range(1, 1000):
                store.put({**DONE, "run": run, "error": "x" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    store.put({**DONE, "run": run})
    assert [row["run"] for row in store.rows()] == list(range(run + 1))


def _old(path):
    """Make the store one of version 0.1.0."""
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE results DROP COLUMN digest")


@pytest.mark.parametrize(
    "change",
    ["NA = 0.5", "NA = NULL", "run = 7", "status = 'failed'", "digest = NULL", "error = x'ff'"],
)
def test_a_row_that_was_damaged_is_not_read(store, change):
    store.put(DONE, {**DONE, "run": 1})
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"UPDATE results SET {change} WHERE rowid = 2")
    for read in (store.rows, lambda: store.tasks("done"), lambda: store.check(STUDY)):
        with pytest.raises(StoreError, match=r"row 2 was damaged .* WHERE rowid = 2;"):
            read()
    with sqlite3.connect(store.path) as connection:
        connection.execute("DELETE FROM results WHERE rowid = 2")
    assert store.rows() == [_full(DONE)]


def test_numbers_as_sqlite_returns_them_are_intact(store):
    row = {
        "NA": float("nan"),
        "HNA": -0.0,
        "AKS": 1,
        "AUS": np.float32(0.1),
        "n_train": np.int64(3),
    }
    store.put({**KEY, "status": "done"} | row)
    (found,) = store.rows()
    expected = {"NA": None, "HNA": 0.0, "AKS": 1.0, "AUS": float(np.float32(0.1)), "n_train": 3}
    assert found == _full({**KEY, "status": "done"} | expected)


def test_a_store_of_version_0_1_0(store):
    store.put({**DONE, "run": 1}, FAILED)
    before = store.rows()
    _old(store.path)
    assert store.rows() == before
    with Store(store.path) as old:
        old.put({**DONE, "run": 2})
        assert old.rows() == [*before, _full({**DONE, "run": 2})]
        with sqlite3.connect(store.path) as connection:
            connection.execute("UPDATE results SET NA = 0.5 WHERE run = 1")
        with pytest.raises(StoreError, match="damaged"):
            old.rows()


def test_wrong_types_in_a_store_of_version_0_1_0(store):
    store.put(DONE)
    _old(store.path)
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE results SET NA = x'00'")
    with pytest.raises(StoreError, match="damaged"):
        store.rows()


def test_a_file_whose_structure_is_damaged(store):
    store.put(*({**DONE, "run": run} for run in range(200)))
    store.close()
    intact = store.path.read_bytes()
    for damaged in (intact[: len(intact) // 2], intact[:8192] + bytes(4096) + intact[12288:]):
        store.path.write_bytes(damaged)
        for create in (False, True):
            with pytest.raises(StoreError, match="damaged"):
                Store(store.path, create=create)


def test_a_store_with_code_is_refused(tmp_path):
    path = tmp_path / "results.sqlite"
    endless = "WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t) SELECT x AS extra, "
    with sqlite3.connect(path) as connection:
        connection.execute(f"CREATE VIEW results AS {endless} x AS fingerprint FROM t WHERE x > 1")
    with pytest.raises(StoreError, match="not a file of results"):
        Store(path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("rows.csv", lambda content: content.replace(b"12", b"9" * 30)),
        ("rows.csv", lambda content: content.replace(b"digits", b"\xff")),
        ("rows.csv", lambda content: content.replace(b"digits", b"x" * 200_000)),
        ("rows.csv", lambda content: content.replace(b",extra,", b",extra,other,", 1)),
        ("rows.csv.gz", lambda content: content[:-20]),
        ("rows.csv.gz", lambda content: content[:20] + b"\0\0\0" + content[23:]),
        ("rows.csv.gz", lambda content: b"dataset" + content),
    ],
)
def test_damaged_csv_files(store, tmp_path, name, damage):
    path = tmp_path / name
    store.put(DONE, FAILED | {"run": 2})
    store.export_csv(path)
    path.write_bytes(damage(path.read_bytes()))
    with Store(tmp_path / "other.sqlite", create=True) as other:
        with pytest.raises((ValueError, StoreError), match=f"{tmp_path}"):
            other.import_csv(path)
        assert other.rows() == []


def test_a_store_that_another_process_is_making(tmp_path):
    # SQLite does not wait by itself where the way of journaling changes.
    path = tmp_path / "s.sqlite"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.5, other.execute, ["COMMIT"])
    timer.start()
    with Store(path, create=True) as store:
        assert store.rows() == []
    timer.join()
    other.close()


def test_damage_that_sqlite_quotes(tmp_path):
    """Of a damaged schema SQLite's own message may be no text."""
    path = tmp_path / "s.sqlite"
    Store(path, create=True).close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE", b"CREATE \xdd\xdd\xdd\xdd\xdd"))
    with pytest.raises(StoreError, match=r"damaged|not a file of results"):
        Store(path)
