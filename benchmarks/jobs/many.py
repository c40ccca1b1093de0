"""The default search on many classes: a race, on 150 classes of embeddings."""

from time import perf_counter

import numpy as np

from openset import OpenSetSVC
from openset.model_selection import OpenSetSearchCV

from .. import memory
from ..data import clinc
from ..programs import N_JOBS
from ..report import Section, at_most

LIMIT = 90


def run(quick):
    X, y = clinc(60 if quick else 150)
    if quick:
        X, y = X[::5], y[::5]
    few = np.isin(y, np.unique(y)[:6])
    _search().fit(X[few][::5], y[few][::5])  # compiled before the clock starts
    start = perf_counter()
    search = _search(verbose=1).fit(X, y)
    seconds = perf_counter() - start
    scores = search.cv_results_["mean_test_score"]
    best = ", ".join(f"{name} {value:g}" for name, value in search.best_params_.items())
    table = [
        ["candidates", "simulations", "seconds", "peak memory", "best score", "best setting"],
        [
            f"{np.isfinite(scores).sum()} of {len(scores)}",
            str(search.n_splits_),
            f"{seconds:.4g}",
            f"{memory.peak():.0f} MB" if memory.KNOWN else "",
            f"{search.best_score_:.4f}",
            best,
        ],
    ]
    section = Section(
        "The default search on many classes",
        f"CLINC150, {len(np.unique(y))} classes, {X.shape[0]} x {X.shape[1]}: "
        f"`OpenSetSearchCV(OpenSetSVC())` on {N_JOBS} threads, the fit of the best setting "
        "included.",
        [table],
    )
    section.targets.append(at_most("search, 150 classes", LIMIT, seconds, " s"))
    return section


def _search(**settings):
    return OpenSetSearchCV(OpenSetSVC(), random_state=0, n_jobs=N_JOBS, **settings)
