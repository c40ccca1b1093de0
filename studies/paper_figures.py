"""Draw the three figures of the paper: ``python studies/paper_figures.py OUT``.

The folder OUT gets

* ``figure-1.png``: BOAT, its three decision surfaces under the SVM (C = 1, gamma = 16), and what
  lambda does to the unbounded one;
* ``figure-2-NAME.png`` for each 2-D set: its points and the regions of the nine methods in the
  paper's order, parameters searched closed-set, for PI-SVM and EVM open-set;
* ``figure-3.png``: the six critical-difference diagrams of the methods of the paper, from the
  results of ``paper.toml``.

The sets are read from the folder ``OPENSET_DATA``, or ``--data-home``; one that is missing is an
error, since other points would make another figure. The drawing itself is that of the gallery.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import matplotlib
import pandas as pd

from openset.datasets import load_dataset
from openset.study import Store

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))

import boat_surfaces  # noqa: E402
import critical_difference  # noqa: E402
import decision_regions  # noqa: E402

RESULTS = HERE / "results" / "paper" / "results.csv.gz"


def paper_points(name: str, data_home: str | None) -> tuple:
    """The points of a 2-D set of the paper; an error if its file is missing."""
    if data_home is None or not Path(data_home, f"{name}.parquet").is_file():
        raise FileNotFoundError(
            f"the data home {data_home!r} has no {name}.parquet, and generated points are not the "
            "paper's; set OPENSET_DATA or --data-home to the folder of the sets."
        )
    return load_dataset(name, data_home=data_home, return_X_y=True)


def paper_rows(results: Path) -> pd.DataFrame:
    """The rows of the paper's nine methods in an export of ``paper.toml``."""
    with Store(":memory:", create=True) as store:
        store.import_csv(results)
        rows = store.frame()
    return rows[rows["method"].isin(decision_regions.METHODS)]


def main() -> None:
    """Draw all figures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--data-home", default=os.environ.get("OPENSET_DATA"))
    parser.add_argument("--figures", default="1,2,3", help="which, comma-separated")
    parser.add_argument("--results", type=Path, default=RESULTS, help="export of paper.toml")
    arguments = parser.parse_args()
    matplotlib.use("agg")
    arguments.out.mkdir(parents=True, exist_ok=True)
    wanted, figures = set(arguments.figures.split(",")), {}
    names = [name for name in decision_regions.GENERATORS if "2" in wanted or name == "boat"]
    points = {name: paper_points(name, arguments.data_home) for name in names}
    if "1" in wanted:
        figures["figure-1"] = boat_surfaces.draw(*points["boat"])
    if "2" in wanted:
        for name, (X, y) in points.items():
            figures[f"figure-2-{name}"], chosen = decision_regions.draw(name, X, y)
            for method, params in chosen.items():
                print(f"  {method}: {params}")
    if "3" in wanted:
        ranks = critical_difference.ours(paper_rows(arguments.results))
        figures["figure-3"] = critical_difference.draw(ranks)
    for name, figure in figures.items():
        figure.savefig(arguments.out / f"{name}.png", dpi=120)
        print(f"wrote {arguments.out / name}.png")


if __name__ == "__main__":
    main()
