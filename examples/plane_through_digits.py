"""A plane through 64 dimensions
=============================

Decision regions on the plane through the means of three digits. The dashed outlines are
certificates: a class rejects everything beyond its outline.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from openset import OneVsRestSVC, OpenSetSVC
from openset.plots import DecisionRegionsDisplay


def main():
    """Draw two models on the same plane."""
    X, y = load_digits(n_class=3, return_X_y=True)
    X = X / 16
    models = (OneVsRestSVC(), OpenSetSVC(lam=0.1))
    figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
    for ax, model in zip(axes, models, strict=True):
        model.fit(X, y)
        DecisionRegionsDisplay.from_estimator(
            model,
            X,
            y,
            plane="means",
            margin=0.9,
            certificate=isinstance(model, OpenSetSVC),
            legend=isinstance(model, OpenSetSVC),
            ax=ax,
        )
        ax.set(title=f"{model}: {model.bounded_.sum()} of 3 classes bounded", aspect="equal")
    figure.savefig("plane-through-digits.png", dpi=100)
    print("wrote plane-through-digits.png")


if __name__ == "__main__":
    main()
