"""What a user meets after the first fit: marks of decimals, headers, scaling, other versions."""

import os
import re
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler, Normalizer

from openset.persistence import load_model, read_card

from .conftest import blobs


def test_classes_are_renamed_and_removed_without_tables(run, trained, tmp_path):
    result = run(
        "learn", trained.model, "--rename", "a=alpha", "--remove", "b", "-o", tmp_path / "m"
    )
    assert result.exit_code == 0, result.stderr
    assert "removed b" in result.stdout and "renamed a to alpha" in result.stdout
    assert read_card(tmp_path / "m")["classes"] == ["alpha", "c", "d"]
    table = pd.read_csv(trained.train)
    before, after = (load_model(path).predict(table) for path in (trained.model, tmp_path / "m"))
    np.testing.assert_array_equal(after[before == "a"], "alpha")
    assert "b" not in after


def test_answers_go_to_standard_output(run, trained, tmp_path):
    run("predict", trained.model, trained.train, "-o", tmp_path / "answers.csv")
    result = run("predict", trained.model, trained.train)
    assert result.stdout == (tmp_path / "answers.csv").read_text()
    assert "160 rows answered" in result.stderr


def test_decimal_comma(run, trained, fails, tmp_path):
    table = blobs()
    for ending, separator in ((".csv", ";"), (".tsv", "\t")):
        table.to_csv(tmp_path / f"comma{ending}", index=False, sep=separator, decimal=",")
    fit = "-t", "kind", "-o", tmp_path / "m.skops", "--turns", 0, "--jobs", 1
    assert "use --decimal , or write" in fails("fit", tmp_path / "comma.csv", *fit)
    assert run("fit", tmp_path / "comma.tsv", *fit, "--decimal", ",").exit_code == 0
    wanted, found = (load_model(path) for path in (trained.model, tmp_path / "m.skops"))
    np.testing.assert_allclose(found.decision_function(table), wanted.decision_function(table))
    told = fails("predict", tmp_path / "m.skops", tmp_path / "comma.csv", "-o", tmp_path / "a.csv")
    assert told.endswith("needs a number there; if this is one, use --decimal ,")
    answer = tmp_path / "m.skops", tmp_path / "comma.csv", "--decimal", ","
    assert run("predict", *answer, "-o", tmp_path / "a.csv").exit_code == 0
    answers = pd.read_csv(tmp_path / "a.csv")
    assert answers["prediction"].tolist() == wanted.predict(table).tolist()
    # Cells come back as they were written.
    assert answers["width"].tolist() == [str(v).replace(".", ",") for v in table["width"]]
    assert "has '-3.14' in data row" in fails(
        *("predict", tmp_path / "m.skops", _with_point(tmp_path, table), "--decimal", ",")
    )


def _with_point(folder, table):
    """The table with a decimal comma, but for one number."""
    table = table.assign(width=[str(v).replace(".", ",") for v in table["width"]])
    table.loc[3, "width"] = "-3.14"
    table.to_csv(folder / "both.csv", index=False, sep=";", decimal=",")
    return folder / "both.csv"


def test_a_missing_header_is_suspected(run, tmp_path):
    table = blobs().drop(columns=["id", "note"])
    table.to_csv(tmp_path / "t.csv", index=False, header=False)
    result = run("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops")
    assert result.exit_code == 1
    assert "the first line of" in result.stderr and "looks like data" in result.stderr
    assert "write a line of names above it" in result.stderr


@pytest.mark.parametrize("names", [["0", "1", "2", "kind"], ["2019", "2020", "2021", "kind"]])
def test_numbers_that_count_are_names(names, run, trained, tmp_path):
    table = blobs().drop(columns=["id", "note"]).set_axis(names, axis=1)
    table.to_csv(tmp_path / "t.csv", index=False)
    result = run(
        *("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops"),
        *("--turns", 0, "--jobs", 1),
    )
    assert result.exit_code == 0 and "looks like data" not in result.stderr


def test_a_target_that_is_a_measurement(fails, trained, tmp_path):
    told = fails("fit", trained.train, "-t", "width", "-o", tmp_path / "m.skops")
    assert "it looks like an identifier or a measurement, not a class" in told


def test_integers_that_no_float_holds(fails, tmp_path):
    table = blobs().assign(width=2**53 + 1 + 2 * np.arange(160))
    table.to_parquet(tmp_path / "t.parquet")
    told = fails("fit", tmp_path / "t.parquet", "-t", "kind", "-o", tmp_path / "m.skops")
    assert "column 'width' has 160 integers beyond 2^53, which a float64 cannot hold" in told


@pytest.mark.parametrize("scale", ["minmax", "unit", "none"])
def test_scale(scale, run, trained, tmp_path):
    model = tmp_path / "m.skops"
    fit = "-t", "kind", "-o", model, "--turns", 0, "--jobs", 1, "--scale", scale
    result = run("fit", trained.train, *fit)
    assert result.exit_code == 0, result.stderr
    step = load_model(model).named_steps["scale"]
    wanted = {"minmax": MinMaxScaler, "unit": Normalizer}.get(scale)
    assert step == "passthrough" if wanted is None else type(step) is wanted
    assert ("scaled to [0, 1]" in result.stdout) == (scale == "minmax")
    assert run("predict", model, trained.train).exit_code == 0


def test_a_model_of_another_scikit_learn(run, trained, tmp_path):
    path = tmp_path / "old.skops"
    with zipfile.ZipFile(trained.model) as archive, zipfile.ZipFile(path, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "openset.json":
                content = content.replace(b'"scikit-learn": "', b'"scikit-learn": "0.')
            copy.writestr(name, content)
    with pytest.warns(UserWarning, match=r"old.skops was written with scikit-learn 0\..* evaluate"):
        load_model(path)
    assert "written with scikit-learn 0." in run("predict", path, trained.train).stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(trained.model)


@pytest.mark.parametrize("turns", [0, 2])
def test_one_bar_for_search_fit_and_turns(turns, trained, tmp_path):
    pty = pytest.importorskip("pty")
    reader, terminal = pty.openpty()
    fit = "-t", "kind", "-o", tmp_path / "m.skops", "--jobs", "1", "--turns", str(turns)
    command = [sys.executable, "-m", "openset", "fit", trained.train, *fit]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, text=True)
    os.close(terminal)
    told = b""
    try:
        while chunk := os.read(reader, 4096):
            told += chunk
    except OSError:  # the end, on Linux
        pass
    os.close(reader)
    assert result.returncode == 0
    lines = told.decode().replace("\r\n", "\n").split("\n")
    bars = [line for line in lines if "s left" in line and not line.startswith("read,")]
    assert len(bars) == 1
    states = [state for state in bars[0].split("\r") if state]
    assert re.search(r"\[#{24}\] (\d+)/\1, 0 s left +$", states[-1])
    titles = list(dict.fromkeys(state.partition(" [")[0] for state in states))
    reports = [f"held-out report, turn {k} of {turns}" for k in range(1, turns + 1)]
    assert titles == ["tuning and fitting", *reports]
