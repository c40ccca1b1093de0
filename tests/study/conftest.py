"""A study small enough to run many times, and its store."""

import pytest

from openset.study import Store, Study

PAPER = {"preset": "paper"}


@pytest.fixture
def tiny() -> Study:
    """Six tasks on generated data, a fraction of a second each."""
    return Study(
        name="tiny",
        datasets=("make_four_gauss",),
        methods=("OneVsRestSVC", "OneVsSetMachine"),
        n_known=(3,),
        runs=3,
        search=PAPER,
    )


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite", create=True) as store:
        yield store
