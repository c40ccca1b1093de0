"""Seen and unseen digits
======================

Curves, scores and the confusion matrix. Six of the ten digits are known; the other four occur only
in the test set. The same search tunes both methods. It holds out some of the six digits and never
sees the test set.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from openset import OpenSetSVC
from openset.model_selection import OpenSetSearchCV
from openset.plots import (
    KnownROCDisplay,
    OpenSetConfusionMatrixDisplay,
    OSCRDisplay,
    ScoreHistogramDisplay,
)
from openset.wrappers import ThresholdRejector


def main():
    """Draw four views of the same test set."""
    X, y = load_digits(return_X_y=True)
    X, known = X / 16, y < 6
    X_train, X_rest, y_train, y_rest = train_test_split(
        X[known], y[known], test_size=0.5, stratify=y[known], random_state=0
    )
    X_test = np.concatenate([X_rest, X[~known]])
    y_test = np.concatenate([y_rest, y[~known]])
    models = {
        "logistic regression": OpenSetSearchCV(
            ThresholdRejector(LogisticRegression(max_iter=1000)),
            {"threshold": [k / 20 for k in range(5, 20)]},
            random_state=0,
        ),
        "OpenSetSVC": OpenSetSearchCV(OpenSetSVC(), random_state=0),
    }
    figure, axes = plt.subplots(2, 2, figsize=(10, 9), layout="constrained")
    for name, model in models.items():
        model.fit(X_train, y_train)
        best = ", ".join(f"{key}={value:.3g}" for key, value in model.best_params_.items())
        print(f"{name}: {best}")
        OSCRDisplay.from_estimator(model, X_test, y_test, name=name, ax=axes[0, 0])
        KnownROCDisplay.from_estimator(model, X_test, y_test, name=name, ax=axes[0, 1])
    axes[0, 0].set_title("Open-set classification rate (marker: threshold 0)")
    axes[0, 1].set_title("Known against unknown (marker: threshold 0)")
    ScoreHistogramDisplay.from_estimator(model, X_test, y_test, ax=axes[1, 0])
    OpenSetConfusionMatrixDisplay.from_estimator(model, X_test, y_test, ax=axes[1, 1])
    for ax in axes[1]:
        ax.set_title(f"{name}: {best}")
    figure.savefig("digits-unknown.png", dpi=100)
    print("wrote digits-unknown.png")


if __name__ == "__main__":
    main()
