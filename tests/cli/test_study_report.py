import pytest
from typer.testing import CliRunner

from openset.cli._app import app
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


def test_published_folder_without_the_file(arguments, tmp_path):
    result = runner.invoke(app, [*arguments, "--published", str(tmp_path)])
    assert result.exit_code == 1
    assert "paper_raw_results.parquet" in result.output
    assert not (tmp_path / "out").exists()
