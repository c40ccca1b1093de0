"""Known attacks and new ones among half a million connections
===========================================================

KDD Cup 99: 494,021 connections, normal ones and 22 attacks, to learn from; 311,029 to judge, among
them 17 attacks that never occurred before. A landmark machine names what it knows and rejects the
rest. Everything is chosen on training rows: the setting by a search with classes held out, the
threshold so that about 2 % of held-out distinct training rows are rejected.

Some new attacks cannot be found: at least 3,212 of their 18,729 rows are equal to a known training
row in all 41 features, most of them ``snmpgetattack``, which looks like normal traffic. Two
attacks, ``smurf`` and ``neptune``, make up most rows, so figures are given over distinct rows too.

The script needs ``kdd99-train.parquet`` and ``kdd99-test.parquet`` in the folder ``OPENSET_DATA``;
it takes some minutes. The setting below is the result of the search; ``--search`` repeats it.
"""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC
from openset.base.machines import row_keys
from openset.metrics import normalized_accuracy

SETTING = {"gamma": 20.98, "C": 8.0, "lam": 0.0}
ALPHA = 0.02
SEED = 0
# Counts and byte sizes span nine orders of magnitude.
LOG = ["duration", "src_bytes", "dst_bytes", "count", "srv_count", "num_compromised", "num_root"]
SYMBOLS = ["protocol_type", "service", "flag"]
# Rows for the methods that cannot learn from all, and for the search.
SAMPLE, SEARCH = 20_000, 3000


def main():
    """Fit, calibrate and compare; then report per attack."""
    arguments = argparse.ArgumentParser(description="KDD Cup 99")
    arguments.add_argument("--output", default="kdd99-attacks.png", help="figure to write")
    arguments.add_argument("--search", action="store_true", help="search for the setting again")
    arguments.add_argument("--report", type=Path, help="write the tables to this file")
    arguments = arguments.parse_args()
    try:
        (X, y), (X_test, y_test) = load("train"), load("test")
    except FileNotFoundError as reason:
        print(f"skipped: {reason}")
        return
    fit, held_out = split(X, y)
    setting = search(X, y) if arguments.search else SETTING
    answers = {
        name: method(setting, X[fit], y[fit], X[held_out], y[held_out], X_test)
        for name, method in METHODS.items()
    }
    report = f"{overview(answers, X_test, y_test, y)}\n\n{per_attack(answers, X_test, y_test, y)}"
    print(report)
    if arguments.report:
        arguments.report.write_text(report + "\n")
    draw(answers, X_test, y_test, y).savefig(arguments.output, dpi=100)
    print(f"wrote {arguments.output}")


def load(split):
    """Features and labels of ``split`` ("train" or "test"), scaled to [0, 1] by fixed rules.

    Logarithms of counts; one column per value of the three symbolic features.
    """
    home = os.environ.get("OPENSET_DATA", "")
    frame = pd.read_parquet(Path(home, f"kdd99-{split}.parquet"))
    target = frame.pop("target").astype(str).to_numpy()
    symbols = pd.get_dummies(frame[SYMBOLS], dtype=np.float64).to_numpy() * np.sqrt(0.5)
    numbers = frame.drop(columns=SYMBOLS).astype(np.float64)
    largest = {"hot": 30, "dst_host_count": 255, "dst_host_srv_count": 255}
    for name in numbers:
        if name in LOG:
            numbers[name] = np.log1p(numbers[name]) / 20
        elif name in largest:
            numbers[name] /= largest[name]
        else:
            numbers[name] = np.minimum(numbers[name], 1)
    return np.hstack([numbers.to_numpy(), symbols]), target


def split(X, y):
    """Rows to fit, and distinct rows held out for thresholds: one in ten of each class."""
    first = first_rows(X, y)
    held_out = np.random.default_rng(SEED).permutation(first)[: len(first) // 10]
    # A rare class keeps all its rows, and copies of held-out rows are not learned.
    held_out = held_out[np.isin(y[held_out], frequent(y[first], 100))]
    keys = group_of(X)
    return np.flatnonzero(~np.isin(keys, keys[held_out])), held_out


def group_of(X):
    """A number per distinct row."""
    return np.unique(row_keys(X), return_inverse=True)[1]


def first_rows(X, y):
    """The first of each distinct row with its class."""
    pairs = np.column_stack([group_of(X), np.unique(y, return_inverse=True)[1]])
    return np.sort(np.unique(pairs, axis=0, return_index=True)[1])


def frequent(y, n_rows):
    """Classes with at least so many rows."""
    classes, counts = np.unique(y, return_counts=True)
    return classes[counts >= n_rows]


def sample(X, y, n_rows):
    """Distinct rows, in equal shares per class as far as there are any."""
    rng = np.random.default_rng(SEED)
    first = rng.permutation(first_rows(X, y))
    order = first[np.argsort(y[first], kind="stable")]
    _, start, counts = np.unique(y[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(start, counts)
    return order[np.argsort(rank, kind="stable")[:n_rows]]


def search(X, y):
    """The default search, on a sample of the training rows of the more frequent classes."""
    rows = np.flatnonzero(np.isin(y, frequent(y, 100)))
    rows = rows[sample(X[rows], y[rows], SEARCH)]
    found = OpenSetSearchCV(OpenSetSVC(), random_state=SEED, n_jobs=-1, verbose=1)
    found.fit(X[rows], y[rows])
    print(f"found {found.best_params_}")
    return found.best_params_


def landmark_machine(setting, X, y, X_held_out, y_held_out, X_test):
    """OpenSetSVC on all rows, 2000 landmarks."""
    model = OpenSetSVC(**setting, landmarks=2000, random_state=SEED, n_jobs=-1).fit(X, y)
    return calibrated(model, X_held_out, y_held_out).predict(X_test)


def exact_machine(setting, X, y, X_held_out, y_held_out, X_test):
    """OpenSetSVC on a sample."""
    rows = sample(X, y, SAMPLE)
    model = OpenSetSVC(**setting, n_jobs=-1).fit(X[rows], y[rows])
    return calibrated(model, X_held_out, y_held_out).predict(X_test)


def calibrated(model, X, y):
    """The model with the threshold that rejects at most ALPHA of known rows, as estimated."""
    return CalibratedRejector(FrozenEstimator(model), alpha=ALPHA, prefer="bounded").fit(X, y)


def linear_machine(setting, X, y, X_held_out, y_held_out, X_test):
    """Nystroem and LinearSVC on the same sample, with a threshold on the highest score."""
    rows = sample(X, y, SAMPLE)
    model = make_pipeline(
        Nystroem(gamma=setting["gamma"], n_components=500, random_state=SEED),
        OneVsRestClassifier(LinearSVC(C=setting["C"], dual=False)),
    ).fit(X[rows], y[rows])
    threshold = np.quantile(model.decision_function(X_held_out).max(axis=1), ALPHA)
    scores = in_blocks(model.decision_function, X_test)
    return np.where(
        scores.max(axis=1) >= threshold, model.classes_[scores.argmax(axis=1)], "unknown"
    )


def isolation_forest(setting, X, y, X_held_out, y_held_out, X_test):
    """Isolation forest on the same sample: known or unknown; it names nothing."""
    forest = IsolationForest(n_estimators=200, random_state=SEED).fit(X[sample(X, y, SAMPLE)])
    threshold = np.quantile(forest.score_samples(X_held_out), ALPHA)
    return np.where(in_blocks(forest.score_samples, X_test) >= threshold, "known", "unknown")


def in_blocks(function, X):
    """Apply a function to some rows at a time."""
    return np.concatenate([function(part) for part in np.array_split(X, 32)])


METHODS = {
    "OpenSetSVC, landmarks": landmark_machine,
    "OpenSetSVC, exact, sample": exact_machine,
    "Nystroem + LinearSVC, sample": linear_machine,
    "isolation forest, sample": isolation_forest,
}


def shares(answers, y_test, rows, known):
    """Known rows named rightly and rejected, unknown rows rejected."""
    truth, answer = y_test[rows], answers[rows]
    is_known = np.isin(truth, known)
    rejected = answer == "unknown"
    right = np.mean((truth == answer)[is_known]) if np.any(answer[~rejected] != "known") else np.nan
    return right, np.mean(rejected[is_known]), np.mean(rejected[~is_known])


def overview(answers, X_test, y_test, y):
    """All rows, distinct rows, and the mean over classes."""
    known = np.unique(y)
    distinct = first_rows(X_test, y_test)
    lines = [
        "| method | rows | known named rightly | known rejected | new rejected | NA |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for rows, title in ((np.arange(len(y_test)), "all"), (distinct, "distinct")):
        for name, answer in answers.items():
            right, lost, found = shares(answer, y_test, rows, known)
            score = "-"
            if right == right:
                names = {"known": known, "unknown_label": "unknown"}
                score = f"{normalized_accuracy(y_test[rows], answer[rows], **names):.3f}"
            right = "-" if right != right else f"{right:.1%}"
            lines.append(f"| {name} | {title} | {right} | {lost:.1%} | {found:.1%} | {score} |")
    return "\n".join(lines)


def per_attack(answers, X_test, y_test, y):
    """Distinct rows of each class: known ones named rightly, new ones rejected."""
    known, distinct = np.unique(y), first_rows(X_test, y_test)
    head = ["class", "", "rows", "distinct", *answers]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    for c in sorted(np.unique(y_test), key=lambda c: (c not in known, -np.sum(y_test == c))):
        rows = distinct[y_test[distinct] == c]
        cells = [c, "known" if c in known else "new", f"{np.sum(y_test == c):,}", f"{len(rows):,}"]
        for answer in answers.values():
            good = answer[rows] == (c if c in known else "unknown")
            named = c not in known or not np.isin("known", answer)
            cells.append(f"{good.mean():.0%}" if named else "-")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(answers, X_test, y_test, y):
    """New attacks with at least 100 distinct rows: how many are rejected."""
    import matplotlib.pyplot as plt  # the benchmarks use this file without it

    distinct = first_rows(X_test, y_test)
    new = [c for c in frequent(y_test[distinct], 100) if c not in np.unique(y)]
    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    width = 0.8 / len(answers)
    for k, (name, answer) in enumerate(answers.items()):
        heights = [np.mean(answer[distinct[y_test[distinct] == c]] == "unknown") for c in new]
        ax.bar(np.arange(len(new)) + k * width, heights, width, label=name)
    ax.set_xticks(np.arange(len(new)) + 1.5 * width, new, rotation=30, ha="right")
    ax.set(
        ylabel="rejected, distinct rows", ylim=(0, 1), title="Attacks that never occurred before"
    )
    figure.legend(frameon=False, fontsize="small", ncols=2, loc="outside lower center")
    return figure


if __name__ == "__main__":
    main()
