"""Decision regions of every method
================================

Coloured regions are known, white is unknown, on the 2-D sets of the paper, scaled to the unit
square. Every method with a kernel width uses gamma = 16, and OpenSetSVC uses lambda = 0.2; all
other parameters have their default values.
"""

from time import perf_counter

import matplotlib.pyplot as plt
from _common import GENERATORS, load, parser, save
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import OneClassSVM

from openset import all_estimators
from openset.plots import DecisionRegionsDisplay, class_colors, class_marker

CAPTION = (
    "A test sample in a coloured region gets the class of the samples of that colour; "
    "in a white region, the answer is unknown."
)
SETTINGS = {"gamma": 16.0, "lam": 0.2}
WRAPPED = {
    "ThresholdRejector": {"estimator": GaussianNB(), "threshold": 0.9},
    "CascadeRejector": {"rejector": OneClassSVM(gamma=16.0, nu=0.1), "estimator": GaussianNB()},
}


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


def draw(name, resolution):
    """Draw one panel for the points and one panel per method."""
    X, y = load(name)
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
    """Draw one set, or all four."""
    arguments = parser(__doc__)
    arguments.add_argument("datasets", nargs="*", help=f"of {', '.join(GENERATORS)}; default: all")
    arguments.add_argument("--resolution", type=int, default=300, help="grid points per side")
    arguments = arguments.parse_args()
    if unknown := set(arguments.datasets) - GENERATORS.keys():
        raise SystemExit(f"no such set: {', '.join(unknown)}; choose from {', '.join(GENERATORS)}")
    for name in arguments.datasets or GENERATORS:
        path = arguments.output.with_stem(f"{arguments.output.stem}-{name}")
        save(draw(name, arguments.resolution), path, dpi=100)


if __name__ == "__main__":
    main()
