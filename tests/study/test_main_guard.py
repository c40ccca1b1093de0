"""A script that calls run_study without a guard gets told so, and no task is recorded."""

import subprocess
import sys

from openset.study import Store

SCRIPT = """
from openset.study import Store, Study, run_study
study = Study("tiny", ("make_four_gauss",), ("OneVsSetMachine",), (3,), runs=1)
with Store("results.sqlite", create=True) as store:
    run_study(study, store, jobs=1)
"""


def test_without_a_guard_nothing_is_recorded(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    result = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert result.returncode != 0
    assert "call run_study under `if __name__ == '__main__':`" in result.stderr
    with Store(tmp_path / "results.sqlite") as store:
        assert store.tasks("failed") == set()
