"""Fixtures for tests that read reference data from outside the repository."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def _existing(path: Path) -> Path:
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set OPENSET_SHARED to their folder")
    return path


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
