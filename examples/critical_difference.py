"""Critical-difference diagrams
============================

Six diagrams of nine methods, from the study ``studies/better.toml``. OSSVM is the control of a
Bonferroni-Dunn test; the red bar covers the methods that do not differ significantly
from it. If the folder ``OPENSET_SHARED`` contains the results published with the paper, these are
drawn instead.
"""

import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from openset.plots import CriticalDifferenceDisplay
from openset.study import rank_methods
from openset.study.stats import critical_difference
from openset.utils import method_table

# Here, or in a checkout of the repository; `openset study export` writes such a file.
STUDY = "studies/results/better/results.csv.gz"
PLACES = [Path("results.csv.gz"), Path(STUDY), Path("..", STUDY)]
CONTROL = "OSSVM"
# Name in a study -> full name.
MEASURES = {
    "NA": "Normalized accuracy (NA)",
    "HNA": "Harmonic normalized accuracy (HNA)",
    "OSFMmacro": "Macro open-set F-measure (OSFM macro)",
    "OSFMmicro": "Micro open-set F-measure (OSFM micro)",
    "FMmacro": "Macro F-measure with unknown (FM macro)",
    "FMmicro": "Micro F-measure with unknown (FM micro)",
}
PUBLISHED_METHODS = {
    "ssvm": CONTROL,
    "svm": "SVM",
    "ocsvm": "OCSVM",
    "svdd": "SVDD",
    "svmdbc": "DBC",
    "onevset": "1VS",
    "wsvm": "W-SVM",
    "pisvm": "PI-SVM",
    "evm": "EVM",
}


def ours(rows):
    """Average ranks and critical difference of each measure, from the rows of a study."""
    rankings = rank_methods(rows)[0]
    names = {row.estimator: row.method for row in method_table()}
    return {
        ranking.measure: (
            {names[method]: rank for method, rank in ranking.ranks.items()},
            critical_difference(len(ranking.ranks), ranking.n_blocks),
        )
        for ranking in rankings
        if ranking.measure in MEASURES
    }


def published(path):
    """The same for the paper; its critical difference uses the tabulated quantile, 2.724.

    In the published files, the names of the two F-measures are swapped.
    """
    found = json.loads(path.read_text("utf-8"))["ranks"]["open_set_grid_search_O"]
    swapped = {"OSFMmacro": "FMmacro", "FMmacro": "OSFMmacro"}
    swapped |= {"OSFMmicro": "FMmicro", "FMmicro": "OSFMmicro"}
    results = {measure: found[swapped.get(measure, measure)] for measure in MEASURES}
    return {
        measure: (
            {PUBLISHED_METHODS[key]: rank for key, rank in result["average_ranks"].items()},
            result["CD"],
        )
        for measure, result in results.items()
    }


def draw(ranks):
    """Draw one diagram per measure and print which methods the red bar covers."""
    figure, axes = plt.subplots(3, 2, figsize=(11, 7), layout="constrained")
    for ax, (measure, (average, difference)) in zip(axes.flat, ranks.items(), strict=True):
        display = CriticalDifferenceDisplay(
            ranks=average, control=CONTROL, critical_difference=difference
        ).plot(ax=ax)
        title = MEASURES[measure]
        ax.set_title(title)
        alike = ", ".join(display.not_different) or "none"
        print(f"{title}: not different from {CONTROL}: {alike}")
    return figure


def main():
    """Draw the published results or those of the study."""
    path = Path(os.environ.get("OPENSET_SHARED", "."), "golden", "paper_ranks.json")
    found = [place for place in PLACES if place.is_file()]
    if not path.is_file() and not found:
        print("skipped: openset study export studies/better.toml results.csv.gz writes the results")
        return
    ranks = (
        published(path) if path.is_file() else ours(pd.read_csv(found[0], keep_default_na=False))
    )
    draw(ranks).savefig("critical-difference.png", dpi=100)
    print("wrote critical-difference.png")


if __name__ == "__main__":
    main()
