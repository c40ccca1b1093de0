"""Draw the regions of every method for its page, `_generated/regions/ESTIMATOR.png`.

Each picture shows the method with its starting values, next to the SVM, on the same points.
"""

from pathlib import Path

from matplotlib.figure import Figure
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import OneClassSVM

from openset import OneVsRestSVC, all_estimators
from openset.datasets import make_boat
from openset.plots import DecisionRegionsDisplay

_WRAPPED = {
    "ThresholdRejector": {"estimator": GaussianNB(), "threshold": 0.9},
    "CascadeRejector": {"rejector": OneClassSVM(nu=0.1), "estimator": GaussianNB()},
}


def picture(name: str, estimator: type) -> Figure:
    """The regions of the method and of the SVM."""
    X, y = make_boat(200, random_state=1)
    X = MinMaxScaler().fit_transform(X)
    model = estimator(**_WRAPPED.get(name, {}))
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    for ax, drawn in zip(figure.subplots(1, 2, sharey=True), (OneVsRestSVC(), model), strict=True):
        drawn.fit(X, y)
        DecisionRegionsDisplay.from_estimator(
            drawn, X, y, margin=0.6, grid_resolution=300, legend=False, point_size=10, ax=ax
        )
        title = f"{type(drawn).__name__}\n{drawn.bounded_.sum()} of 3 classes provably bounded"
        ax.set(title=title, xlabel="", ylabel="", xticks=[], yticks=[])
    return figure


def draw_pictures(docs: Path) -> None:
    """Draw the pictures that do not exist yet; `make clean` removes them."""
    folder = docs / "_generated" / "regions"
    folder.mkdir(parents=True, exist_ok=True)
    for name, estimator in all_estimators():
        path = folder / f"{name}.png"
        if not path.exists():
            picture(name, estimator).savefig(path, dpi=110)


def setup(app):
    """Draw now, because the pictures must exist when Sphinx reads the pages."""
    draw_pictures(Path(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
