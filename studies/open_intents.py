"""What belongs to the open-intent study alone: its curves, the published table, its report.

Run as a script::

    python studies/open_intents.py reference PUBLISHED reference.csv
    python studies/open_intents.py report studies/open_intents.toml RESULTS FOLDER \
        --published PUBLISHED --other "default search alone" OTHER_RESULTS

PUBLISHED is ``textoir_published.json``, the means of TEXTOIR's table. The first command writes them
as a table of reference results, for ``openset study report --reference``. The second writes the
report of the study from its exported results, with the published rows, the operating curves, and
every other rule that was tried. The study records its curves through :func:`curve`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from openset.utils import decide

# our name of a dataset -> (name in the published table, number of its classes)
DATASETS = {"clinc150-minilm": ("oos", 150), "banking77-minilm": ("banking", 77)}

# measure in an export -> (name in the published table, name for readers)
MEASURES = {"FMmicro": ("accuracy", "accuracy"), "FMmacro": ("f1", "macro F1")}

# Shares of the known test rows that are rejected, at which a curve is recorded.
SHARES = np.linspace(0, 0.6, 31)


def curve(result, X_train, y_train) -> dict:
    """Accuracy and macro F1 on the test rows by the share of known ones rejected, and the best.

    The best of each over the thresholds is what tuning on the test rows could reach.
    """
    evaluation = result.evaluation
    n_classes = len(evaluation.classes)
    truth = np.where(
        evaluation.is_known, np.searchsorted(evaluation.classes, evaluation.truth), n_classes
    )
    best = evaluation.scores.max(axis=1)
    thresholds = np.quantile(best[evaluation.is_known], SHARES)
    values = np.array([accuracy_and_f1(truth, evaluation.scores - t) for t in thresholds])
    accuracy, f1 = values.T.round(5).tolist()
    return {"rejected": SHARES.round(3).tolist(), "accuracy": accuracy, "f1": f1}


def accuracy_and_f1(truth: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Accuracy and F1 averaged over the K classes and the open class, whose code is K."""
    size = scores.shape[1] + 1
    counts = np.bincount(truth * size + decide(scores), minlength=size * size).reshape(size, size)
    right = np.diag(counts)
    f1 = 2 * right / np.maximum(1, counts.sum(axis=0) + counts.sum(axis=1))
    return right.sum() / counts.sum(), f1.mean()


def reference(published: Path) -> pd.DataFrame:
    """The published means as a table of reference results; they have no standard errors."""
    table = json.loads(published.read_text(encoding="utf-8"))["results"]
    rows = [
        (dataset, round(n_classes * float(ratio)), method, measure, cell[key] / 100, np.nan)
        for dataset, (name, n_classes) in DATASETS.items()
        for ratio, methods in table[name].items()
        for method, cell in methods.items()
        for measure, (key, _) in MEASURES.items()
    ]
    columns = ["dataset", "n_known", "method", "measure", "mean", "standard_error"]
    return pd.DataFrame(rows, columns=columns)
