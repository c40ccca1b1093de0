import pytest
from typer.testing import CliRunner

from openset.cli import app
from openset.study import MEASURES, Store

runner = CliRunner()

STUDY = """
datasets = ["yeast"]
methods = ["OpenSetSVC", "PISVM"]
n_known = [3, 6]
runs = 2
"""


@pytest.fixture
def arguments(tmp_path):
    study, store = tmp_path / "small.toml", tmp_path / "results.sqlite"
    study.write_text(STUDY)
    with Store(store, create=True) as results:
        for n_known in (3, 6):
            for run in range(2):
                for method, value in [("OpenSetSVC", 0.8), ("PISVM", 0.7)]:
                    row = {"dataset": "yeast", "n_known": n_known, "run": run, "method": method}
                    results.put({**row, "status": "done", **dict.fromkeys(MEASURES, value)})
    return ["study", "report", str(study), str(tmp_path / "out"), "--store", str(store)]


def test_report(arguments, tmp_path):
    result = runner.invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "".join(result.output.split()) == str(tmp_path / "out" / "report.html")
    html = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "<title>Study small</title>" in html
    assert "Nothing: every planned task is done." in html


def test_reference_results(arguments, tmp_path):
    table = tmp_path / "reference.csv"
    table.write_text(
        "dataset,n_known,method,measure,mean,standard_error\n"
        "yeast,3,OpenSetSVC,NA,0.75,0.01\nyeast,6,PISVM,HNA,0.9,\n"
    )
    result = runner.invoke(app, [*arguments, "--reference", str(table)])
    assert result.exit_code == 0, result.output
    html = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "0.750±.010" in html and "0.900" in html


def test_a_table_that_is_not_one_of_reference_results(arguments, tmp_path):
    table = tmp_path / "reference.csv"
    table.write_text("dataset,n_known\nyeast,3\n")
    result = runner.invoke(app, [*arguments, "--reference", str(table)])
    assert result.exit_code == 1
    assert "has no column 'method'; it needs dataset, n_known, method" in result.output
    assert not (tmp_path / "out").exists()
