"""The picture of the demonstration: what both methods accept, on a plane through three digits."""

from pathlib import Path

import numpy as np

from openset.svm import OneVsRestSVC, OpenSetSVC


def save_picture(X, y, *, lam: float, path: Path = Path("demo-regions.png")) -> Path | None:
    """Draw the decision regions of the SVM and of OpenSetSVC side by side into a file.

    Parameters
    ----------
    X : ndarray of shape (m, d)
        Training samples, of at least three classes.
    y : ndarray of shape (m,)
    lam : float
        lambda of OpenSetSVC.
    path : Path, default="demo-regions.png"
        File to write.

    Returns
    -------
    Path or None
        The file; None without matplotlib.
    """
    try:
        from openset.plots import DecisionRegionsDisplay
    except ImportError:
        return None
    from matplotlib.figure import Figure  # a figure of our own: pyplot would want a screen

    three = np.unique(y)[:3]
    shown = np.isin(y, three)
    figure = Figure(figsize=(9, 5), layout="constrained")
    for ax, (name, model) in zip(
        figure.subplots(1, 2, sharey=True),
        {"SVM": OneVsRestSVC(), "OpenSetSVC": OpenSetSVC(lam=lam)}.items(),
        strict=True,
    ):
        model.fit(X, y)
        DecisionRegionsDisplay.from_estimator(
            model, X[shown], y[shown], plane="means", margin=0.9, legend=name != "SVM", ax=ax
        )
        bounded = f"{model.bounded_.sum()} of {len(model.classes_)} classes bounded"
        ax.set(title=f"{name}: {bounded}", aspect="equal")
    digits = ", ".join(map(str, three))
    figure.suptitle(f"A plane through the mean images of {digits}; white is unknown")
    figure.savefig(path, dpi=100)
    return path
