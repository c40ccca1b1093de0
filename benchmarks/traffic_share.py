"""How much of the traffic is unknown, and which threshold suits it: the protocol of 14 datasets.

    python -m benchmarks.traffic_share base --cache FOLDER [--runs 10]

fits the default search once per dataset, number of known classes and run, and keeps the data of
the run, the setting, and all scores in FOLDER (``base``), where ``benchmarks.traffic`` finds them.

    python -m benchmarks.traffic_share PART --cache FOLDER [--draws 1000]

measures how often the promise is broken (PART ``bound``), the error of the estimate (``share``),
false discoveries with a score learned from the batch (``discoveries``), seconds (``time``), and
thresholds chosen from traffic (``kdd``, ``intents``); tables of ``benchmarks/traffic_share.md``.
"""

import argparse
import os
import timeit
from itertools import product
from pathlib import Path
from time import process_time

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedKFold

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC
from openset.calibration import Accuracy, KnownRejected, calibrate, find_unknowns, mixture
from openset.datasets import load_dataset
from openset.metrics import auroc_known
from openset.study import make_split
from openset.traffic import LearnedScore, estimate_traffic

from .search_table import DATASETS

HOME = os.environ.get("OPENSET_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
N_KNOWN, RUNS, FOLDS = (3, 6), 10, 5
TEST_ROWS = 2000  # of known and of unknown classes, at most
SHARES = (0.0, 0.05, 0.2, 0.5)
BOUND_SETS = ("two normals", "letter", "optdigits", "vowel", "yeast")
N_CALIBRATION, N_TRAFFIC = 500, 1000
LARGER = "two normals", 5000, 5000
FEWEST = 10


def base(cache, dataset, n_known, run):
    """The run as a dict of arrays, from the cache or made for it.

    ``X_train``, ``y_train`` (class indices), ``X_known``, ``y_known``, ``X_unknown``, ``y_unknown``
    (labels of the dataset), scaled to [0, 1] by the training rows; the setting ``gamma``, ``C``,
    ``lam`` of the default search; ``folds`` (n,) and the scores (n, K) of training rows by models
    that have not seen their fold, ``crossed``; those of test rows, ``known`` and ``unknown``. And
    for the promise a fifth of the training rows, ``kept``, held back from a fit with that setting:
    their scores ``kept_scores``, and ``kept_known``, ``kept_unknown`` of the test rows.
    """
    path = Path(cache) / f"{dataset}-n{n_known}-run{run}.npz"
    if path.exists():
        return dict(np.load(path))
    X, y = load_dataset(dataset, data_home=HOME, return_X_y=True)
    split = make_split(y, dataset, n_known, run)
    rng = np.random.default_rng(run)
    is_known = np.isin(y[split.test], split.known)
    known, unknown = (rng.permutation(split.test[r])[:TEST_ROWS] for r in (is_known, ~is_known))
    low, high = X[split.train].min(axis=0), X[split.train].max(axis=0)
    X = (X - low) / np.where(high > low, high - low, np.inf)
    codes = np.searchsorted(split.known, y[split.train])
    run_of = {
        "X_train": X[split.train],
        "y_train": codes,
        "X_known": X[known],
        "y_known": np.searchsorted(split.known, y[known]),
        "X_unknown": X[unknown],
        "y_unknown": y[unknown],
    }
    search = OpenSetSearchCV(OpenSetSVC(), random_state=0).fit(X[split.train], codes)
    setting = search.best_params_
    run_of |= {name: np.array(value) for name, value in setting.items()}
    n_folds = min(FOLDS, np.bincount(codes).min())
    run_of["folds"] = np.empty(len(codes), dtype=int)
    run_of["crossed"] = np.empty((len(codes), n_known))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X[split.train], codes)
    for k, (fit, rest) in enumerate(folds):
        model = OpenSetSVC(**setting).fit(run_of["X_train"][fit], codes[fit])
        scores = model.decision_function(run_of["X_train"][rest])
        run_of["folds"][rest], run_of["crossed"][rest] = k, scores
        if k == 0:
            run_of |= {"kept": rest, "kept_scores": scores}
            for part in ("known", "unknown"):
                run_of[f"kept_{part}"] = model.decision_function(run_of[f"X_{part}"])
    for part in ("known", "unknown"):
        run_of[part] = search.decision_function(run_of[f"X_{part}"])
    np.savez(path, **run_of)
    return run_of


def bound(cache, n_draws):
    """How often the promise is broken, and how near it comes, by dataset and share.

    The held-out rows of a run are the population: calibration rows and traffic are drawn from them
    with replacement, so there are copies of rows, and the true share is known.
    """
    yield "set", "rows", "scores", "AUROC", "true share", "broken", "median of the bound"
    sizes = [(name, N_CALIBRATION, N_TRAFFIC) for name in BOUND_SETS]
    for step, (name, n, n_new) in product((None, 0.1), [*sizes, LARGER]):
        rng = np.random.default_rng(1)
        if name in DATASETS:
            data = base(cache, name, 3, 0)
            known, unknown = (data[f"kept_{part}"].max(axis=1) for part in ("known", "unknown"))
        else:  # made up: two standard deviations apart
            known, unknown = rng.normal(2, 1, 10**6), rng.normal(0, 1, 10**6)
        if step:
            known, unknown = np.round(known / step) * step, np.round(unknown / step) * step
        truth = np.repeat([0, 1], [2000, 2000])
        some = np.append(rng.choice(known, 2000), rng.choice(unknown, 2000))
        area = auroc_known(truth, some, known=[0])
        for share in SHARES:
            at_least = [
                mixture(
                    rng.choice(known, n), mixed(rng, known, unknown, share, n_new)
                ).unknown_at_least
                for _ in range(n_draws)
            ]
            broken = f"{np.mean(np.array(at_least) > share):.3f}"
            rounded = "as they are" if step is None else f"rounded to {step:g}"
            yield (
                name,
                f"{n} + {n_new}",
                rounded,
                f"{area:.3f}",
                share,
                broken,
                f"{np.median(at_least):.3f}",
            )


def mixed(rng, known, unknown, share, n):
    """Scores (n,) of traffic, each unknown with this probability."""
    return np.where(rng.random(n) < share, rng.choice(unknown, n), rng.choice(known, n))


def share(cache, runs):
    """Mean absolute error and bias of the estimate, from fold scores and from rows held back."""
    yield "known classes", "true share", "fold scores: error", "bias", "held back: error", "bias"
    found = {}
    for dataset, n_known, run, wanted in product(DATASETS, N_KNOWN, range(runs), SHARES):
        data = base(cache, dataset, n_known, run)
        for scores, prefix in (("crossed", ""), ("kept_scores", "kept_")):
            known, unknown = data[f"{prefix}known"], data[f"{prefix}unknown"]
            n = min(N_TRAFFIC, len(known))
            n_unknown = min(round(wanted * n), len(unknown))
            traffic = np.vstack([known[: n - n_unknown], unknown[:n_unknown]])
            errors = found.setdefault((n_known, wanted), {}).setdefault(scores, [])
            if len(data[scores]) >= FEWEST:  # not with 8 rows held back of movement_libras
                codes = data["y_train"][data["kept"]] if prefix else data["y_train"]
                errors.append(mixture(data[scores], traffic, codes).unknown_share - n_unknown / n)
    for key, errors in found.items():
        columns = [
            f"{value:.3f}"
            for values in errors.values()
            for value in (np.mean(np.abs(values)), np.mean(values))
        ]
        yield *key, *columns


def discoveries(cache, n_draws):
    """False discoveries and power at q = 0.1, with and without learning from the batch."""
    yield "population", "kinds of unknown", "batches", "learning", "FDR", "standard error", "found"
    intents = load_dataset("clinc150-minilm", data_home=HOME, return_X_y=True)
    intents = intents[0], np.array(intents[1], dtype=str)
    rng = np.random.default_rng(0)
    names = rng.permutation(np.setdiff1d(np.unique(intents[1]), ["oos"]))[:75]
    X, y = load_dataset("pendigits", data_home=HOME, return_X_y=True)
    small = (X - X.min(axis=0)) / np.ptp(X, axis=0), y
    for title, data, known, sizes, kinds, n in (
        ("pendigits, 5 known", small, np.unique(y)[:5], (100, 100, 90, 30), 2, n_draws),
        ("CLINC150, 75 known", intents, names, (5000, 1000, 900, 100), 5, n_draws // 10),
        ("CLINC150, 75 known", intents, names, (5000, 1000, 900, 100), 75, n_draws // 10),
    ):
        found = [batch(data, known, sizes, kinds, seed) for seed in range(max(2, n))]
        for k, learning in enumerate(("yes", "no")):
            rates, power = np.array(found)[:, k].T
            error = rates.std() / np.sqrt(len(rates))
            figures = f"{rates.mean():.3f}", f"{error:.3f}", f"{power.mean():.3f}"
            yield title, kinds, len(found), learning, *figures


def batch(data, known, sizes, kinds, seed):
    """False discovery proportion and share found of one batch: learned, not learned."""
    rng = np.random.default_rng(seed)
    X, y = data
    n_fit, n_rest, n_known, n_unknown = sizes
    rows = rng.permutation(np.flatnonzero(np.isin(y, known)))[: n_fit + n_rest + n_known]
    new = np.setdiff1d(y, known)
    new = rng.permutation(new[new.astype(str) != "oos"])[:kinds]
    others = rng.permutation(np.flatnonzero(np.isin(y, new)))[:n_unknown]
    labelled, batch = rows[: n_fit + n_rest], np.append(rows[n_fit + n_rest :], others)
    svc = OpenSetSVC(gamma=2.0, C=1.0)
    score = LearnedScore(svc, n_rest / len(labelled), random_state=seed)
    plain = CalibratedRejector(svc, calibration_size=n_rest / len(labelled), random_state=seed)
    answers = []
    for model, learn in ((score, True), (plain, False)):
        model.fit(X[labelled], y[labelled])
        reported = find_unknowns(model, X[batch], q=0.1, learn=learn)
        false = reported[:n_known].sum() / max(1, reported.sum())
        answers.append((false, reported[n_known:].mean()))
    return answers


def time(cache, n_draws):
    """Processor seconds of one estimate: 5,000 rows of each kind, 50 classes, 384 columns."""
    X, y = load_dataset("clinc150-minilm", data_home=HOME, return_X_y=True)
    y = np.array(y, dtype=str)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(np.isin(y, np.unique(y)[:50])))
    fit, rest = rows[:2500], rows[2500:7500]
    model = calibrate(OpenSetSVC(gamma=2.0).fit(X[fit], y[fit]), X[rest], y[rest])
    traffic = X[np.random.default_rng(1).permutation(len(X))[:5000]]
    estimate_traffic(model, traffic)  # compiles
    how = {"number": 1, "repeat": 5, "timer": process_time}
    seconds = min(timeit.repeat(lambda: estimate_traffic(model, traffic), **how))
    yield "calibration rows", "rows of traffic", "processor seconds, the fastest of 5"
    yield len(rest), 5000, f"{seconds:.2f}"


def kdd(cache, n_draws):
    """KDD Cup 99: thresholds from 10,000 unlabelled distinct test rows, judged on 20,000 others."""
    from . import kdd as page

    X, y = page.load("train")
    fit, rest = page.split(X, y)
    rows, known = fit[page.sample(X[fit], y[fit], 10_000)], np.unique(y)
    svc = FrozenEstimator(OpenSetSVC(**page.SETTING, n_jobs=1).fit(X[rows], y[rows]))
    X_rest, y_rest = X[rest], y[rest]
    X, y = page.load("test")
    rows = np.random.default_rng(0).permutation(page.first_rows(X, y))[:30_000]
    X_traffic, X, y = X[rows[:10_000]], X[rows[10_000:]], y[rows[10_000:]]
    is_known = np.isin(y, known)
    yield "threshold", "known named rightly", "known rejected", "new rejected", "all rows right"
    points = {
        f"KnownRejected({page.ALPHA})": (KnownRejected(page.ALPHA), None),
        "Accuracy(balanced=False)": (Accuracy(balanced=False), X_traffic),
        "Accuracy()": (Accuracy(), X_traffic),
    }
    for title, (point, traffic) in points.items():
        model = CalibratedRejector(svc, criterion=point, prefer="bounded")
        model.fit(X_rest, y_rest, X_traffic=traffic)
        answers = model.predict(X)
        rejected, right = answers == "unknown", answers == y
        shares = right[is_known], rejected[is_known], rejected[~is_known]
        yield (
            title,
            *(f"{part.mean():.1%}" for part in (*shares, np.where(is_known, right, rejected))),
        )
    best = svc.decision_function(X).max(axis=1)
    for rate in (0.03, 0.05, 0.09):
        threshold = np.quantile(best[is_known], rate)
        new = np.mean(best[~is_known] < threshold)
        yield f"{threshold:.4f}, from labels", "", f"{rate:.1%}", f"{new:.1%}", ""


def intents(cache, n_draws):
    """Open intents: the threshold that 1,000 unlabelled rows choose beside the best on the test."""
    from . import traffic as page

    yield "data", "known", "seed", "as fitted", "from traffic", "best threshold seen on the test"
    cases = product(range(max(1, n_draws // 500)), page.INTENTS, page.RATIOS)
    for seed, name, ratio in cases:
        data = load_dataset(name, data_home=HOME)
        X, y, part = data.data, data.target.astype(str), data.split
        labels, seen = np.unique(y[part == "train"]), np.isin(part, ("train", "val"))
        n_known = round(len(labels) * ratio)
        known = np.random.RandomState(seed).choice(labels, n_known, replace=False)
        fit = seen & np.isin(y, known)
        test = np.random.default_rng(seed).permutation(np.flatnonzero(~seen))
        rows, test = test[: page.ROWS], test[page.ROWS :]
        truth = np.where(np.isin(y[test], known), y[test], "open")
        svc = OpenSetSVC(gamma=2.0, C=8.0, unknown_label="open")
        model = CalibratedRejector(svc, criterion=Accuracy(balanced=False), random_state=0)
        model.fit(X[fit], y[fit], X_traffic=X[rows])
        plain = model.estimator_
        scores, names = plain.known_score(X[test]), plain.predict_known(X[test])
        tried = [
            page.intent_measures(truth, np.where(scores >= t, names, "open"))
            for t in np.quantile(scores, np.linspace(0, 1, 201))
        ]
        answers = plain.predict(X[test]), model.predict(X[test])
        found = *(page.intent_measures(truth, each) for each in answers), np.max(tried, axis=0)
        yield name, f"{ratio:.0%}", seed, *(f"{a:.1f} / {f1:.1f}" for a, f1 in found)


PARTS = {part.__name__: part for part in (bound, share, discoveries, time, kdd, intents)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["base", *PARTS])
    parser.add_argument("--cache", type=Path, required=True, help="folder of the base searches")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    if options.part == "base":
        for run, n_known, dataset in product(range(options.runs), N_KNOWN, DATASETS[::-1]):
            base(options.cache, dataset, n_known, run)
            print(dataset, n_known, run, flush=True)
        return
    n = options.runs if options.part == "share" else options.draws
    for k, row in enumerate(PARTS[options.part](options.cache, n)):
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
        if k == 0:
            print("|" + " --- |" * len(row), flush=True)


if __name__ == "__main__":
    main()
