"""Which rows should a report hold out? python -m benchmarks.held_out_rows [NAME ...]

Prints AKS of one setting on consecutive fifths of each class, on random fifths, and on the test
rows that come with the data, for the table in benchmarks/front_door.md. Reads from
$OPENSET_SHARED/data.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler

from openset import OpenSetSVC, make_pipeline
from openset.evaluation import held_out_report

DATA = Path(os.environ.get("OPENSET_SHARED", "../shared"), "data")
# Rows of the training part, where a column does not say it; gamma=None takes the default.
SETS = {
    "clinc150-minilm": (None, 0.221),
    "banking77-minilm": (None, 0.221),
    "pendigits": (7494, None),
    "optdigits": (3823, None),
}


def load(name, n_train):
    """Training rows, and the other parts by name."""
    table = pd.read_parquet(DATA / f"{name}.parquet")
    if n_train is not None:
        part = np.where(np.arange(len(table)) < n_train, "train", "test")
    else:
        part = table.pop("split").to_numpy()
        table = table.drop(columns="text")
    y = table.pop("target").to_numpy()
    X = table.to_numpy(float)
    X = X[:, np.ptp(X[part == "train"], axis=0) > 0]
    return {name: (X[part == name], y[part == name]) for name in np.unique(part)}


def main():
    for name in sys.argv[1:] or SETS:
        n_train, gamma = SETS[name]
        parts = load(name, n_train)
        X, y = parts["train"]
        svc = OpenSetSVC(C=8.0, gamma="scale" if gamma is None else gamma)
        model = make_pipeline(MinMaxScaler(), svc)
        order = np.random.default_rng(0).permutation(len(y))
        for how, rows in (("consecutive", np.arange(len(y))), ("random", order)):
            report = held_out_report(model, X[rows], y[rows], n_turns=5, random_state=0)
            print(f"{name}: {how} fifths {report.all_known['accuracy_known']:.4f}", flush=True)
        fitted = clone(model).fit(X, y)
        for part in ("val", "test"):
            if part in parts:
                share = np.mean(fitted.predict(parts[part][0]) == parts[part][1])
                print(f"{name}: {part} rows {share:.4f}", flush=True)


if __name__ == "__main__":
    main()
