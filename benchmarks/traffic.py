"""What unlabelled rows teach: TrafficClassifier against the default search, on 14 datasets.

    python -m benchmarks.traffic run OUT --cache FOLDER [--runs 3]
    python -m benchmarks.traffic table OUT
    python -m benchmarks.traffic intents OUT [--runs 10]
    python -m benchmarks.traffic threshold OUT [--runs 10]
    python -m benchmarks.traffic intents-table OUT
    python -m benchmarks.traffic time

`run` goes on where it was stopped: OUT has a line for each case. The base searches are those of
``benchmarks.traffic_share``, kept in FOLDER. Half of the test rows are traffic (1,000, or what
there is), the other half is judged. Kinds of unknown are the same in both halves, or all new: half
of the unknown classes are in the traffic, the others are judged.
"""

import argparse
import csv
import functools
import os
import time
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.calibration import Accuracy
from openset.datasets import load_dataset
from openset.traffic import TrafficClassifier

from .search_table import DATASETS, LARGE
from .traffic_share import HOME, N_KNOWN, SHARES, base

ROWS = 1000
# The default, and told that the kinds recur.
NEW_KINDS = {"default": 0.3, "recur": 0.0}
KINDS = ("same", "new")
INTENTS, RATIOS = ("banking77-minilm", "clinc150-minilm"), (0.25, 0.5, 0.75)
FIELDS = "dataset n_known run share kinds rule learned at_least estimate before after seconds"


def halves(made, share, kinds, run):
    """Traffic, rows to judge and their class indices, K for unknown; None if there are too few."""
    rng = np.random.default_rng([run, KINDS.index(kinds)])
    known = np.array_split(rng.permutation(len(made["X_known"])), 2)
    unknown = rng.permutation(len(made["X_unknown"]))
    if kinds == "same":
        parts = np.array_split(unknown, 2)
    else:
        classes = rng.permutation(np.unique(made["y_unknown"]))
        shown = np.isin(made["y_unknown"][unknown], classes[: len(classes) // 2])
        parts = [unknown[shown], unknown[~shown]]
    n = min(ROWS, len(known[0]) / (1 - share), len(parts[0]) / share if share else np.inf)
    n_unknown = round(n * share)
    traffic = np.concatenate(
        [
            made["X_known"][known[0][: int(n) - n_unknown]],
            made["X_unknown"][parts[0][:n_unknown]],
        ]
    )
    test = np.concatenate([made["X_known"][known[1]], made["X_unknown"][parts[1]]])
    n_known = made["y_train"].max() + 1
    truth = np.append(made["y_known"][known[1]], np.full(len(parts[1]), n_known))
    return traffic, test, truth


def normalized_accuracy(model, X, truth, n_known):
    """The mean of the accuracies on known and on unknown rows."""
    right = model.predict(X) == np.where(truth < n_known, truth, -1)
    return (right[truth < n_known].mean() + right[truth == n_known].mean()) / 2


def case(cache, dataset, n_known, run, share, kinds):
    """Rows of the table for one draw: the default rule, and told that kinds recur."""
    made = base(cache, dataset, n_known, run)
    traffic, test, truth = halves(made, share, kinds, run)
    setting = {name: float(made[name]) for name in ("gamma", "C", "lam")}
    plain = OpenSetSVC(**setting).fit(made["X_train"], made["y_train"])
    before = normalized_accuracy(plain, test, truth, n_known)
    rows, model = [], None
    for rule, new_kinds in NEW_KINDS.items():
        begin = time.perf_counter()
        # Where too few rows are certainly unknown, both rules abstain.
        if model is None or "learns from" not in model.reason_:
            model = TrafficClassifier(OpenSetSVC(**setting), new_kinds, random_state=0)
            model.fit(made["X_train"], made["y_train"], traffic)
        after = normalized_accuracy(model, test, truth, n_known)
        seconds = time.perf_counter() - begin
        found = model.learned_, model.unknown_at_least_, model.unknown_share_, before, after
        values = (dataset, n_known, run, share, kinds, rule, *found, seconds)
        rows.append([f"{v:.5g}" if isinstance(v, float) else v for v in values])
    return rows


def run(out, cache, runs):
    """Do all cases that OUT lacks: runs first, small datasets before large ones."""
    warnings.filterwarnings("ignore", message="The model stays as it is")
    out.touch()
    done = {tuple(row[:5]) for row in csv.reader(out.open())}
    for r, large, share in product(range(runs), (False, True), sorted(SHARES, reverse=True)):
        names = [name for name in DATASETS[::-1] if (name in LARGE) == large]
        for dataset, n_known, kinds in product(names, N_KNOWN, KINDS[: 2 if share else 1]):
            if (dataset, str(n_known), str(r), f"{share:.5g}", kinds) in done:
                continue
            rows = case(cache, dataset, n_known, r, share, kinds)
            with out.open("a") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)


def table(out):
    """Print means over datasets of the gain in normalised accuracy, with the worst dataset."""
    gains = defaultdict(lambda: defaultdict(list))
    learned, befores, runs = defaultdict(list), defaultdict(list), defaultdict(set)
    for row in csv.reader(out.open()):
        row = dict(zip(FIELDS.split(), row, strict=True))
        key = float(row["share"]), row["kinds"], int(row["n_known"]), row["rule"]
        gains[key][row["dataset"]].append(float(row["after"]) - float(row["before"]))
        learned[key].append(row["learned"] == "True")
        befores[key].append(float(row["before"]))
        runs[key].add((row["dataset"], row["run"]))
    print("| rule | share | kinds | n | draws | before | gain | worst set | learned |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for key in sorted(gains, key=lambda k: (k[3], -k[0], k[1] == "new", k[2])):
        share, kinds, n_known, rule = key
        means = {name: np.mean(values) for name, values in gains[key].items()}
        worst = min(means, key=means.get)
        print(
            f"| {rule} | {share:g} | {kinds} | {n_known} | {len(runs[key])} | "
            f"{np.mean(befores[key]):.3f} | {np.mean(list(means.values())):+.4f} | "
            f"{worst} {means[worst]:+.3f} | {np.mean(learned[key]):.0%} |"
        )


def intents(out, runs, judge):
    """Open intents, 1,000 unlabelled test rows: accuracy and F1 on the other test rows, in percent.

    Writes a line per case: dataset, ratio, seed, and the two measures of the model as it is, with
    the best threshold seen on these test rows, and of the rules of `judge`.
    """
    out.touch()
    done = {tuple(row[:3]) for row in csv.reader(out.open())}
    for seed, name, ratio in product(range(runs), INTENTS, RATIOS):
        if (name, str(ratio), str(seed)) in done:
            continue
        case = intent_case(name, ratio, seed)
        svc = OpenSetSVC(gamma=2.0, C=8.0, unknown_label="open")
        plain = svc.fit(*case["labelled"])
        X, truth = case["test"]
        matrix = plain.decision_function(X)
        scores, codes = matrix.max(axis=1), matrix.argmax(axis=1)
        thresholds = np.append(0.0, np.quantile(scores, np.linspace(0, 1, 201)))
        is_known, n_known = truth != "open", matrix.shape[1]
        true = np.where(is_known, np.searchsorted(plain.classes_, truth), n_known)
        tried = [intent_measures(true, np.where(scores >= t, codes, n_known)) for t in thresholds]
        found = [*tried[0], *np.max(tried[1:], axis=0)]
        for model in judge(svc, case):
            found += intent_measures(truth, model.predict(X))
        with out.open("a") as file:
            csv.writer(file, lineterminator="\n").writerow([name, ratio, seed, *np.round(found, 2)])


@functools.cache
def intent_data(name):
    """Embeddings, labels and parts of a dataset of intents."""
    data = load_dataset(name, data_home=HOME)
    return data.data, data.target.astype(str), data.split


def intent_case(name, ratio, seed):
    """Rows of known intents, those of "train" and of "val", traffic, and test rows with truth."""
    X, y, part = intent_data(name)
    labels = np.unique(y[part == "train"])
    n_known, seen = round(len(labels) * ratio), np.isin(part, ("train", "val"))
    known = np.random.RandomState(seed).choice(labels, n_known, replace=False)
    mine = np.isin(y, known)
    test = np.random.default_rng(seed).permutation(np.flatnonzero(~seen))
    traffic, test = test[:ROWS], test[ROWS:]
    rows = {"labelled": seen & mine, "train": (part == "train") & mine}
    rows["val"] = (part == "val") & mine
    case = {key: (X[some], y[some]) for key, some in rows.items()}
    truth = np.where(mine[test], y[test], "open")
    return case | {"traffic": X[traffic], "test": (X[test], truth)}


def learned(svc, case):
    """Both rules of NEW_KINDS, learned from the traffic."""
    for new_kinds in NEW_KINDS.values():
        model = TrafficClassifier(OpenSetSVC(**svc.get_params()), new_kinds, random_state=0)
        yield model.fit(*case["labelled"], case["traffic"])


def moved(svc, case):
    """The threshold alone: fitted to "train", calibrated on "val", whose rows are like the test."""
    inner = OpenSetSVC(**svc.get_params()).fit(*case["train"])
    model = CalibratedRejector(FrozenEstimator(inner), criterion=Accuracy(balanced=False))
    yield model.fit(*case["val"], X_traffic=case["traffic"])


def intents_table(out):
    """Print means over seeds of the lines that `intents` wrote: accuracy / F1."""
    found = defaultdict(list)
    for name, ratio, _, *values in csv.reader(out.open()):
        found[name, float(ratio)].append([float(v) for v in values])
    for (name, ratio), values in sorted(found.items()):
        pairs = np.mean(values, axis=0).reshape(-1, 2)
        figures = " | ".join(f"{a:.1f} / {f1:.1f}" for a, f1 in pairs)
        print(f"| {name} | {ratio:.0%} | {len(values)} | {figures} |")


def intent_measures(truth, answers):
    """Accuracy, and F1 averaged over the classes and the open class, in percent."""
    labels, codes = np.unique(np.append(truth, answers), return_inverse=True)
    n, true = len(labels), codes[: len(truth)]
    right = np.bincount(true[truth == answers], minlength=n)
    f1 = 2 * right / np.bincount(codes, minlength=n)
    return [100 * np.mean(truth == answers), 100 * f1.mean()]


def adapt_time():
    """Print the time to adapt 5,000 labelled and 5,000 traffic rows, 384 features, 50 classes."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(75, 384))
    codes = np.append(np.arange(5000) % 50, rng.integers(0, 75, 5000))
    X = centers[codes] + 2.5 * rng.normal(size=(10_000, 384))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    svc = OpenSetSVC(gamma=2.0, C=8.0, n_jobs=int(os.environ.get("JOBS", "2")))
    begin = time.perf_counter()
    cpu = time.process_time()
    model = TrafficClassifier(svc, random_state=0, verbose=1).fit(X[:5000], codes[:5000], X[5000:])
    print(
        f"{time.perf_counter() - begin:.1f} s, {time.process_time() - cpu:.1f} s of CPU; "
        f"{model.reason_}; learned: {model.learned_}"
    )


JUDGES = {"intents": learned, "threshold": moved}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["run", "table", *JUDGES, "intents-table", "time"])
    parser.add_argument("out", type=Path, nargs="?", help="CSV file of the cases")
    parser.add_argument("--cache", type=Path, help="folder of the base searches")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.part == "time":
        adapt_time()
    elif options.part in JUDGES:
        intents(options.out, options.runs, JUDGES[options.part])
    elif options.part == "intents-table":
        intents_table(options.out)
    elif options.part == "table":
        table(options.out)
    else:
        run(options.out, options.cache, options.runs)


if __name__ == "__main__":
    main()
