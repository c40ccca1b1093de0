"""Landmark models against Nystroem + OneVsRestClassifier(LinearSVC) with the same landmarks.

``python -m benchmarks.landmark_rivals [letter kdd] [--losses hinge] [--limit 240]`` writes
results/landmark-rivals.json. The rivals reject a sample if no class has a positive decision value,
as ours does. Each runs in a process of its own, which is ended after so many seconds of fitting.
"""

import argparse
import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
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


CASES = {"letter": _letter, "kdd": _kdd}
# Other values of lambda than 0 to try; 0.05 is what the default search chooses on letter.
LAMBDAS = {"letter": [0.05], "kdd": []}
LOSSES = {"hinge": {"loss": "hinge", "tol": 1e-3}, "squared hinge": {"dual": False, "tol": 1e-3}}


class _Given(Nystroem):
    """Nystroem with given landmarks: it draws its components from the rows it is fitted on."""

    def fit_points(self, points):
        self.n_components = len(points)
        return self.fit(points)


def race(name, losses, limit):
    (X, y, X_test, y_test), setting, n_landmarks = CASES[name]()
    known = np.unique(y)

    def ours(lam=0.0):
        machine = OpenSetSVC(landmarks=n_landmarks, random_state=0, cache_size=1500, lam=lam)
        return machine.set_params(n_jobs=N_JOBS, **setting).fit(X, y)

    few = slice(None, None, len(y) // 500)  # compile first
    OpenSetSVC(landmarks=50, random_state=0, n_jobs=N_JOBS, **setting).fit(X[few], y[few])
    for lam in [*LAMBDAS[name], 0.0]:
        model, row = _timed(lambda: ours(lam))  # noqa: B023
        answers = model.predict(X_test)
        label = f"openset, lam {lam:g}" if lam else "openset"
        yield label, row | _judge(y_test, answers, known, model.unknown_label_)
    points, unknown = model.support_vectors_, model.unknown_label_
    context = get_context("spawn")
    for loss in losses:
        queue = context.Queue()
        process = context.Process(target=_rival, args=(queue, name, loss, points, unknown))
        process.start()
        queue.get()  # the data are loaded
        try:
            row = queue.get(timeout=limit)
        except Empty:
            row = {"more_than": limit}
        os.killpg(process.pid, signal.SIGKILL)  # with its workers
        process.join()
        yield f"Nystroem + LinearSVC, {loss}", row


def _rival(queue, name, loss, points, unknown):
    os.setpgrp()
    (X, y, X_test, y_test), setting, _ = CASES[name]()
    known = np.unique(y)
    queue.put(None)

    def fit():
        features = _Given(gamma=setting["gamma"], random_state=0).fit_points(points)
        machine = OneVsRestClassifier(LinearSVC(C=setting["C"], **LOSSES[loss]), n_jobs=N_JOBS)
        return features, machine.fit(features.transform(X), y)

    (features, machine), row = _timed(fit)
    scores = machine.decision_function(features.transform(X_test))
    answers = np.where(scores.max(axis=1) >= 0, known[scores.argmax(axis=1)], unknown)
    queue.put(row | _judge(y_test, answers, known, unknown))


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
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*CASES])
    parser.add_argument("--losses", nargs="+", default=[*LOSSES])
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--store", type=Path, default=STORE)
    options = parser.parse_args()
    store = options.store
    results = json.loads(store.read_text()) if store.exists() else {}
    for name in options.names:
        for program, row in race(name, options.losses, options.limit):
            print(name, program, row, flush=True)
            results.setdefault(name, {})[program] = row
            store.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
