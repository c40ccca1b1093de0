"""SIGINT at a random moment: KeyboardInterrupt soon, and a model that can be fitted again."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings

import numpy as np

from openset import OpenSetSVC
from openset.calibration import CalibratedRejector
from openset.evt import ExtremeValueMachine
from openset.model_selection import OpenSetSearchCV
from openset.svm import FixedBiasSVC

# Seconds within which the interrupt has to arrive.
_PATIENCE = 10.0


def attack(rng: np.random.Generator) -> dict:
    """One fit or search, interrupted."""
    d = int(rng.choice([4, 100]))
    y = np.arange(900) % 6
    X = rng.normal(size=(6, d))[y] + rng.normal(size=(900, d))
    models = [
        OpenSetSVC(C=1e3, tol=1e-5, n_jobs=2),
        OpenSetSVC(landmarks=50, random_state=0),
        FixedBiasSVC(C=1e3, tol=1e-5),
        ExtremeValueMachine(n_jobs=2),
        OpenSetSearchCV(OpenSetSVC(), random_state=0, n_jobs=2),
        CalibratedRejector(OpenSetSVC(C=1e3, tol=1e-5), random_state=0),
    ]
    model = models[rng.integers(len(models))]
    # A suite started in the background ignores SIGINT: Python's own handler is set here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sent: list[float] = []

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(float(rng.uniform(0.0, 0.6)), send)
    interrupted, waited = 0, 0.0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                timer.start()
                model.fit(X, y)
                timer.cancel()
                timer.join()  # it may be sending now
            except KeyboardInterrupt:
                interrupted, waited = 1, time.monotonic() - sent[0]
            model.fit(X[:120], y[:120])
            assert np.isfinite(model.decision_function(X[:50])).all()
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    assert waited < _PATIENCE, f"the interrupt took {waited:.1f} s"
    return {"group": type(model).__name__, "points": interrupted, "waited": waited}
