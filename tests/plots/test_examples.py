"""Every example runs when it is copied, without the repository, and writes its figure."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("[!_]*.py"))
NEED_FILES = [
    "clinc150_intents.py",
    "clinc150_loop.py",
    "critical_difference.py",
    "kdd99_attacks.py",
]

pytestmark = pytest.mark.slow


def _run(script, folder, *arguments, **environment):
    copy = shutil.copy(EXAMPLES / script, folder)
    kept = {k: v for k, v in os.environ.items() if k not in ("OPENSET_DATA", "OPENSET_SHARED")}
    run = subprocess.run(
        [sys.executable, str(copy), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**kept, **environment},
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def _check(path):
    image = imread(path)
    assert min(image.shape[:2]) > 200
    assert image[..., :3].std() > 0.05  # something is drawn


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s not in NEED_FILES])
def test_a_copy_runs(script, tmp_path):
    printed = _run(script, tmp_path)
    written = list(tmp_path.glob("*.png"))
    assert len(written) == printed.count("wrote ") == (4 if script == "decision_regions.py" else 1)
    for path in written:
        _check(path)


def test_boat_has_the_biases_of_the_paper(data_home, tmp_path):
    printed = _run("boat_surfaces.py", tmp_path, OPENSET_DATA=str(data_home))
    assert "biases of the SVM: -0.832 -0.860 +0.594" in printed
    _check(tmp_path / "boat-surfaces.png")


def test_the_nine_methods_on_cone_torus_in_time(data_home, tmp_path):
    printed = _run("decision_regions.py", tmp_path, "cone-torus", OPENSET_DATA=str(data_home))
    seconds = float(re.search(r"methods in ([\d.]+) s", printed)[1])
    assert seconds < 20  # nine searches, 300 x 300 points each
    _check(tmp_path / "decision-regions-cone-torus.png")


def test_critical_difference(shared_dir, golden_dir, tmp_path):
    printed = _run("critical_difference.py", tmp_path, OPENSET_SHARED=str(shared_dir))
    assert printed.count("not different from OSSVM") == 6
    # As published.
    assert "(NA): not different from OSSVM: EVM, PI-SVM\n" in printed
    assert "(FM micro): not different from OSSVM: EVM\n" in printed
    _check(tmp_path / "critical-difference.png")


def test_critical_difference_of_our_study(tmp_path):
    shutil.copy(EXAMPLES.parent / "studies" / "results" / "better" / "results.csv.gz", tmp_path)
    assert "(NA): not different from OSSVM" in _run("critical_difference.py", tmp_path)
    _check(tmp_path / "critical-difference.png")


@pytest.mark.parametrize("script", NEED_FILES)
def test_says_what_is_missing(script, tmp_path):
    printed = _run(script, tmp_path)
    assert printed.startswith("skipped: ")
    assert not list(tmp_path.glob("*.png"))
