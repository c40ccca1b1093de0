"""``openset study`` from end to end, and its errors in one line."""

import csv

import pytest
from typer.testing import CliRunner

from openset.cli import app
from openset.study import Store, run_study

SPEC = """
datasets = ["make_four_gauss"]
methods = ["OneVsSetMachine", "OneVsRestSVC"]
n_known = [2, 3]
runs = 1
[search]
preset = "paper"
scenario = "closed"
"""


class Here:
    """A pool without processes: fast."""

    def __init__(self, work, jobs):
        self._work, self._tasks = work, []

    def capacity(self):
        return 1

    def submit(self, task):
        self._tasks.append(task)

    def wait(self, seconds):
        task = self._tasks.pop()
        return [(task, self._work(task))]

    def close(self):
        pass


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("openset.study._runner.LocalPool", Here)
    (tmp_path / "small.toml").write_text(SPEC)
    (tmp_path / "other.toml").write_text(SPEC)
    return tmp_path


def _call(*arguments, code=0):
    result = CliRunner().invoke(app, ["study", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_run_status_export_import(folder):
    assert "2 done, 0 failed, 0 left" in _call("run", "small.toml", "--n-known", "3")
    assert "2 done, 0 failed, 0 left" in _call("run", "small.toml", "--jobs", "1")
    assert "0 done, 0 failed, 0 left" in _call("run", "small.toml")
    assert "4 done, 0 failed" in _call("status", "small.toml")
    assert "make_four_gauss, 3 known: 2 of 2" in _call("status", "small.toml")
    assert _call("export", "small.toml", "rows.csv") == "4 rows to rows.csv\n"
    with open("rows.csv", newline="") as file:
        assert {row["status"] for row in csv.DictReader(file)} == {"done"}
    _call("import", "small.toml", "rows.csv", "--store", "other.sqlite")
    assert "0 done" in _call("run", "small.toml", "--store", "other.sqlite")
    with Store("results/small.sqlite") as one, Store("other.sqlite") as other:
        assert one.rows() == other.rows()


def test_failures_are_shown_and_retried(folder):
    bad = SPEC + 'level = "class"\n'  # which this method does not have
    (folder / "small.toml").write_text(bad)
    output = _call("run", "small.toml", code=1)
    assert "2 done, 2 failed" in output
    assert "openset study retry small.toml" in output
    assert "run 0, OneVsSetMachine: ValueError: level='class'" in _call("status", "small.toml")
    assert "0 done, 2 failed" in _call("retry", "small.toml", code=1)


def test_time_limit(folder):
    assert "0 done, 0 failed, 4 left" in _call("run", "small.toml", "--time-limit", "0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.toml"], "there is no study 'absent.toml'"),
        (["run", "small.toml", "--datasets", "digit"], "'digit' is not in the study"),
        (
            ["run", "small.toml", "--n-known", "three"],
            "--n-known 'three': give numbers or ratios",
        ),
        (["run", "small.toml", "--jobs", "0"], "jobs=0 must be from 1"),
        (["run", "small.toml", "--store", "no/such.sqlite"], "there is no folder no"),
        (["run", "small.toml", "--store", "small.toml"], "it is read by this command"),
        (["run", "small.toml", "--store", "other.toml"], "not a file of results"),
        (["status", "small.toml"], "run the study first"),
        (["retry", "small.toml"], "run the study first"),
        (["export", "small.toml", "rows.csv"], "run the study first"),
        (["report", "small.toml", "out"], "run the study first"),
        (["import", "small.toml", "small.toml"], "it must be an export of a study"),
        (["import", "small.toml", "absent.csv"], "No such file"),
    ],
)
def test_errors_take_one_line(folder, arguments, message):
    # A value that cannot be read is wrong usage, whatever the study holds.
    output = _call(*arguments, code=2 if "three" in arguments else 1)
    assert output.startswith("openset: ")
    assert message in output
    assert output.count("\n") == 1


def test_ctrl_c(folder, monkeypatch):
    def interrupted(self, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(Here, "wait", interrupted)
    assert "Finished tasks are kept; run again to resume" in _call("run", "small.toml", code=130)


def test_the_command_does_not_load_the_estimators():
    import subprocess
    import sys

    code = "import sys; from openset.cli import app; sys.exit('openset.study' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_run_study_is_what_runs(folder, monkeypatch):
    seen = {}

    def spy(study, store, **options):
        seen.update(options)
        return run_study(study, store, **options)

    monkeypatch.setattr("openset.study.run_study", spy)
    _call("run", "small.toml", "--time-limit", "2", "--data-home", str(folder), "--n-known", "3")
    assert seen["time_limit"] == 120
    assert seen["data_home"] == folder
