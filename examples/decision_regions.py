"""Decision regions of every method
================================

Coloured regions are known, white is unknown, on the 2-D sets of the paper, scaled to the unit
square. Every method with a kernel width uses gamma = 16, and OpenSetSVC uses lambda = 0.2; all
other parameters have their default values.
"""

import os
import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import OneClassSVM

from openset import all_estimators
from openset.datasets import (
    load_dataset,
    make_boat,
    make_cone_torus,
    make_four_gauss,
    make_regular,
)
from openset.plots import DecisionRegionsDisplay, class_colors, class_marker

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
SETTINGS = {"gamma": 16.0, "lam": 0.2}
WRAPPED = {
    "ThresholdRejector": {"estimator": GaussianNB(), "threshold": 0.9},
    "CascadeRejector": {"rejector": OneClassSVM(gamma=16.0, nu=0.1), "estimator": GaussianNB()},
}


def load(name, make):
    """The points of the paper if OPENSET_DATA has them, else similar ones; in the unit square."""
    if Path(os.environ.get("OPENSET_DATA", ""), f"{name}.parquet").is_file():
        X, y = load_dataset(name, return_X_y=True)
    else:
        X, y = make(random_state=0)
    return MinMaxScaler().fit_transform(X), y


def methods():
    """Yield one instance of every open-set estimator of the library."""
    for name, estimator in all_estimators():
        model = estimator(**WRAPPED.get(name, {}))
        own = model.get_params(deep=False)
        yield name, model.set_params(**{k: v for k, v in SETTINGS.items() if k in own})


def draw_dataset(ax, X, y, like):
    """Draw only the training points, with the axis limits of the other panels."""
    labels = sorted(set(y))
    for c, label in enumerate(labels):
        ax.scatter(
            *X[y == label].T, color=class_colors(len(labels))[c], marker=class_marker(c), s=7
        )
    ax.set(xlim=like.get_xlim(), ylim=like.get_ylim())


def draw(name, resolution=300):
    """Draw one panel for the points and one panel per method."""
    X, y = load(name, GENERATORS[name])
    models = list(methods())
    n_columns = 5
    n_rows = -(-(len(models) + 1) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(2.6 * n_columns, 2.95 * n_rows), layout="constrained"
    )
    start = perf_counter()
    for ax, (method, model) in zip(axes.flat[1:], models, strict=False):
        model.fit(X, y)
        DecisionRegionsDisplay.from_estimator(
            model, X, y, grid_resolution=resolution, margin=0.4, legend=False, point_size=7, ax=ax
        )
        ax.set_title(f"{method}\n{model.bounded_.sum()} of {len(model.classes_)} provably bounded")
    print(f"{name}: {len(models)} methods in {perf_counter() - start:.1f} s")
    draw_dataset(axes.flat[0], X, y, axes.flat[1])
    axes.flat[0].set_title(f"{name}\n{len(set(y))} classes, {len(y)} samples")
    for k, ax in enumerate(axes.flat):
        ax.set(xlabel="", ylabel="", xticks=[0, 1], yticks=[0, 1], aspect="equal")
        ax.set_visible(k <= len(models))
    figure.get_layout_engine().set(h_pad=0.1)
    figure.supxlabel(CAPTION, fontsize="medium")
    return figure


def main():
    """Draw the sets that are named on the command line, or all four."""
    names = sys.argv[1:] or list(GENERATORS)
    if unknown := set(names) - GENERATORS.keys():
        raise SystemExit(f"no such set: {', '.join(unknown)}; choose from {', '.join(GENERATORS)}")
    for name in names:
        draw(name).savefig(f"decision-regions-{name}.png", dpi=100)
        print(f"wrote decision-regions-{name}.png")


if __name__ == "__main__":
    main()
