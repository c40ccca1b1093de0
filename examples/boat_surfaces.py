"""Why an SVM accepts an unbounded region
=======================================

Decision surfaces on BOAT. No other class surrounds the ring, class 3, so its bias b is positive: it
accepts an unbounded region. The two classes inside the ring have b < 0 and are bounded. With
lambda = 0.2, the ring is bounded too.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.preprocessing import MinMaxScaler

from openset.datasets import load_dataset, make_boat
from openset.plots import DecisionSurfaceDisplay, LambdaPathDisplay, class_colors, class_marker
from openset.svm import OneVsRestSVC, OpenSetSVC, lambda_path

GAMMA, LAM = 16.0, 0.2
CAPTION = (
    "Floor: the two features. Height: the decision function $f$. Coloured lines: $f = 0$ on the "
    "walls, and the border of the accepted region on the floor.\nFar from all support vectors, "
    "$f$ tends to $b$, so the SVM accepts an unbounded region for class 3, where $b > 0$."
)
NAMES = {1: "red, inside at the left", 2: "green, inside at the right", 3: "blue, the ring"}


def load():
    """The points of the paper if OPENSET_DATA has them, else similar ones."""
    if Path(os.environ.get("OPENSET_DATA", ""), "boat.parquet").is_file():
        return load_dataset("boat", return_X_y=True)
    return make_boat(random_state=0)


def draw_dataset(ax, X, y):
    """Draw the training points in the colours of the surfaces."""
    for c, label in enumerate(NAMES):
        ax.scatter(
            *X[y == label].T,
            color=class_colors(3)[c],
            marker=class_marker(c),
            s=20,
            label=f"class {label}: {NAMES[label]}",
        )
    ax.set(title="BOAT, scaled to the unit square", xlabel="feature 0", ylabel="feature 1")
    ax.set_ylim(-0.05, 1.55)
    ax.legend(loc="upper right")


def draw(X, y):
    """Draw the data, four surfaces and the lambda path."""
    X = MinMaxScaler().fit_transform(X)
    svm = OneVsRestSVC(C=1.0, gamma=GAMMA, tol=1e-6).fit(X, y)
    bounded = OpenSetSVC(C=1.0, gamma=GAMMA, lam=LAM, tol=1e-6).fit(X, y)
    print("biases of the SVM:", *(f"{b:+.3f}" for b in svm.intercept_))

    figure = plt.figure(figsize=(13, 8.6), layout="constrained")
    draw_dataset(figure.add_subplot(2, 3, 1), X, y)
    for place, model, label in ((2, svm, 1), (3, svm, 2), (4, svm, 3), (5, bounded, 3)):
        ax = figure.add_subplot(2, 3, place, projection="3d")
        display = DecisionSurfaceDisplay.from_estimator(model, X, label, margin=0.4, ax=ax)
        method = "SVM" if model is svm else rf"OpenSetSVC, $\lambda$ = {LAM:g} $C m_p$"
        ax.set_title(f"{method}\n{display.title}")
    ax = figure.add_subplot(2, 3, 6)
    LambdaPathDisplay.from_path(lambda_path(X, y, C=1.0, gamma=GAMMA), ax=ax)
    ax.set_title("Bias of each class: lambda bounds the ring")
    figure.supxlabel(CAPTION, fontsize="medium")
    return figure


def main():
    """Write the figure."""
    draw(*load()).savefig("boat-surfaces.png", dpi=100)
    print("wrote boat-surfaces.png")


if __name__ == "__main__":
    main()
