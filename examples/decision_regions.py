"""Decision regions of the paper's nine methods
============================================

Figure 2 of the paper: the 2-D sets, scaled to the unit square, and the nine methods in its order.
Coloured regions are known, white is unknown. The parameters are searched as there: over the
paper's grids, closed-set for all methods but PI-SVM and EVM, whose search is open-set.
"""

import os
import sys
import warnings
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import MinMaxScaler

from openset import OpenSetSearchCV, all_estimators
from openset.datasets import (
    load_dataset,
    make_boat,
    make_cone_torus,
    make_four_gauss,
    make_regular,
)
from openset.plots import DecisionRegionsDisplay, class_colors, class_marker
from openset.utils import method_table

CAPTION = (
    "A test sample in a coloured region gets the class of the samples of that colour; "
    "in a white region, the answer is unknown."
)
GENERATORS = {
    "cone-torus": make_cone_torus,
    "boat": make_boat,
    "four-gauss": make_four_gauss,
    "regular": lambda random_state: make_regular(),
}
# In the order of the paper's figure, with the scenario of the search.
METHODS = {
    "OneVsRestSVC": "closed",
    "MulticlassOneClassSVM": "closed",
    "MulticlassSVDD": "closed",
    "DecisionBoundaryCarving": "closed",
    "OneVsSetMachine": "closed",
    "WSVM": "closed",
    "PISVM": "open",
    "ExtremeValueMachine": "open",
    "OpenSetSVC": "closed",
}
PLACES = ["DATA", *METHODS]
ROWS = [PLACES[:4], [".", *PLACES[4:7]], [".", *PLACES[7:]]]


def load(name):
    """The points of the paper if OPENSET_DATA has them, else similar ones."""
    if Path(os.environ.get("OPENSET_DATA", ""), f"{name}.parquet").is_file():
        return load_dataset(name, return_X_y=True)
    return GENERATORS[name](random_state=0)


def draw_dataset(ax, X, y, like):
    """Draw only the training points, with the axis limits of the other panels."""
    labels = sorted(set(y))
    for c, label in enumerate(labels):
        ax.scatter(
            *X[y == label].T, color=class_colors(len(labels))[c], marker=class_marker(c), s=5
        )
    ax.set(xlim=like.get_xlim(), ylim=like.get_ylim())


def draw(name, X, y, resolution=300):
    """Draw the points and the regions of each method; return the figure and what was chosen."""
    X = MinMaxScaler().fit_transform(X)
    names = {row.estimator: row.method for row in method_table()}
    figure, axes = plt.subplot_mosaic(ROWS, figsize=(10.4, 8.8), layout="constrained")
    chosen, start = {}, perf_counter()
    for method, scenario in METHODS.items():
        search = OpenSetSearchCV(
            dict(all_estimators())[method](), preset="paper", scenario=scenario, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = search.fit(X, y).best_estimator_
        chosen[method] = search.best_params_
        DecisionRegionsDisplay.from_estimator(
            model,
            X,
            y,
            grid_resolution=resolution,
            margin=0.4,
            legend=False,
            point_size=1.5,
            ax=axes[method],
        )
        bounded = f"{model.bounded_.sum()} of {len(model.classes_)} provably bounded"
        axes[method].set_title(f"{names[method]}\n{bounded}")
    print(f"{name}: {len(chosen)} methods in {perf_counter() - start:.1f} s")
    draw_dataset(axes["DATA"], X, y, axes["OpenSetSVC"])
    axes["DATA"].set_title(f"{name}\n{len(set(y))} classes, {len(y)} samples")
    for ax in axes.values():
        ax.set(xlabel="", ylabel="", xticks=[0, 1], yticks=[0, 1], aspect="equal")
    figure.get_layout_engine().set(h_pad=0.1)
    figure.supxlabel(CAPTION, fontsize="medium")
    return figure, chosen


def main():
    """Draw the sets that are named on the command line, or all four."""
    names = sys.argv[1:] or list(GENERATORS)
    if unknown := set(names) - GENERATORS.keys():
        raise SystemExit(f"no such set: {', '.join(unknown)}; choose from {', '.join(GENERATORS)}")
    for name in names:
        figure, _ = draw(name, *load(name))
        figure.savefig(f"decision-regions-{name}.png", dpi=120)
        print(f"wrote decision-regions-{name}.png")


if __name__ == "__main__":
    main()
