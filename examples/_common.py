"""Helpers of the examples: the output file, and the 2-D sets."""

import argparse
import os
import sys
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.preprocessing import MinMaxScaler

from openset.datasets import (
    load_dataset,
    make_boat,
    make_cone_torus,
    make_four_gauss,
    make_regular,
)

matplotlib.use("Agg")  # the examples write files and need no screen

FIGURES = Path(__file__).resolve().parent / "figures"
GENERATORS = {
    "cone-torus": lambda: make_cone_torus(random_state=0),
    "boat": lambda: make_boat(random_state=0),
    "four-gauss": lambda: make_four_gauss(random_state=0),
    "regular": make_regular,
}


def parser(doc: str) -> argparse.ArgumentParser:
    """Argument parser of an example, with the output file (default: in examples/figures)."""
    arguments = argparse.ArgumentParser(description=doc.partition("\n")[0])
    name = Path(sys.argv[0]).stem.replace("_", "-")
    arguments.add_argument("--output", type=Path, default=FIGURES / f"{name}.png")
    return arguments


def save(figure, path: Path, **options) -> None:
    """Write a figure and print its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, **options)
    print(f"wrote {os.path.relpath(path)}")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load a 2-D set, scaled to the unit square, from OPENSET_DATA, or generate it."""
    home = os.environ.get("OPENSET_DATA")
    if home and Path(home, f"{name}.parquet").is_file():
        X, y = load_dataset(name, return_X_y=True)
    else:
        print(f"{name}: no file in OPENSET_DATA; generating similar points")
        X, y = GENERATORS[name]()
    return MinMaxScaler().fit_transform(X), y
