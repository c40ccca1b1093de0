"""Fixtures of all tests: seeded draws, and reference data from outside the repository."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from openset.datasets import load_dataset

# The command writes plain lines of 80 columns, also where a terminal, or GitHub, asks for colours;
# typer reads some of these when it is imported.
for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH"):
    os.environ.pop(name, None)
os.environ |= {"COLUMNS": "80", "NO_COLOR": "1"}

REPOSITORY = Path(__file__).resolve().parents[1]

# Attacks are run by `make fuzz` and hold no examples to collect.
collect_ignore_glob = ["fuzz/fuzz_*.py"]


def _existing(path: Path) -> Path:
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set OPENSET_SHARED to their folder")
    return path


@pytest.fixture(autouse=True)
def seeded():
    """Seed NumPy's global state, from which every ``random_state=None`` draws."""
    np.random.seed(0)  # noqa: NPY002


@pytest.fixture(scope="session", autouse=True)
def ctrl_c():
    """Handle SIGINT, which is ignored in the background, here and in every program started here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Folder of the reference data: OPENSET_SHARED, or ``shared`` beside the repository."""
    return _existing(Path(os.environ.get("OPENSET_SHARED") or REPOSITORY.parent / "shared"))


@pytest.fixture(scope="session")
def data_home(shared_dir: Path) -> Path:
    """Folder of the Parquet datasets."""
    return _existing(shared_dir / "data")


@pytest.fixture(scope="session")
def golden_dir(shared_dir: Path) -> Path:
    """Folder of solutions computed by other programs."""
    return _existing(shared_dir / "golden")


@pytest.fixture(scope="session")
def baselines(golden_dir: Path, data_home: Path):
    """Reference problem of the baselines: (problem, solutions by method, X, y, train, test).

    X is scaled as the reference programs had it; train and test are its rows.
    """
    reference = json.loads((golden_dir / "baselines_openset.json").read_text())
    problem = reference["problem"]
    X, y = load_dataset(problem["dataset"], data_home=data_home, return_X_y=True)
    train, test = np.array(problem["train_rows"]), np.array(problem["test_rows"])
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    sums = problem["scaled_checksums"]
    np.testing.assert_allclose(X[train].sum(), sums["sum_train"], rtol=1e-12)
    np.testing.assert_allclose(X[test].sum(), sums["sum_test"], rtol=1e-12)
    return problem, reference["methods"], X, y, train, test
