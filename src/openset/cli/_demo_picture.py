"""The picture of the demonstration: what each method accepts, on a plane through three digits."""

from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

from openset.utils import atomic_write


def save_picture(
    models: dict[str, BaseEstimator], X, y, path: Path = Path("demo-regions.png")
) -> Path | None:
    """Draw the decision regions of several models into a file.

    Parameters
    ----------
    models : dict {str: estimator}
        Titles and open-set estimators; they are fitted here.
    X : ndarray of shape (m, d)
        Training samples, of at least three classes.
    y : ndarray of shape (m,)
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
    n_rows = -(-len(models) // 2)
    figure = Figure(figsize=(9, 0.6 + 4.4 * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, 2, sharex=True, sharey=True, squeeze=False)
    for k, (title, model) in enumerate(models.items()):
        model.fit(X, y)
        ax = axes.flat[k]
        DecisionRegionsDisplay.from_estimator(
            model, X[shown], y[shown], plane="means", margin=0.9, legend=k == 1, ax=ax
        )
        bounded = f"{np.sum(model.bounded_)} of {len(model.classes_)} classes bounded"
        ax.set(title=f"{title}\n{bounded}", aspect="equal", xlabel="", ylabel="")
    digits = ", ".join(map(str, three))
    figure.suptitle(f"A plane through the mean images of {digits}; white is unknown")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=100)
    return path
