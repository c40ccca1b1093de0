"""Are promises kept where rows repeat and classes overlap? Writes ``calibration.md``.

Run ``python benchmarks/calibration.py --data-home FOLDER [--quick]``.

*Repeated rows*: 20 designs, 1,000 calibrations each, on score arrays. A population is a pool of
rows that are drawn with replacement; one wrong row holds 15 % of the known rows and one row a large
part of the unknown ones. Every time that the score of a row is formed it moves by up to `noise`.

*Overlapping classes*: sets of which some classes are known, end to end.
"""

import argparse
import os
import warnings
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC
from openset.base import OpenSetClassifier
from openset.calibration import Accuracy, Cost, KnownRejected, Precision, UnknownRejected
from openset.calibration._criterion import CalibrationScores
from openset.datasets import load_dataset

K = 3
N_KNOWN, N_UNKNOWN = 400, 200
COSTS = {"reject": 1.0, "wrong": 5.0, "accept_unknown": 5.0}
ALPHA, CONFIDENCE, UNKNOWN_SHARE = 0.05, 0.95, 0.2
MARGIN = 0.02  # of a target below the precision at half coverage
COPIES = 8  # of each row of the pool, with other noise, for the shares of new rows
POOLS = [3, 10, 30, 100, 2000]  # distinct rows per class
HEAVY = [0.3, 0.7]  # share of the unknown rows that are one row
NOISE = [0.0, 1e-6]
DESIGNS = list(product(POOLS, HEAVY, NOISE))

SETS = {  # name: classes drawn, of them known
    "banking77-minilm": (20, 15),
    "letter": (26, 15),
    "vowel": (11, 7),
    "yeast": (10, 4),
    "krkopt": (18, 10),
    "cifar10": (10, 6),
    "led24": (10, 6),
    "15-scenes": (15, 10),
    "mfeat-zernike": (10, 6),
    "gaussians": (12, 8),
}
OTHERS = {  # not looked at when the limits of the warnings were chosen
    "texts": (20, 15),
    "banking77-minilm in 20 groups": (20, 15),
    "clinc150-minilm in 20 groups": (20, 15),
    "mfeat-fourier": (10, 6),
    "mfeat-morphological": (10, 6),
    "led7": (10, 6),
    "pendigits": (10, 6),
}
ALPHAS = [0.02, 0.05, 0.1]

_REPEATED = """20 designs, {runs:,} calibrations each, of {known} known and {unknown} unknown rows
drawn with replacement from a *pool* of distinct rows per class. 15 % of the known rows are one row
that is answered wrongly, a *heavy* share of the unknown rows is one row. Each time that a score is
formed it moves by up to *noise*. Columns:

* *fu*: the mean share of new known rows that are rejected; at most 0.05 is promised. *own*: that
  their own class rejects. *class*: the worst class with `within="class"`.
* *precision*: the share of all calibrations whose true precision is below the target, which is two
  points below the precision at half coverage; 5 % are allowed. In brackets the same of those that
  gave a threshold, and the share that did. Without unknown rows, and with {share:.0%}.
* *aus*, *hna*, *cost*: the share of calibrations in which any calibration row gets another answer
  when it is scored again, or which miss the target of aus; none is wanted.
* *end to end*: precision broken of thresholds given, and fu, of {fits} fits of CalibratedRejector.
"""

_OVERLAPPING = """OpenSetSVC with the parameters of the default search, fitted on at most 900 rows;
calibrated and tested on other rows. *single*: unknown rows rejected by one threshold of
`known_score` that rejects as many new known rows, by the lowest and the highest such one. *told*:
`price_` from the classes that the search withheld. `own_class=True` was the default before; its
columns are on the right.
"""

_OTHERS = """The same with seed 1, on sets that were not looked at when the limits of the warnings
were chosen. *texts*: 384 features drawn as embeddings of texts are, see `texts` in the script.
*in 20 groups*: intents merged at random, so that similar ones are in different groups.
"""

_SUMMARY = """Of {total} calibrations {outside} are outside of what is allowed, and {apart} are more
than a point from the single threshold. Of all {both}, with `own_class=True`, {silent} lose half of
the rejected unknown rows or more without a warning."""


class Population(NamedTuple):
    """The rows that a design draws from, each as likely as any other."""

    known: np.ndarray  # (n, K)
    codes: np.ndarray
    unknown: np.ndarray  # (m, K)
    noise: float

    def draw(self, rng):
        """Scores and classes of known rows, and scores of unknown rows, each formed anew."""
        rows = rng.integers(len(self.known), size=N_KNOWN)
        others = rng.integers(len(self.unknown), size=N_UNKNOWN)
        return self.again(self.known[rows], rng), self.codes[rows], self.unknown[others]

    def again(self, scores, rng):
        """The same rows scored in another batch."""
        return scores + self.noise * (rng.random((len(scores), 1)) - 0.5)


def population(pool, heavy, noise, seed):
    """A pool of rows with one heavy wrong row and one heavy unknown row."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(K), pool)
    known = rng.normal(-0.5, 0.7, size=(K * pool, K))
    known[np.arange(K * pool), codes] += 1.5
    n_wrong = max(1, round(0.15 / 0.85 * len(known)))
    wrong = [0.2, rng.uniform(0.3, 0.9), -1.0]  # of class 0, answered 1
    known, codes = np.vstack([known, [wrong] * n_wrong]), np.append(codes, np.zeros(n_wrong, int))
    unknown = rng.normal(-0.7, 0.5, size=(max(10, pool), K))
    kind = [rng.uniform(0.3, 0.9), -1.0, -1.0]
    n_heavy = round(heavy / (1 - heavy) * len(unknown))
    return Population(known, codes, np.vstack([unknown, [kind] * n_heavy]), noise)


def threshold_of(asked, known, codes, unknown, noise):
    """Thresholds (K,) as fit finds them, without a model; None if there are none."""
    band = 1e-6 + 10 * noise
    classes, far = np.arange(K), np.full(K, np.inf)
    try:
        scores = CalibrationScores(known, codes, unknown, classes, far, band)
        return np.full(K, asked.thresholds(scores))
    except ValueError:
        return None


def rejected(scores, thresholds):
    return (scores - thresholds).max(axis=1) < 0


def precision_of(known, codes, unknown, thresholds, share):
    """Share of right answers among all answers; 1 without any."""
    accepted = ~rejected(known, thresholds)
    right = (1 - share) * np.mean(accepted & (known.argmax(axis=1) == codes))
    wrong = (1 - share) * np.mean(accepted) - right
    wrong += share * np.mean(~rejected(unknown, thresholds))
    return right / (right + wrong) if right + wrong else 1.0


def simulate_design(design, n_runs, seed=0):
    """What new rows get: {criterion: (figure, standard error, limit, share given a threshold)}."""
    rng = np.random.default_rng([seed, DESIGNS.index(design)])
    data = population(*design, seed=[seed, DESIGNS.index(design), 1])
    new = data.again(np.repeat(data.known, COPIES, axis=0), rng)
    codes = np.repeat(data.codes, COPIES)
    new_unknown = data.again(np.repeat(data.unknown, COPIES, axis=0), rng)
    half = np.median(data.known.max(axis=1))
    asked, targets = {}, {}
    for by in ("highest", "own"):
        asked[f"fu, {by}"] = KnownRejected(ALPHA, own_class=by == "own")
    asked["fu, per class"] = KnownRejected(ALPHA, within="class")
    for share in (0.0, UNKNOWN_SHARE):
        name = f"precision, {share:g} unknown"
        true = precision_of(data.known, data.codes, data.unknown, np.full(K, half), share)
        targets[name] = float(np.clip(true - MARGIN, 0.05, 0.99)), share
        asked[name] = Precision(targets[name][0], CONFIDENCE, unknown_share=share)
    asked |= {"aus": UnknownRejected(1 - ALPHA), "hna": Accuracy()}
    asked["cost"] = Cost(**COSTS, unknown_share=UNKNOWN_SHARE)
    figures = {name: [] for name in asked}
    for _ in range(n_runs):
        known, own, unknown = data.draw(rng)
        unknown = data.again(unknown, rng)
        for name, wanted in asked.items():
            t = threshold_of(wanted, known, own, unknown, data.noise)
            if t is None:
                figures[name].append(np.nan)
                continue
            if name == "fu, own":
                share = np.mean(new[np.arange(len(new)), codes] < t[0])
            elif name == "fu, per class":
                share = [rejected(new[codes == c], t).mean() for c in range(K)]
            elif name == "fu, highest":
                share = rejected(new, t).mean()
            elif name.startswith("precision"):
                target, unknown_share = targets[name]
                share = precision_of(new, codes, new_unknown, t, unknown_share) < target
            else:  # the answers to the same rows, scored again
                again = [rejected(data.again(part, rng), t) for part in (known, unknown)]
                first = [rejected(part, t) for part in (known, unknown)]
                share = any((a != b).any() for a, b in zip(again, first, strict=True))
                share |= name == "aus" and first[1].mean() < 1 - ALPHA - 1e-12
            figures[name].append(share)
    limits = {"fu": ALPHA, "precision": 1 - CONFIDENCE}
    result = {}
    for name, values in figures.items():
        values = np.reshape(values, (n_runs, -1))
        given = np.mean(~np.isnan(values))
        values = np.nan_to_num(values)  # no threshold, no broken promise
        worst = values.mean(axis=0).argmax()  # of the classes
        error = values[:, worst].std() / np.sqrt(n_runs)
        limit = limits.get(name.split(",")[0], 0.0)
        result[name] = (values[:, worst].mean(), error, limit, given)
    return result


def kept(figure, error, limit, _given=1.0):
    """Whether a share is at most its limit, within three standard errors."""
    return figure <= limit + 3 * error + 1e-12


class Noisy(OpenSetClassifier):
    """Rows are their own scores, which move by up to `noise` whenever they are formed."""

    def __init__(self, noise=0.0, unknown_label="auto"):
        self.noise = noise
        self.unknown_label = unknown_label

    def fit(self, X, y):
        self.classes_, self.unknown_label_ = np.unique(y), -1
        self._rng = np.random.default_rng(0)
        return self

    def decision_function(self, X):
        X = np.asarray(X, dtype=float)
        return X + self.noise * (self._rng.random((len(X), 1)) - 0.5)


def end_to_end(design, n_runs, seed=0):
    """Precision broken and mean share of known rows rejected, by CalibratedRejector itself."""
    rng = np.random.default_rng([seed, 7])
    data = population(*design, seed=[seed, DESIGNS.index(design), 1])
    model = FrozenEstimator(Noisy(data.noise).fit(None, np.arange(K)))
    half = np.median(data.known.max(axis=1))
    true = precision_of(data.known, data.codes, data.unknown, np.full(K, half), UNKNOWN_SHARE)
    target = float(np.clip(true - MARGIN, 0.05, 0.99))
    broken, shares = [], []
    new = data.again(np.repeat(data.known, COPIES, axis=0), rng)
    codes = np.repeat(data.codes, COPIES)
    new_unknown = data.again(np.repeat(data.unknown, COPIES, axis=0), rng)
    point = Precision(target, unknown_share=UNKNOWN_SHARE)
    precise = CalibratedRejector(model, criterion=point)
    for _ in range(n_runs):
        known, own, unknown = data.draw(rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fu = CalibratedRejector(model, ALPHA).fit(known, own)
            shares.append(rejected(new, fu.thresholds_).mean())
            try:
                t = precise.fit(known, own, X_unknown=unknown).thresholds_
            except ValueError:
                continue
        broken.append(precision_of(new, codes, new_unknown, t, UNKNOWN_SHARE) < target)
    return np.mean(broken) if broken else 0.0, len(broken), np.mean(shares)


class Overlap(NamedTuple):
    """A calibration of a set with overlapping classes."""

    name: str
    alpha: float
    by: str
    known: float  # share of new known rows rejected
    error: float  # three standard errors of it
    before: float  # share of new unknown rows rejected by the model, and
    unknown: float  # after calibration
    single: tuple[float, float]  # by thresholds of known_score that reject as many known rows
    told: tuple[float, float]  # price_ from the withheld classes, before and after
    warned: bool


def gaussians(n_classes=12, n=4800, seed=0):
    """Gaussian classes in five dimensions, closer than they are wide."""
    rng = np.random.default_rng(seed)
    centres, y = rng.normal(size=(n_classes, 5)), rng.integers(n_classes, size=n)
    return centres[y] + rng.normal(scale=0.45, size=(n, 5)), y


def texts(n_classes=20, n=6000, seed=0):
    """Unit vectors as texts are embedded: 20 classes of 6 topics, a tenth is of two classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(6, 30))[np.arange(n_classes) % 6]
    centres = centres + 0.5 * rng.normal(size=(n_classes, 30))
    y, other = rng.integers(n_classes, size=(2, n))
    share = np.where(rng.random(n) < 0.1, rng.random(n) / 2, 0.0)[:, None]
    Z = (1 - share) * centres[y] + share * centres[other] + 1.2 * rng.normal(size=(n, 30))
    X = Z @ rng.normal(size=(30, 384)) + rng.normal(size=(n, 384))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def load(name, data_home):
    if name in ("gaussians", "texts"):
        return {"gaussians": gaussians, "texts": texts}[name]()
    name, _, grouped = name.partition(" in ")
    data = load_dataset(name, data_home=data_home)
    X, y = np.asarray(data.data, dtype=float), np.asarray(data.target)
    if grouped:  # similar intents come to lie in different groups
        X, y = X[y != "oos"], y[y != "oos"]
        labels, codes = np.unique(y, return_inverse=True)
        y = np.random.default_rng(0).permutation(len(labels))[codes] % 20
    if "minilm" not in name:
        span = np.ptp(X, axis=0)
        X = (X - X.min(axis=0)) / np.where(span > 0, span, 1)
    return X, y


def calibrate_overlapping(name, data_home, *, seed=0, bys=("own", "highest")):
    """Search, calibrate and test on disjoint rows of the known classes and all unknown rows."""
    X, y = load(name, data_home)
    rng = np.random.default_rng(seed)
    labels, counts = np.unique(y, return_counts=True)
    n_classes, n_known = (SETS | OTHERS)[name]
    drawn = rng.permutation(labels[(counts >= 12) & (labels != "oos")])[:n_classes]
    rows = rng.permutation(np.flatnonzero(np.isin(y, drawn)))[:6000]
    is_known = np.isin(y[rows], drawn[:n_known])
    known, unknown = rows[is_known], rows[~is_known]
    fit, calibration, test = np.split(known, [min(900, len(known) // 3), 2 * len(known) // 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = OpenSetSearchCV(OpenSetSVC(), random_state=0).fit(X[fit], y[fit])
    calibration, test = (r[np.isin(y[r], search.classes_)] for r in (calibration, test))
    scores, others = search.known_score(X[test]), search.known_score(X[unknown])
    for alpha, by in product(ALPHAS, bys):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            point = KnownRejected(alpha, own_class=by == "own")
            model = CalibratedRejector(FrozenEstimator(search), criterion=point)
            model.fit(X[calibration], y[calibration])
        share = np.mean(model.predict(X[test]) == model.unknown_label_)
        k, ordered = round(share * len(scores)), np.sort(scores)
        ends = ordered[max(k - 1, 0)], ordered[min(k, len(scores) - 1)]
        single = np.mean(others <= ends[0]) if k else 0.0, np.mean(others < ends[1])
        told = model.price_["unknown"]
        error = 3 * np.sqrt(alpha * (1 - alpha) * (1 / len(calibration) + 1 / len(test)))
        after = np.mean(model.predict(X[unknown]) == model.unknown_label_)
        yield Overlap(
            *(name, alpha, by, share, error, np.mean(others < 0), after),
            *(single, (told["before"], told["after"])),
            any("rejected falls from" in str(w.message) for w in caught),
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws, to try the harness")
    parser.add_argument("--data-home", type=Path, default=os.environ.get("OPENSET_DATA"))
    options = parser.parse_args()
    n_runs, n_fits = (20, 3) if options.quick else (1000, 100)
    lines = ["# Calibration", "", *_repeated_lines(n_runs, n_fits)]
    lines += ["## Ten sets with overlapping classes", "", *_overlap_lines(SETS, options, 0), ""]
    lines += ["## Other sets, another seed", "", *_overlap_lines(OTHERS, options, 1)]
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    print(text)
    if not options.quick:
        Path(__file__).with_suffix(".md").write_text(text)


def _repeated_lines(n_runs, n_fits):
    yield "Written by `python benchmarks/calibration.py`."
    yield ""
    yield "## Repeated rows and one heavy bad kind"
    yield ""
    yield _REPEATED.format(
        runs=n_runs, fits=n_fits, known=N_KNOWN, unknown=N_UNKNOWN, share=UNKNOWN_SHARE
    )
    head = ["pool", "heavy", "noise", "fu", "fu own", "fu class", "precision", "precision, 0.2 "]
    head[-1] += "unknown"
    head += ["aus", "hna", "cost", "end to end"]
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    n_broken = n_cells = 0
    for design in DESIGNS:
        found = simulate_design(design, n_runs)
        cells = []
        for name, (figure, error, limit, given) in found.items():
            n_cells += 1
            n_broken += not kept(figure, error, limit)
            cell = f"{figure:.4f}" if name.startswith("fu") else f"{figure:.1%}"
            if name.startswith("precision"):
                cell += f" ({figure / given:.1%} of {given:.0%})" if given else " (none given)"
            cells.append(cell)
        broken, given, share = end_to_end(design, n_fits)
        cells.append(f"{broken:.0%} of {given}, {share:.3f}")
        yield f"| {' | '.join(map(str, design))} | {' | '.join(cells)} |"
    yield ""
    yield f"{n_broken} of {n_cells} figures exceed their limit by more than three standard errors."
    yield ""


def _overlap_lines(names, options, seed):
    yield _OVERLAPPING if names is SETS else _OTHERS
    yield (
        "| set | alpha | known rejected | allowed | unknown before | unknown rejected | single | "
        "told | warned | own: known | own: unknown | own: warned |"
    )
    yield f"|{' --- |' * 12}"
    outside = apart = silent = total = 0
    for name in names:
        found = list(calibrate_overlapping(name, options.data_home, seed=seed))
        for alpha in ALPHAS:
            own, highest = (
                next(r for r in found if (r.alpha, r.by) == (alpha, by))
                for by in ("own", "highest")
            )
            total += 1
            outside += abs(highest.known - alpha) > highest.error
            low, high = highest.single
            apart += not low - 0.01 <= highest.unknown <= high + 0.01
            silent += sum(r.unknown <= r.before / 2 and not r.warned for r in (own, highest))
            yield (
                f"| {name} | {alpha:g} | {highest.known:.3f} | ± {highest.error:.3f} | "
                f"{highest.before:.2f} | {highest.unknown:.2f} | {low:.2f} to {high:.2f} | "
                f"{highest.told[0]:.2f} to {highest.told[1]:.2f} | {_yes(highest.warned)} | "
                f"{own.known:.3f} | {own.unknown:.2f} | {_yes(own.warned)} |"
            )
    yield ""
    yield _SUMMARY.format(total=total, outside=outside, apart=apart, both=2 * total, silent=silent)


def _yes(value):
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
