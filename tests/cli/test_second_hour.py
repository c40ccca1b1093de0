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


def test_what_comes_next_is_a_command(run, trained, tmp_path):
    predicts = "next: openset predict {} TABLE  # answers new rows"
    assert predicts.format(trained.model) in trained.output
    assert f"calibrate {trained.model} TABLE --target kind  # sets how many" in trained.output
    out = tmp_path / "my model"
    told = run("learn", trained.model, "--rename", "a=alpha", "-o", out).stdout
    assert predicts.format(f"'{out}'") in told
    told = run("calibrate", trained.model, trained.train, "-t", "kind", "-o", out).stdout
    assert predicts.format(f"'{out}'") in told
    told = run("monitor", tmp_path / "state", "--rate", 0.1).stdout
    assert f"next: openset predict MODEL TABLE --monitor {tmp_path / 'state'}  # counts" in told


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


def test_a_measurement_that_is_often_repeated(run, fails, tmp_path):
    values = np.arange(160) % 32
    table = blobs().assign(kind=values / 10)
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = "fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops"
    result = run(*fit, "--turns", 0, "--jobs", 1, "--method", "centroids")
    assert "'kind' of" in result.stderr and "has 32 different numbers; it looks" in result.stderr
    table.assign(kind=values).to_csv(tmp_path / "t.csv", index=False)  # may be codes of classes
    result = run(*fit, "--turns", 0, "--jobs", 1, "--method", "centroids")
    assert result.exit_code == 0 and "looks like a measurement" not in result.stderr
    ages = np.r_[18, 18 + np.arange(159) % 40]
    table.assign(kind=ages)[:100].to_csv(tmp_path / "t.csv", index=False)
    assert "if 'kind' is a measurement, divide it into a few classes" in fails(*fit)


@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_integers_that_no_float_holds(name, fails, trained, tmp_path):
    table = blobs().assign(width=2**53 + 1 + 2 * np.arange(160))
    write = table.to_parquet if name.endswith("parquet") else table.to_csv
    write(tmp_path / name, index=False)
    told = fails("fit", tmp_path / name, "-t", "kind", "-o", tmp_path / "m.skops")
    assert "column 'width' has 160 integers beyond 2^53, which a float64 cannot hold" in told
    told = fails("predict", trained.model, tmp_path / name, "-o", tmp_path / "a.csv")
    assert f"has {'' if name == 't.parquet' else chr(39)}9007199254740993" in told
    assert told.endswith("in data row 1; the model needs a number not more than 2^53")


def test_large_numbers_that_are_no_integers_beyond(run, trained, tmp_path):
    cells = ["9e15", str(2**53), f" -{2**53} ", "9007199254740995.0", "NA"]
    table = blobs().astype({"width": object})
    table.loc[: len(cells) - 1, "width"] = cells
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = "fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops"
    result = run(*fit, "--turns", 0, "--jobs", 1, "--missing", "drop")
    assert result.exit_code == 0, result.stderr


def test_categories_may_be_long_integers(run, tmp_path):
    codes = np.array(["12345678901234567890", "red", "blue"])[np.arange(160) % 3]
    blobs().assign(colour=codes).to_csv(tmp_path / "t.csv", index=False)
    fit = "fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops"
    result = run(*fit, "--turns", 0, "--jobs", 1, "--method", "centroids")
    assert result.exit_code == 0, result.stderr
    categories = read_card(tmp_path / "m.skops")["data"]["categories"]
    assert categories == {"colour": ["12345678901234567890", "blue", "red"]}


@pytest.mark.parametrize("mark", [".", ","])
def test_one_integer_beyond_among_other_cells(mark, fails, tmp_path):
    table = blobs()
    table["width"] = [str(v).replace(".", mark) for v in table["width"]]
    table.loc[[3, 8], "width"] = ["NA", "-12345678901234567890"]
    sep = ";" if mark == "," else ","
    table.to_csv(tmp_path / "t.csv", index=False, decimal=mark, sep=sep)
    fit = "fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops"
    told = fails(*fit, "--missing", "median", "--decimal", mark)
    assert "has 1 integers beyond 2^53" in told and "data row 9: '-12345678901234567890'" in told


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
    states = [state for state in bars[0].split("\r") if state.strip()]
    assert re.search(r"\[#{24}\] (\d+)/\1, 0 s left $", states[-1])
    titles = list(dict.fromkeys(state.partition(" [")[0] for state in states))
    reports = [f"held-out report, turn {k} of {turns}" for k in range(1, turns + 1)]
    assert titles == ["tuning and fitting", *reports]
