"""Reads the model files named on standard input and tells what became of each, one line per file.

Runs in its own process, since a model that reads out of bounds may end it. With MALLOC_PERTURB_
set, fresh memory has a known pattern, which no score may show.
"""

import os
import sys
import warnings

import numpy as np


def _verdict(path, X):
    from openset.persistence import ModelFileError, load_model

    try:
        model = load_model(path)
    except ModelFileError:
        return "refused"
    try:
        scores = [model.decision_function(X) for _ in range(2)]
        answers = model.predict(X)
    except Exception as error:
        return f"raises {type(error).__name__}"
    shape = (len(X), len(model.classes_))
    if scores[0].shape != shape or answers.shape != shape[:1]:
        return f"BAD: scores of shape {scores[0].shape}, not {shape}"
    if not np.isfinite(scores[0]).all():
        return "BAD: scores are not finite"
    if scores[0].tobytes() != scores[1].tobytes():
        return "BAD: two calls give different scores"
    byte = int(os.environ.get("MALLOC_PERTURB_", "165"))
    patterns = [np.frombuffer(bytes([b]) * 8)[0] for b in (byte, byte ^ 255)]
    if np.isin(scores[0], patterns).any():
        return "BAD: scores are fresh memory"
    return "harmless"


def main():
    warnings.simplefilter("ignore")
    X = np.load(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        with np.errstate(all="ignore"):
            print(_verdict(line.rstrip("\n"), X), flush=True)


if __name__ == "__main__":
    main()
