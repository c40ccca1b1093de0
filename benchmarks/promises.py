"""Are the promises about new identities, objects, categories and one calibration set kept?

    python benchmarks/promises.py [--share 0.1] [--data FOLDER] [--keep FOLDER] [--only NAME ...]

Writes promises.md next to this file. `--share` is the share of the draws that are made. Models are
fitted once per draw of known classes: their scores, and each finished section, are kept in a
folder, so that a run that was stopped goes on, and one with other draws fits nothing again.
"""

import argparse
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binom
from sklearn.preprocessing import MinMaxScaler

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC, make_pipeline
from openset.calibration import KnownRejected, StrangersAccepted
from openset.calibration._criterion import CalibrationScores
from openset.calibration._strangers import stranger_threshold
from openset.datasets import load_dataset
from openset.metrics import normalized_accuracy

CONFIDENCE = [(0.05, 59), (0.05, 100), (0.05, 500), (0.01, 299), (0.01, 500)]
RATES = (0.1, 0.05, 0.02, 0.01)
# Known classes, gamma, and numbers of strangers, of each set.
STRANGERS = {
    "aloi": (100, 2.0, (9, 19, 49, 99, 499)),
    "clinc150-minilm": (50, 2.0, (9, 19, 49)),
}


class Setup(NamedTuple):
    """Share of the draws, folder of the data, and the folder that keeps what was computed."""

    share: float
    data: str | None
    keep: Path

    def draws(self, n: int) -> int:
        return max(2, round(n * self.share))

    def scores(self, name: str, make, *given) -> dict:
        """Arrays that `make` computes, or that an earlier run has kept."""
        path = self.keep / f"{name}.npz"
        if not path.exists():
            arrays = make(*given, self.data)
            partial = path.with_suffix(".part")
            with partial.open("wb") as file:
                np.savez(file, **arrays)
            partial.replace(path)
        return dict(np.load(path))


def scores_of(best, strangers=(), **given) -> CalibrationScores:
    """What a criterion is asked with, for samples of one class with these highest scores."""
    strangers = np.asarray(strangers, dtype=float)[:, None]
    codes = np.zeros(len(best), dtype=int)
    return CalibrationScores(
        *(np.asarray(best)[:, None], codes, strangers, codes[:1], np.full(1, np.inf), 1e-9),
        **given,
    )


def calibrated(criterion, best, **given):
    """The threshold that the criterion chooses."""
    return criterion.thresholds(scores_of(best, **given))


def figure(values) -> str:
    """Mean and standard error."""
    return f"{np.mean(values):.4f} ± {np.std(values) / np.sqrt(len(values)):.4f}"


def verdict(values, most, least=-np.inf) -> str:
    """Whether the mean is within the limits, two standard errors allowed."""
    error = 2 * np.std(values) / np.sqrt(len(values))
    return "yes" if least - error <= np.mean(values) <= most + error else "NO"


def confidence(setup: Setup) -> Iterator[str]:
    n_runs = setup.draws(20_000)
    yield "## alpha with a confidence of 95 %"
    yield ""
    yield f"{n_runs:,} calibrations with uniform scores: the share of known rows below a threshold"
    yield "is the threshold. At most 5 % of the calibrations may exceed alpha. *Possible*: the"
    yield "mean of the largest rank k that keeps the promise, k / (n + 1); the threshold lies"
    yield "half a rank below. With a row less than the least number `CalibratedRejector` refuses."
    yield ""
    yield "| alpha | n | broken | kept | mean rejection | possible | least n, by its error |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    rng = np.random.default_rng(0)
    for alpha, n in CONFIDENCE:
        point = KnownRejected(alpha, confidence=0.95)
        shares = [np.clip(calibrated(point, rng.random(n)), 0, 1) for _ in range(n_runs)]
        broken = np.array(shares) > alpha
        least = 59 if alpha == 0.05 else 299
        try:
            calibrated(point, rng.random(least - 1))
            told = "accepted fewer: NO"
        except ValueError as error:
            told = str(error).split("needs ")[1].split(" calibration")[0]
        k = np.flatnonzero(binom.sf(np.arange(n) - 1, n, alpha) >= 0.95)[-1]
        yield (
            f"| {alpha:g} | {n} | {broken.mean():.4f} | {verdict(broken, 0.05)} | "
            f"{figure(shares)} | {k / (n + 1):.4f} | {told} |"
        )


def objects(setup: Setup) -> Iterator[str]:
    n_runs = setup.draws(2000)
    yield "## Objects: P(rejected) of a random row of a new object, alpha = 0.1"
    yield ""
    yield f"{n_runs:,} draws of objects for calibration; others are new. *Rows*: calibrated as"
    yield "if rows were independent. *Objects*: with `groups`. *Far above*: calibrations that"
    yield "reject more than 0.15. *One heavy*: one object of ten has fifty times the rows. *Few*:"
    yield "nine objects, the fewest that alpha = 0.1 allows. In *ALOI* a class is ten objects."
    yield ""
    yield "| data | objects | rows | objects | kept | rows: far above | objects: far above |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    sources = {
        "simulated, small objects harder": (_simulated_objects, 30),
        "simulated, few": (_simulated_objects, 9),
        "simulated, one heavy, ties": (_heavy_objects, 30),
        "vowel, speakers": (_vowel, 9),
        "ALOI, ten objects per class": (_aloi_merged, 60),
    }
    for name, (make, n_calibration) in sources.items():
        kept = setup.scores(make.__name__, make)
        scores, groups = kept["scores"], kept["groups"]
        rng = np.random.default_rng(1)
        order = np.argsort(groups, kind="stable")
        scores, groups = scores[order], groups[order]
        n = groups.max() + 1
        sizes = np.bincount(groups)
        shares: dict[str, list] = {"rows": [], "objects": []}
        for _ in range(n_runs):
            some = rng.permutation(n)[: n_calibration + 300]  # new ones: 300 at most
            ours = np.isin(groups, some[:n_calibration])
            for kind, given in (("rows", {}), ("objects", {"groups": groups[ours]})):
                t = calibrated(KnownRejected(0.1), scores[ours], **given)
                each = np.bincount(groups, weights=scores < t) / sizes
                shares[kind].append(each[some[n_calibration:]].mean())
        far = [np.mean(np.array(values) > 0.15) for values in shares.values()]
        yield (
            f"| {name} | {n_calibration} of {n} | {figure(shares['rows'])} | "
            f"{figure(shares['objects'])} | {verdict(shares['objects'], 0.1)} | {far[0]:.2f} | "
            f"{far[1]:.2f} |"
        )


def _simulated_objects(_home, heavy=1):
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 40, size=1000)
    level = rng.normal(size=1000) + 0.04 * sizes  # small objects are harder
    sizes[::10] *= heavy
    groups = np.repeat(np.arange(1000), sizes)
    return {"scores": level[groups] + 0.2 * rng.normal(size=len(groups)), "groups": groups}


def _heavy_objects(_home):
    arrays = _simulated_objects(None, heavy=50)
    rows = np.random.default_rng(0).permutation(len(arrays["groups"]))[:40_000]
    scores, groups = arrays["scores"][rows].round(1), arrays["groups"][rows]
    return {"scores": scores, "groups": np.unique(groups, return_inverse=True)[1]}


def _vowel(home):
    """Scores of the rows of speakers that the model has not heard."""
    X, y = load_dataset("vowel", data_home=home, return_X_y=True)
    speaker = X[:, 1].astype(int)
    return _new_objects(X[:, 3:], y, speaker < 3, speaker)


def _aloi_merged(home):
    """Classes of ten ALOI objects; the objects of calibration and test are new to the model."""
    X, item = _load("aloi", home)
    rows = np.flatnonzero(item < 300)[::3]
    X, item = X[rows], item[rows]
    return _new_objects(X, item // 10, item % 10 < 3, item)


def _new_objects(X, y, fit, groups):
    model = make_pipeline(MinMaxScaler(), OpenSetSVC(C=8.0)).fit(X[fit], y[fit])
    scores = model.known_score(X[~fit])
    return {"scores": scores, "groups": np.unique(groups[~fit], return_inverse=True)[1]}


def _load(name, home):
    """Rows and class indices, without those out of scope."""
    X, y = load_dataset(name, data_home=home, return_X_y=True)
    rows = np.asarray(y).astype(str) != "oos"
    return X[rows], np.unique(y[rows], return_inverse=True)[1]


def strangers(setup: Setup) -> Iterator[str]:
    n_runs, n_models = setup.draws(500), setup.draws(10)
    yield "## Strangers: share accepted of classes that are new, each weighing the same"
    yield ""
    yield f"{n_runs:,} draws of G stranger classes and of new ones (all that are left), over"
    yield f"{n_models} draws of the known classes (100 of ALOI's, 50 of CLINC150's), a model for"
    yield "each. *Plain*: all rows. *Rough*: classes of 1 row up to all, a fifth of the rows"
    yield "repeated up to ten times, scores rounded to 0.05, for strangers and new classes alike."
    yield "*Kept*: the mean is at most the rate, and at least the rate - 2 / (G + 1) on plain rows,"
    yield "two standard errors allowed. *Named right*: known test rows, at the threshold, and at"
    yield "that from ten times as many strangers (or from all, where there are not so many)."
    yield ""
    yield (
        "| data | G | rate | r (G + 1) | accepted, plain | kept | accepted, rough | kept "
        "| named right | with 10 G | lost, points |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, (n_known, gamma, numbers) in STRANGERS.items():
        draws = [
            setup.scores(f"{name}-{seed}", _known_and_others, name, n_known, gamma, seed)
            for seed in range(n_models)
        ]
        for n_strangers in numbers:
            yield from _strangers_lines(name, draws, n_strangers, n_runs)


def _known_and_others(name, n_known, gamma, seed, home):
    """Highest scores and right answers of known test rows, highest scores of all other classes."""
    X, codes = _load(name, home)
    rng = np.random.default_rng(seed)
    known = rng.permutation(codes.max() + 1)[:n_known]
    is_known = np.isin(codes, known)
    fit = is_known & (rng.random(len(codes)) < 0.5)
    others = np.flatnonzero(~is_known)
    others = others[rng.random(len(others)) < (0.15 if name == "aloi" else 0.3)]
    model = _estimator(name, gamma).fit(X[fit], codes[fit])
    test = np.flatnonzero(is_known & ~fit)
    scores = model.decision_function(X[test])
    return {
        "best": scores.max(axis=1),
        "right": model.classes_[scores.argmax(axis=1)] == codes[test],
        "others": model.known_score(X[others]),
        "classes": np.unique(codes[others], return_inverse=True)[1],
    }


def _estimator(name, gamma):
    scaler = "passthrough" if name.startswith("clinc") else MinMaxScaler()
    return make_pipeline(scaler, OpenSetSVC(C=8.0, gamma=gamma, n_jobs=1))


def _rough(scores, classes, rng):
    """Classes of unequal sizes, with repeated rows and ties."""
    share = rng.random(classes.max() + 1) ** 2
    first = np.unique(classes, return_index=True)[1]
    rows = np.union1d(np.flatnonzero(rng.random(len(classes)) < share[classes]), first)
    rows = np.repeat(rows, np.where(rng.random(len(rows)) < 0.2, rng.integers(1, 11, len(rows)), 1))
    return np.round(20 * scores[rows]) / 20, classes[rows]


def _strangers_lines(name, draws, n_strangers, n_runs) -> Iterator[str]:
    lowest = 1 / (n_strangers + 1)
    rates = [r for r in sorted({*RATES, lowest}, reverse=True) if r >= lowest * (1 - 1e-9)]
    accepted, named = np.zeros((2, len(rates), n_runs)), np.zeros((2, len(rates), n_runs))
    rng = np.random.default_rng(3)
    for k in range(n_runs):
        draw = draws[k % len(draws)]
        best, right, plain = (
            draw["best"][::3],
            draw["right"][::3],
            (draw["others"], draw["classes"]),
        )
        names = rng.permutation(plain[1].max() + 1)
        for kind, (s, c) in enumerate((plain, _rough(*plain, rng))):
            sizes = np.bincount(c)
            for j, n in enumerate((n_strangers, 10 * n_strangers)[: 2 - kind]):
                ours = np.isin(c, names[:n])
                given = scores_of(best, s[ours], unknown_groups=c[ours])
                for i, rate in enumerate(rates):
                    t = stranger_threshold(given, rate)
                    if kind == 0:
                        named[j, i, k] = np.mean(right & (best >= t))
                    if j == 0:
                        each = np.bincount(c, weights=s >= t) / sizes
                        accepted[kind, i, k] = each[names[n_strangers:]].mean()
    for i, rate in enumerate(rates):
        least = rate - 2 / (n_strangers + 1)
        a, b = named[:, i].mean(axis=1)
        yield (
            f"| {name} | {n_strangers} | {rate:.3g} | {rate * (n_strangers + 1):.3g} | "
            f"{figure(accepted[0, i])} | {verdict(accepted[0, i], rate, least)} | "
            f"{figure(accepted[1, i])} | {verdict(accepted[1, i], rate)} | {a:.3f} | {b:.3f} | "
            f"{100 * (b - a):.1f} |"
        )


def limits(setup: Setup) -> Iterator[str]:
    n_runs, n_models = setup.draws(500), setup.draws(10)
    yield "## Limits of two of these promises"
    yield ""
    yield "**Confidence, alpha = 0.01, n = 500: the mean cannot be half of alpha.** The share"
    yield "below the k-th of n scores exceeds alpha with the probability P(Bin(n, alpha) <= k -"
    yield "1), which must not exceed 0.05. *Mixed*: the rank k + 1 in so many calibrations, drawn"
    yield "at random, that the promise is just kept. *Possible* is half of alpha from n = 1,049"
    yield "on, *mixed* from n = 742 on."
    yield ""
    yield "| alpha | n | k | broken, k | broken, k + 1 | possible | mixed | half of alpha |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for alpha, n in CONFIDENCE:
        k = np.flatnonzero(binom.sf(np.arange(n) - 1, n, alpha) >= 0.95)[-1]
        a, b = binom.cdf([k - 1, k], n, alpha)
        mixed = (k + (0.05 - a) / (b - a)) / (n + 1)
        yield (
            f"| {alpha:g} | {n} | {k} | {a:.4f} | {b:.4f} | {k / (n + 1):.4f} | {mixed:.4f} | "
            f"{alpha / 2:g} |"
        )
    yield ""
    yield "**Strangers: what the mass of the identity to come costs.** With r (G + 1) = k the"
    yield "threshold accepts strangers of a mass of (k - 1) / (G + 1) at most; 1 / (G + 1) is for"
    yield "the one to come. A mass d / (G + 1) with d < k / (k + 1) breaks the promise: of"
    yield "identities with a share (k - d) / k of their rows at one level, and the rest far"
    yield "below, it accepts the k highest, so a new one with the probability (k + 1) / (G + 1),"
    yield "and (k - d) / k (k + 1) > k. So at k = 5 no more than a sixth of this reserve can be"
    yield "saved, at k = 10 an eleventh. *Half*: d = 1 / 2, no promise, but here about r on"
    yield "average. *One row*: the k-th of one random row per identity, a promise with nothing to"
    yield "spare (r on average), but the threshold is random. *Lost*: points of known rows named"
    yield "right, less than with the threshold from ten times as many strangers, or from all."
    yield "Neither of the two that keep the promise stays within 1 point in every row."
    yield ""
    yield (
        "| data | G | rate | accepted | lost | accepted, half | lost | accepted, one row | lost |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, (n_known, gamma, numbers) in STRANGERS.items():
        draws = [
            setup.scores(f"{name}-{seed}", _known_and_others, name, n_known, gamma, seed)
            for seed in range(n_models)
        ]
        for n_strangers in numbers:
            for rate in RATES:
                if rate * (n_strangers + 1) in (5, 10):
                    yield _limits_line(name, draws, n_strangers, rate, n_runs)


def _limits_line(name, draws, n_strangers, rate, n_runs) -> str:
    found, rng = np.empty((n_runs, 3, 2)), np.random.default_rng(3)
    k, total = round(rate * (n_strangers + 1)), n_strangers + 1
    for i in range(n_runs):
        draw = draws[i % len(draws)]
        scores, classes = draw["others"], draw["classes"]
        sizes, names = np.bincount(classes), rng.permutation(classes.max() + 1)
        order = np.argsort(-scores, kind="stable")
        order = order[np.isin(classes[order], names[:n_strangers])]
        mass = np.cumsum(1 / sizes[classes[order]]) / total
        first = np.unique(rng.permutation(len(order)), return_index=True)[1]
        shuffled = order[first]
        one = shuffled[np.unique(classes[shuffled], return_index=True)[1]]
        some = np.isin(classes, names[: 10 * n_strangers])
        given = scores_of(draw["best"], scores[some], unknown_groups=classes[some])
        ideal = np.mean(draw["right"] & (draw["best"] >= stranger_threshold(given, rate)))
        levels = [np.searchsorted(mass, (k - d) / total * (1 + 1e-12), "right") for d in (1, 0.5)]
        limits = [*scores[order[levels]], np.sort(scores[one])[-k]]
        for j, t in enumerate(limits):  # accepted is what scores more
            each = np.bincount(classes, weights=scores > t) / sizes
            lost = ideal - np.mean(draw["right"] & (draw["best"] > t))
            found[i, j] = each[names[n_strangers:]].mean(), 100 * lost
    cells = [
        f"{figure(found[:, j, 0])} | {found[:, j, 1].mean():.1f} ± "
        f"{found[:, j, 1].std() / np.sqrt(n_runs):.1f}"
        for j in range(3)
    ]
    return f"| {name} | {n_strangers} | {rate:g} | {' | '.join(cells)} |"


def withheld(setup: Setup) -> Iterator[str]:
    n_runs = setup.draws(5)
    yield "## Strangers from withheld classes: an estimate"
    yield ""
    yield f"{n_runs} draws of K known classes, 40 rows each; the model is delivered by"
    yield "`StrangersAccepted` without strangers. *Accepted*: of the classes that were never known."
    yield "*Error*: accepted less stated; *spread*: its standard deviation over draws. CLINC150 has"
    yield "no class left at K = 150."
    yield ""
    yield "| data | K | stated | accepted | error | spread | stated | accepted | error | spread |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, (_, gamma, _) in STRANGERS.items():
        for n_known in (10, 25, 50, 100, 150):
            if name != "aloi" and n_known == 150:
                continue
            rates = max(0.1, 1 / (n_known + 1)), max(0.02, 1 / (n_known + 1))
            found = np.array(
                [
                    setup.scores(
                        f"withheld-{name}-{n_known}-{seed}",
                        *(_withheld, name, n_known, gamma, seed, rates),
                    )["accepted"]
                    for seed in range(n_runs)
                ]
            )
            cells = [
                f"{rate:.3g} | {figure(shares)} | {np.mean(shares) - rate:+.3f} | "
                f"{np.std(shares):.3f}"
                for rate, shares in zip(rates, found.T, strict=True)
            ]
            yield f"| {name} | {n_known} | {' | '.join(cells)} |"


def _withheld(name, n_known, gamma, seed, rates, home):
    """Share accepted of classes never known, at each of two rates."""
    X, codes = _load(name, home)
    rng = np.random.default_rng(seed)
    some = rng.permutation(len(codes))
    rank = np.empty(len(codes), dtype=int)  # of a row within its class
    order = some[np.argsort(codes[some], kind="stable")]
    rank[order] = np.arange(len(codes)) - np.searchsorted(codes[order], codes[order])
    names = rng.permutation(codes.max() + 1)
    known = np.isin(codes, names[:n_known]) & (rank < 40)
    new = np.isin(codes, names[n_known : n_known + 200]) & (rank < 40)
    accepted = []
    model = CalibratedRejector(
        _estimator(name, gamma), criterion=StrangersAccepted(rates[1]), random_state=seed
    ).fit(X[known], codes[known])
    best = model.known_score(X[new]) + model.thresholds_[0]
    trade_off = {entry["rate"]: entry["threshold"] for entry in model.strangers_["trade_off"]}
    for rate in rates:
        t = trade_off.get(rate, model.thresholds_[0])
        each = np.bincount(codes[new], weights=best >= t) / np.maximum(1, np.bincount(codes[new]))
        accepted.append(each[np.unique(codes[new])].mean())
    return {"accepted": np.array(accepted)}


def categories(setup: Setup) -> Iterator[str]:
    n_runs = setup.draws(2000)
    yield "## Within categories, alpha = 0.1"
    yield ""
    yield f"{n_runs:,} calibrations of 300 rows; category b (30 %) scores lower than a."
    yield ""
    yield "| | rejected of a | rejected of b | kept |"
    yield "| --- | --- | --- | --- |"
    rng = np.random.default_rng(4)
    together, each = [], []
    for _ in range(n_runs):
        name = np.where(rng.random(300) < 0.3, "b", "a")
        scores = rng.normal(np.where(name == "a", 2.0, 0.0))
        new = rng.normal(2.0, size=2000), rng.normal(0.0, size=2000)
        t = calibrated(KnownRejected(0.1), scores)
        together.append([np.mean(values < t) for values in new])
        point = KnownRejected(0.1, within="category")  # asked once per category
        t = [calibrated(point, scores[name == category]) for category in "ab"]
        each.append([np.mean(values < limit) for values, limit in zip(new, t, strict=True)])
    for kind, shares in (("together", together), ("within each", each)):
        a, b = np.transpose(shares)
        kept = "yes" if {verdict(a, 0.1), verdict(b, 0.1)} == {"yes"} else "NO"
        yield f"| {kind} | {figure(a)} | {figure(b)} | {kept} |"


def search(setup: Setup) -> Iterator[str]:
    n_runs = setup.draws(10)
    yield "## The search, where rows repeat per object"
    yield ""
    yield f"{n_runs} draws of known classes, and of the objects that are trained on. *Score*: of"
    yield "the search (the mean of the accuracies on known and unknown rows), with and without"
    yield "`groups`. *Truth*: the same of the model that it delivers, on new objects of the known"
    yield "classes and on classes that were never known."
    yield ""
    yield "| data | groups | score | truth | score - truth |"
    yield "| --- | --- | --- | --- | --- |"
    for name in ("vowel", "aloi"):
        found = np.array(
            [
                setup.scores(f"search-{name}-{seed}", _searched, name, seed)["shares"]
                for seed in range(n_runs)
            ]
        )
        for k, kind in enumerate(("without", "with")):
            score, truth = found[:, k].T
            cells = f"{figure(score)} | {figure(truth)} | {figure(score - truth)}"
            yield f"| {name} | {kind} | {cells} |"


def _searched(name, seed, home):
    """(2, 2): the score of the search and its truth, without and with groups."""
    rng = np.random.default_rng(seed)
    if name == "vowel":  # eleven vowels, fifteen speakers
        X, y = load_dataset("vowel", data_home=home, return_X_y=True)
        X, item = X[:, 3:], X[:, 1].astype(int)
        y = np.unique(y, return_inverse=True)[1]
        known, trained = rng.permutation(11)[:6], rng.permutation(15)[:10]
    else:  # classes of ten objects, twelve views of each
        X, object_ = _load("aloi", home)
        rows = np.flatnonzero(object_ < 200)[::9]
        X, y, item = X[rows], object_[rows] // 10, object_[rows]
        known, trained = rng.permutation(20)[:10], np.flatnonzero(rng.permutation(200) % 10 < 6)
    is_known, fit = np.isin(y, known), np.isin(item, trained)
    rows, test = np.flatnonzero(is_known & fit), np.flatnonzero(~fit | ~is_known)
    shares = []
    for given in ({}, {"groups": item[rows]}):
        model = OpenSetSearchCV(
            make_pipeline(MinMaxScaler(), OpenSetSVC()),
            scoring="normalized_accuracy",
            random_state=seed,
        )
        model.fit(X[rows], y[rows], **given)
        answers = model.predict(X[test])
        truth = normalized_accuracy(y[test], answers, known=np.sort(known), unknown_label=-1)
        shares.append([model.best_score_, truth])
    return {"shares": np.array(shares)}


SECTIONS = {
    f.__name__: f for f in (strangers, withheld, objects, confidence, categories, search, limits)
}


def main():
    """Simulate all promises, print the tables and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="share of the draws to make")
    parser.add_argument("--data", default=os.environ.get("OPENSET_DATA"), help="folder of datasets")
    keep = Path(tempfile.gettempdir()) / "openset-promises"
    parser.add_argument("--keep", type=Path, default=keep, help="folder that keeps scores")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    setup = Setup(options.share, options.data, options.keep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in options.only:
            path = options.keep / f"{name}-{options.share:g}.md"
            if path.exists():
                continue
            lines = []
            for line in SECTIONS[name](setup):
                print(line, flush=True)
                lines.append(line)
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    parts = ["# Promises about identities, objects, categories and one calibration set\n"]
    parts.append("Written by `python benchmarks/promises.py`.\n")
    for name in SECTIONS:  # of each, the run with the most draws
        found = sorted(options.keep.glob(f"{name}-*.md"), key=lambda p: float(p.stem.split("-")[1]))
        parts += [found[-1].read_text(encoding="utf-8")] if found else []
    Path(__file__).with_suffix(".md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
