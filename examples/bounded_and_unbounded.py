"""Bounded and unbounded regions
=============================

Two classifiers on the same points, with the same kernel width and the same C. The SVM assigns
everything far away to the ring; OpenSetSVC bounds every class, and white is unknown. This figure is
in the README.
"""

import matplotlib.pyplot as plt

from openset import OneVsRestSVC, OpenSetSVC
from openset.datasets import make_boat
from openset.plots import DecisionRegionsDisplay


def main():
    """Draw two panels with the same data, C and gamma."""
    X, y = make_boat(200, random_state=1)
    models = {"SVM": OneVsRestSVC(gamma=1.0), "OpenSetSVC": OpenSetSVC(gamma=1.0, lam=0.2)}
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
    for ax, (name, model) in zip(axes, models.items(), strict=True):
        model.fit(X, y)
        DecisionRegionsDisplay.from_estimator(
            model, X, y, margin=0.5, grid_resolution=400, legend=False, ax=ax
        )
        finding = "bounded, white is unknown" if model.bounded_.all() else "the ring is unbounded"
        ax.set(title=f"{name}: {finding}", xlabel="", ylabel="", xticks=[], yticks=[])
    figure.savefig("bounded-and-unbounded.png", dpi=100)
    print("wrote bounded-and-unbounded.png")


if __name__ == "__main__":
    main()
