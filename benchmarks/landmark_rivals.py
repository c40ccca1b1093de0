"""Landmark models against Nystroem + OneVsRestClassifier(LinearSVC) with the same landmarks.

``python -m benchmarks.landmark_rivals [letter kdd-tenth kdd]`` writes results/landmark-rivals.json.
The rival rejects a sample if no class has a positive decision value, as ours does.
"""

import json
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from openset import OpenSetSVC
from openset.metrics import normalized_accuracy

from .data import open_set_run
from .kdd import load
from .programs import N_JOBS

STORE = Path(__file__).resolve().parent / "results" / "landmark-rivals.json"


def _letter():
    return open_set_run("letter", 20, 0), {"gamma": 16.0, "C": 8.0}, 2000


def _kdd():
    return (*load("train"), *load("test")), {"gamma": 1.0, "C": 8.0}, 500


def _kdd_tenth():
    """Every tenth row, and all rows of the rarer classes: the rival needs too long for all."""
    (X, y, *test), *rest = _kdd()
    classes, counts = np.unique(y, return_counts=True)
    rows = (np.arange(len(y)) % 10 == 0) | np.isin(y, classes[counts < 1000])
    return (X[rows], y[rows], *test), *rest


CASES = {"letter": _letter, "kdd-tenth": _kdd_tenth, "kdd": _kdd}


class _Given(Nystroem):
    """Nystroem with given landmarks: it draws its components from the rows it is fitted on."""

    def fit_points(self, points):
        self.n_components = len(points)
        return self.fit(points)


def race(name):
    (X, y, X_test, y_test), setting, n_landmarks = CASES[name]()
    known = np.unique(y)

    def ours():
        return OpenSetSVC(
            landmarks=n_landmarks, random_state=0, cache_size=1500, n_jobs=N_JOBS, **setting
        ).fit(X, y)

    few = slice(None, None, len(y) // 500)  # compile first
    OpenSetSVC(landmarks=50, random_state=0, n_jobs=N_JOBS, **setting).fit(X[few], y[few])
    model, row = _timed(ours)
    answers = model.predict(X_test)
    unknown = model.unknown_label_
    rows = {"openset": row | _judge(y_test, answers, known, unknown)}
    print(name, rows, flush=True)

    def rival():
        features = _Given(gamma=setting["gamma"], random_state=0)
        features.fit_points(model.support_vectors_)
        machine = OneVsRestClassifier(
            LinearSVC(C=setting["C"], loss="hinge", tol=1e-3), n_jobs=N_JOBS
        )
        return features, machine.fit(features.transform(X), y)

    (features, machine), row = _timed(rival)
    scores = machine.decision_function(features.transform(X_test))
    answers = np.where(scores.max(axis=1) >= 0, known[scores.argmax(axis=1)], unknown)
    rows["Nystroem + LinearSVC"] = row | _judge(y_test, answers, known, unknown)
    print(name, rows, flush=True)
    return rows


def _timed(function):
    start, cpu = perf_counter(), process_time()
    answer = function()
    return answer, {
        "seconds": perf_counter() - start,
        "cpu_seconds": process_time() - cpu,
    }


def _judge(y_test, answers, known, unknown):
    return {"NA": float(normalized_accuracy(y_test, answers, known=known, unknown_label=unknown))}


def main():
    results = json.loads(STORE.read_text()) if STORE.exists() else {}
    for name in sys.argv[1:] or CASES:
        results[name] = race(name)
        STORE.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
