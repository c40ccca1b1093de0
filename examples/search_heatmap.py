"""Scores of a search
==================

The score with classes held out, over gamma and lambda on CONE-TORUS, and the regions of the best
setting.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import MinMaxScaler

from openset import OpenSetSVC
from openset.datasets import make_cone_torus
from openset.model_selection import OpenSetSearchCV
from openset.plots import DecisionRegionsDisplay, SearchHeatmapDisplay


def main():
    """Draw the scores, and the regions of the best setting."""
    X, y = make_cone_torus(random_state=0)
    X = MinMaxScaler().fit_transform(X)
    grid = {"gamma": [2.0**k for k in range(-3, 10)], "lam": [k / 20 for k in range(20)]}
    # Also the scores of settings that cannot become the best.
    search = OpenSetSearchCV(OpenSetSVC(), grid, all_scores=True, random_state=0).fit(X, y)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    SearchHeatmapDisplay.from_estimator(search, params=("lam", "gamma"), ax=axes[0])
    axes[0].set_title("score with classes held out\nhatched: a class is unbounded; star: best")
    DecisionRegionsDisplay.from_estimator(search, X, y, margin=0.4, point_size=10, ax=axes[1])
    best = ", ".join(f"{name} = {value:g}" for name, value in search.best_params_.items())
    axes[1].set_title(f"the best setting, fitted on all samples\n{best}")
    figure.savefig("search-heatmap.png", dpi=100)
    print("wrote search-heatmap.png")


if __name__ == "__main__":
    main()
