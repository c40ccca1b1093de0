"""A small table, a model fitted to it by the command itself, and how a command is run."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from openset.cli import app


class Trained(NamedTuple):
    model: Path
    train: Path
    output: str


def blobs(n=40, seed=0, classes="abcd"):
    """A table of an id, three features, a text and the class; one cloud for each class."""
    rng = np.random.default_rng(seed)
    centers = {c: 4.0 * np.random.default_rng(ord(c)).normal(size=3) for c in classes}
    kind = np.repeat(list(classes), n)
    X = np.array([centers[c] for c in kind]) + rng.normal(size=(len(kind), 3))
    order = rng.permutation(len(kind))
    table = pd.DataFrame(X[order], columns=["width", "height", "mass"])
    table.insert(0, "id", [f"{i:03d}" for i in range(len(table))])
    table["note"] = "as it came"
    table["kind"] = kind[order]
    return table


@pytest.fixture(scope="session")
def run():
    """Run the command in this process."""

    def call(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture(scope="session")
def trained(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    blobs().to_csv(folder / "train.csv", index=False)
    result = run(
        *("fit", folder / "train.csv", "--target", "kind", "-o", folder / "model.skops"),
        *("--turns", 2, "--jobs", 1),
    )
    assert result.exit_code == 0, result.stderr
    return Trained(folder / "model.skops", folder / "train.csv", result.stdout)


@pytest.fixture
def fails(run, tmp_path):
    """Run a command that must fail: its exit code, one line, no traceback, no new file."""

    def call(*arguments, code=1):
        before = set(tmp_path.rglob("*"))
        result = run(*arguments)
        assert result.exit_code == code, (result.exit_code, result.output)
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("openset: ")
        assert "Traceback" not in result.output
        assert set(tmp_path.rglob("*")) == before
        return lines[0]

    return call
