"""Are the promises about new identities, objects, categories and one calibration set kept?

    python benchmarks/promises.py [--quick] [--data FOLDER] [--only NAME ...]

Writes promises.md next to this file (with --quick: prints, and fewer draws).
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import MinMaxScaler

from openset import CalibratedRejector, OpenSetSVC, make_pipeline
from openset.base import OpenSetClassifier
from openset.calibration import KnownRejected, StrangersAccepted
from openset.calibration._criterion import CalibrationScores
from openset.calibration._strangers import stranger_threshold
from openset.datasets import load_dataset

CONFIDENCE = [(0.05, 59), (0.05, 100), (0.05, 500), (0.01, 299), (0.01, 500)]
RATES = (0.1, 0.02, 0.01)


class Scores(OpenSetClassifier):
    """Rows are their own scores."""

    def __init__(self, unknown_label="auto"):
        self.unknown_label = unknown_label

    def fit(self, X, y):
        self.classes_, self.unknown_label_ = np.unique(y), -1
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)


FROZEN = FrozenEstimator(Scores().fit(None, [0, 1]))


def calibrated(criterion, best, **given):
    """The common threshold for samples of one class with these highest scores."""
    X = np.column_stack([best, best - 1])
    model = CalibratedRejector(FROZEN, criterion=criterion)
    return model.fit(X, np.zeros(len(best), dtype=int), **given).thresholds_[..., 0]


def figure(values) -> str:
    """Mean and standard error."""
    return f"{np.mean(values):.4f} ± {np.std(values) / np.sqrt(len(values)):.4f}"


def confidence(n_runs: int, _home) -> Iterator[str]:
    yield "## alpha with a confidence of 95 %"
    yield ""
    yield f"{n_runs:,} calibrations with uniform scores: the share of known rows below a threshold"
    yield "is the threshold. At most 5 % of the calibrations may exceed alpha."
    yield ""
    yield "| alpha | n | broken | mean rejection |"
    yield "| --- | --- | --- | --- |"
    rng = np.random.default_rng(0)
    for alpha, n in CONFIDENCE:
        point = KnownRejected(alpha, confidence=0.95)
        shares = [np.clip(calibrated(point, rng.random(n)), 0, 1) for _ in range(n_runs)]
        yield f"| {alpha:g} | {n} | {np.mean(np.array(shares) > alpha):.4f} | {figure(shares)} |"


def objects(n_runs: int, home) -> Iterator[str]:
    yield "## Objects: P(rejected) of a random row of a new object, alpha = 0.1"
    yield ""
    yield f"{n_runs:,} draws of objects for calibration; the others are new. *Rows*: calibrated as"
    yield "if rows were independent. *Objects*: with `groups`. The last column: rows above alpha"
    yield "by more than half of it in one calibration."
    yield ""
    yield "| data | objects | rows | objects | rows: far above | objects: far above |"
    yield "| --- | --- | --- | --- | --- | --- |"
    sources = [("simulated", _simulated_objects), ("vowel, speakers", _vowel)]
    sources.append(("ALOI, ten objects per class", _aloi_merged))
    for name, draw in sources:
        scores, groups, n_calibration = draw(home)
        rng = np.random.default_rng(1)
        names = np.unique(groups)
        shares = {"rows": [], "objects": []}
        for _ in range(n_runs):
            chosen = rng.choice(names, size=n_calibration, replace=False)
            own = np.isin(groups, chosen)
            _, index, counts = np.unique(groups[~own], return_inverse=True, return_counts=True)
            weight = 1 / (counts[index] * len(counts))
            for kind, given in (("rows", {}), ("objects", {"groups": groups[own]})):
                t = calibrated(KnownRejected(0.1), scores[own], **given)
                shares[kind].append(weight @ (scores[~own] < t))
        far = [np.mean(np.array(values) > 0.15) for values in shares.values()]
        yield (
            f"| {name} | {n_calibration} of {len(names)} | {figure(shares['rows'])} | "
            f"{figure(shares['objects'])} | {far[0]:.2f} | {far[1]:.2f} |"
        )


def _simulated_objects(_home):
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 40, size=2000)
    level = rng.normal(size=2000) + 0.04 * sizes  # small objects are harder
    groups = np.repeat(np.arange(2000), sizes)
    return level[groups] + 0.2 * rng.normal(size=len(groups)), groups, 30


def _vowel(home):
    """Scores of the rows of speakers that the model has not heard."""
    X, y = load_dataset("vowel", data_home=home, return_X_y=True)
    speaker = X[:, 1].astype(int)
    return *_scores_of(X[:, 3:], y, speaker < 3, speaker), 9


def _aloi_merged(home):
    """Classes of ten ALOI objects; the objects of calibration and test are new to the model."""
    X, y = load_dataset("aloi", data_home=home, return_X_y=True)
    codes = np.unique(y, return_inverse=True)[1]
    rows = codes < 300
    X, item = X[rows], codes[rows]
    return *_scores_of(X, item // 10, item % 10 < 3, item), 60


def _scores_of(X, y, fit, groups):
    model = make_pipeline(MinMaxScaler(), OpenSetSVC(C=8.0)).fit(X[fit], y[fit])
    return model.known_score(X[~fit]), groups[~fit]


def strangers(n_runs: int, home) -> Iterator[str]:
    yield "## Strangers: share accepted of classes that are new, each weighing the same"
    yield ""
    yield f"{n_runs:,} draws of G stranger classes and of new ones, over five draws of known"
    yield "classes. *Named right*: known test rows; *with ten times G*: at the threshold from ten"
    yield "times as many strangers, as far as there are classes."
    yield ""
    yield "| data | G | rate | accepted | at least | named right | with ten times G |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for name, n_known, numbers in (("aloi", 100, (19, 49, 99)), ("clinc150-minilm", 30, (19, 49))):
        draws = [_known_and_others(name, n_known, seed, home) for seed in range(5)]
        for n_strangers in numbers:
            for rate in sorted({*RATES, 1 / (n_strangers + 1)}, reverse=True):
                if rate >= 1 / (n_strangers + 1) * (1 - 1e-9):
                    yield _strangers_line(name, draws, n_strangers, rate, n_runs)


def _load(name, home):
    """Rows and class indices, without those out of scope."""
    X, y = load_dataset(name, data_home=home, return_X_y=True)
    rows = np.asarray(y).astype(str) != "oos"
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def _known_and_others(name, n_known, seed, home):
    """Scores (n, K) and codes of known test rows, highest scores and classes of all other rows."""
    X, codes = _load(name, home)
    rng = np.random.default_rng(seed)
    known = rng.permutation(codes.max() + 1)[:n_known]
    is_known = np.isin(codes, known)
    fit = is_known & (rng.random(len(codes)) < 0.5)
    model = make_pipeline(MinMaxScaler(), OpenSetSVC(C=8.0)).fit(X[fit], codes[fit])
    test = is_known & ~fit
    test_codes = np.searchsorted(np.sort(known), codes[test])
    return (
        *(model.decision_function(X[test]), test_codes),
        *(model.known_score(X[~is_known]), codes[~is_known]),
    )


def _threshold(draw, rows, rate):
    known, codes, best, groups = draw
    far = np.full(known.shape[1], np.inf)
    scores = CalibrationScores(
        known, codes, best[rows][:, None], np.arange(known.shape[1]), far, 1e-6
    )
    return stranger_threshold(scores._replace(unknown_groups=groups[rows]), rate)


def _strangers_line(name, draws, n_strangers, rate, n_runs):
    rng = np.random.default_rng(3)
    accepted, right, more = [], [], []
    for k in range(n_runs):
        known, codes, best, groups = draw = draws[k % len(draws)]
        names = rng.permutation(np.unique(groups))
        ours, new = names[:n_strangers], names[n_strangers:]
        t = _threshold(draw, np.isin(groups, ours), rate)
        shares = np.bincount(groups, weights=best >= t)[new] / np.bincount(groups)[new]
        accepted.append(shares.mean())
        correct = known.argmax(axis=1) == codes
        right.append(np.mean(correct & (known.max(axis=1) >= t)))
        if k < 25:
            many = _threshold(draw, np.isin(groups, names[: 10 * n_strangers]), rate)
            more.append(np.mean(correct & (known.max(axis=1) >= many)))
    least = rate - 2 / (n_strangers + 1)
    return (
        f"| {name} | {n_strangers} | {rate:.3g} | {figure(accepted)} | {least:.3f} | "
        f"{np.mean(right):.3f} | {np.mean(more):.3f} |"
    )


def withheld(n_runs: int, home) -> Iterator[str]:
    yield "## Strangers from withheld classes: an estimate"
    yield ""
    yield "The rate stated is 0.1. *Accepted*: of the classes that were never known."
    yield ""
    yield "| data | K | stated | accepted |"
    yield "| --- | --- | --- | --- |"
    X, codes = _load("clinc150-minilm", home)
    for n_known in (10, 25, 50, 100):
        shares = []
        for seed in range(max(1, n_runs // 100)):
            known = np.random.default_rng(seed).permutation(codes.max() + 1)[:n_known]
            rows = np.isin(codes, known)
            pipeline = make_pipeline(MinMaxScaler(), OpenSetSVC(C=8.0))
            point = StrangersAccepted(max(0.1, 1 / (n_known + 1)))
            model = CalibratedRejector(pipeline, criterion=point, random_state=seed)
            model.fit(X[rows], codes[rows])
            is_accepted = model.predict(X[~rows]) != -1
            each = np.bincount(codes[~rows], weights=is_accepted) / np.bincount(codes[~rows])
            shares.append(np.nanmean(each))
        yield f"| clinc150 | {n_known} | {point.rate:.3g} | {figure(shares)} |"


def categories(n_runs: int, _home) -> Iterator[str]:
    yield "## Within categories, alpha = 0.1"
    yield ""
    yield f"{n_runs:,} calibrations of 300 rows; category b (30 %) scores lower than a."
    yield ""
    yield "| | rejected of a | rejected of b |"
    yield "| --- | --- | --- |"
    rng = np.random.default_rng(4)
    together, each = [], []
    for _ in range(n_runs):
        name = np.where(rng.random(300) < 0.3, "b", "a")
        scores = rng.normal(np.where(name == "a", 2.0, 0.0))
        new = rng.normal(2.0, size=2000), rng.normal(0.0, size=2000)
        t = calibrated(KnownRejected(0.1), scores)
        together.append([np.mean(values < t) for values in new])
        t = calibrated(KnownRejected(0.1, within="category"), scores, categories=name)
        each.append([np.mean(values < limit) for values, limit in zip(new, t, strict=True)])
    for kind, shares in (("together", together), ("within each", each)):
        a, b = np.transpose(shares)
        yield f"| {kind} | {figure(a)} | {figure(b)} |"


SECTIONS = {f.__name__: f for f in (confidence, objects, strangers, withheld, categories)}


def main():
    """Simulate all promises, print the tables and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws; nothing is written")
    parser.add_argument("--data", default=os.environ.get("OPENSET_DATA"), help="folder of datasets")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    lines = ["# Promises about identities, objects, categories and one calibration set", ""]
    lines += ["Written by `python benchmarks/promises.py`.", ""]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.only:
            n_runs = 60 if options.quick else 500 if name == "strangers" else 2000
            for line in SECTIONS[name](n_runs, options.data):
                print(line, flush=True)
                lines.append(line)
            lines.append("")
    if not options.quick:
        text = "\n".join(lines)
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
