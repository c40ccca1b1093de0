"""What the paper does not say about its search: one rule after the other, against its results.

The paper says what it searched, but not how many samples and classes a simulation withholds, which
accuracy chose the parameters of a machine, nor which of several equally good settings won. A rule
is one choice for all four. Its answers on the draws of the study are compared with the published
results: the mean of each dataset, and every number of known classes, in standard errors.

    python -m benchmarks.replication_gaps run DATA_HOME OUT.csv --runs 5 --processes 16
    python -m benchmarks.replication_gaps report OUT.csv ... PUBLISHED

PUBLISHED is the folder of ``paper_raw_results.parquet``. With ``--scenario closed`` no class is
withheld.
"""

import argparse
import multiprocessing
import os
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from openset import OpenSetSVC
from openset.datasets import load_dataset
from openset.metrics import accuracy_known, accuracy_unknown
from openset.model_selection import ClosedSetSplit, OpenSetSplit
from openset.study import make_split
from openset.svm import OneVsRestSVC

GAMMAS, LAMS = 2.0 ** np.arange(-15, 16, 2), np.arange(20) / 20
SETS = ["yeast", "mfeat-morphological", "mfeat-zernike", "mfeat-karhunen", "mfeat-fourier"]
SETS += ["mfeat-factors", "led7", "led24", "vowel", "movement_libras", "kddcup", "aloi"]
SETS += ["optdigits", "pendigits", "letter", "krkopt"]
METHODS = {"OpenSetSVC": "ssvm", "OneVsRestSVC": "svm"}
TEST_ROWS = 1500  # of known and of unknown classes each
HALF, OTHERS = "half of the classes", "one class and half of the others"


class Rule(NamedTuple):
    """The study's rule; the names of RULES say what differs from it."""

    withheld: float = 0.2  # share of the samples of a known class
    known: str = OTHERS
    measure: str = "accuracy"
    gamma: str = "narrowest"  # among equally good settings
    lam: str = "largest"


RULES = {
    "the preset": Rule(),
    "a third withheld": Rule(withheld=1 / 3),
    "half withheld": Rule(withheld=0.5),
    "a tenth withheld": Rule(withheld=0.1),
    "half of the classes known": Rule(known=HALF),
    "normalized accuracy": Rule(measure="NA"),
    "harmonic normalized accuracy": Rule(measure="HNA"),
    "accuracy, a fifth of the unknowns": Rule(measure="fewer unknowns"),
    "mean of both classes' accuracy": Rule(measure="balanced"),
    "smallest lambda": Rule(lam="smallest"),
    "widest kernel": Rule(gamma="widest"),
    "widest kernel, smallest lambda": Rule(gamma="widest", lam="smallest"),
    "before": Rule(0.5, HALF, "NA", "widest", "smallest"),
    "before, narrowest kernel": Rule(0.5, HALF, "NA", "narrowest", "smallest"),
}


def simulations(y, rule, scenario, seed):
    """(class, simulation) for every class."""
    how = {"test_size": rule.withheld, "random_state": seed}
    n = len(np.unique(y))
    if scenario == "closed":
        splitter = ClosedSetSplit(1, **how)
    else:
        splitter = OpenSetSplit(1, n_known=n // 2 + 1 if rule.known == OTHERS else None, **how)
    return [(c, splitter.simulate(y, positive=c)[0]) for c in np.unique(y)]


def validate(X, y, drawn):
    """Right answers to positives, known and unknown negatives, (16, 20, 3), and biases, per class.

    With them the numbers of each, (3,).
    """
    classes = np.unique(y)
    roles, splits, found = [], [], []
    for k, (c, s) in enumerate(drawn):
        truth = y[s.validation]
        roles.append(np.where(truth == c, 0, np.where(np.isin(truth, s.known), 1, 2)))
        splits.append((s.fit, s.validation, np.array([k])))
        found.append(
            [np.zeros((16, 20, 3)), np.zeros((16, 20)), np.bincount(roles[-1], minlength=3)]
        )
    settings = [{"gamma": float(g), "lam": float(v)} for g, v in product(GAMMAS, LAMS)]

    def count(scores):
        role = roles[scores.split]
        right = (scores.scores[:, :, 0] >= 0) == (role == 0)
        for t, members in enumerate(scores.settings):
            for i in members:
                at = divmod(i, 20)
                found[scores.split][0][at] = [right[t, role == q].sum() for q in range(3)]
                found[scores.split][1][at] = scores.far[t, 0]

    assert len(drawn) == len(classes)
    for together in OpenSetSVC().grid_scores(settings, X, y, np.ones(len(y)), splits):
        for scores in together:
            count(scores)
    return found


def score(right, size, measure):
    """Score of each setting on the validation rows of one machine."""
    if size[2] == 0 and measure != "balanced":
        return right.sum(axis=-1) / size.sum()
    known, unknown = right[..., :2].sum(axis=-1) / size[:2].sum(), right[..., 2] / max(size[2], 1)
    if measure == "NA":
        return (known + unknown) / 2
    if measure == "HNA":
        return 2 * known * unknown / np.maximum(known + unknown, 1e-9)
    if measure == "balanced":
        return (right[..., 0] / size[0] + right[..., 1:].sum(axis=-1) / size[1:].sum()) / 2
    weight = np.array([1, 1, 0.2 if measure == "fewer unknowns" else 1])
    return right @ weight / (size @ weight)


def choose(found, rule, method):
    """Indices of gamma and lambda."""
    right, bias, size = found
    value = score(right, size, rule.measure)
    if method == "OneVsRestSVC":
        value = value[:, :1]
    else:
        value = np.where(bias >= 0, -np.inf, value)
    best = np.argwhere(value >= value.max() - 1e-12)
    gamma = best[:, 0].max() if rule.gamma == "narrowest" else best[:, 0].min()
    lams = best[best[:, 0] == gamma, 1]
    return int(gamma), int(lams.max() if rule.lam == "largest" else lams.min())


def run_draw(draw, home, scenario, names):
    """Rows of results of one draw under all rules."""
    dataset, n_known, run = draw
    X, y = load_dataset(dataset, data_home=home, return_X_y=True)
    split = make_split(y, dataset, n_known, run, 0)
    low, size = X[split.train].min(axis=0), np.ptp(X[split.train], axis=0)
    X = np.where(size > 0, (X - low) / np.where(size > 0, size, 1.0), 0.0)
    train, labels = X[split.train], y[split.train]
    rng, rows = np.random.default_rng(run), split.test
    known = np.isin(y[rows], split.known)
    test = np.concatenate([rng.permutation(rows[part])[:TEST_ROWS] for part in (known, ~known)])
    found: dict = {}
    measured: dict = {}
    results = []
    for name, method in product(names, METHODS):
        rule = RULES[name]
        design = rule.withheld, rule.known if scenario == "open" else ""
        if design not in found:
            found[design] = validate(train, labels, simulations(labels, rule, scenario, run))
        chosen = tuple(choose(own, rule, method) for own in found[design])
        if (method, chosen) not in measured:
            gammas = {c: GAMMAS[g] for c, (g, _) in zip(np.unique(labels), chosen, strict=True)}
            model = OneVsRestSVC(gamma=gammas)
            if method == "OpenSetSVC":
                lams = {c: LAMS[v] for c, (_, v) in zip(np.unique(labels), chosen, strict=True)}
                model = OpenSetSVC(gamma=gammas, lam=lams)
            answers = model.fit(train, labels).predict(X[test])
            of = {"known": model.classes_, "unknown_label": model.unknown_label_}
            values = [f(y[test], answers, **of) for f in (accuracy_known, accuracy_unknown)]
            measured[method, chosen] = [*values, np.mean(model.intercept_ < 0)]
        results.append([scenario, *draw, name, method, *measured[method, chosen]])
    return results


COLUMNS = ["scenario", "dataset", "n_known", "run", "rule", "method", "AKS", "AUS", "negative"]


def run(args):
    """All rules on all draws."""
    draws = []
    for r, dataset in product(range(args.runs), args.datasets):
        n_classes = len(np.unique(load_dataset(dataset, data_home=args.home, return_X_y=True)[1]))
        draws += [(dataset, n, r) for n in args.numbers if n < n_classes]
    rows, end = [], time.time() + args.seconds
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        names = args.rules or list(RULES)
        work = partial(run_draw, home=args.home, scenario=args.scenario, names=names)
        for found in pool.imap_unordered(work, draws):
            rows += found
            if time.time() > end:
                pool.terminate()
                break
    table = pd.DataFrame(rows, columns=COLUMNS).sort_values(COLUMNS[:6], kind="stable")
    table.to_csv(args.out, index=False, float_format="%.6g")


def mean_and_error(table, keys):
    """Mean over the cells of `keys`, and its standard error; the same cells in both tables."""
    cells = table.groupby([*keys, "n_known"])["value"].agg(["mean", "var", "count"])
    cells["var"] /= cells["count"]
    means = cells.groupby(keys).agg({"mean": "mean", "var": "sum", "count": "size"})
    return means["mean"], np.sqrt(means["var"]) / means["count"]


def report(args):
    """Tables of all rules: all datasets together by n, and z of each dataset's mean NA."""
    from studies.paper_tables import DATASETS

    table = pd.concat([pd.read_csv(part) for part in args.out])
    table = table.assign(NA=(table["AKS"] + table["AUS"]) / 2, n=table["n_known"])
    published = pd.read_parquet(Path(args.published) / "paper_raw_results.parquet")
    published = published.astype({"dataset": str, "classifier": str, "measure": str})
    published["dataset"] = published["dataset"].map({v[0]: k for k, v in DATASETS.items()})
    published = published.rename(columns={"lenacs": "n_known", "result": "value"})
    published["n"] = published["n_known"]
    for scenario, method in product(table["scenario"].unique(), METHODS):
        ours = table[(table["scenario"] == scenario) & (table["method"] == method)]
        letter = METHODS[method] + scenario[0].upper()
        theirs = published[published["classifier"] == letter]
        theirs = theirs.merge(ours[["dataset", "n_known"]].drop_duplicates())
        runs = ours.groupby(["dataset", "n_known"])["run"].nunique()
        head = f"{method}, {scenario} search, {runs.min()} to {runs.max()} runs, {len(runs)} cells"
        print(f"\n{head}\n\n| rule | AKS | AUS | NA | rms z AKS | AUS | NA | sets beyond 2 |")
        print("| --- " * 8 + "|")
        by_set = {}
        for name in (name for name in RULES if name in set(ours["rule"])):
            bias, spread = [], []
            for measure in ("AKS", "AUS", "NA"):
                own = ours[ours["rule"] == name].assign(value=lambda t, m=measure: t[m])
                other = theirs[theirs["measure"] == measure]
                (a, ea), (b, eb) = (mean_and_error(t, ["dataset"]) for t in (own, other))
                by_set[name] = z = (a - b) / np.hypot(ea, eb)
                bias.append(f"{(a - b).mean():+.3f}")
                (a, ea), (b, eb) = (mean_and_error(t, ["dataset", "n"]) for t in (own, other))
                spread.append(f"{np.sqrt((((a - b) / np.hypot(ea, eb)) ** 2).mean()):.2f}")
            far = int((z.abs() > 2).sum())
            print(f"| {name} | {' | '.join(bias + spread)} | {far} of {len(z)} |")
        print(pd.DataFrame(by_set).T.round(1).to_string())
    plain = table[(table["method"] == "OneVsRestSVC") & (table["scenario"] == "open")]
    shares = plain.groupby(["rule", "dataset"])["negative"].mean().unstack() * 100
    shares.loc["published"] = [DATASETS[d][1] for d in shares.columns]
    print("\nShare of negative biases of the SVM, %\n", shares.round(1).to_string())


def main():
    """Run the rules, or compare what they gave with the published results."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("run")
    command.set_defaults(do=run)
    command.add_argument("home", type=Path)
    command.add_argument("out", type=Path)
    command.add_argument("--processes", type=int, default=1)
    command.add_argument("--datasets", nargs="*", default=SETS)
    command.add_argument("--rules", nargs="*", choices=list(RULES))
    command.add_argument("--runs", type=int, default=10)
    command.add_argument("--seconds", type=float, default=1e9)
    command.add_argument("--scenario", choices=["open", "closed"], default="open")
    command.add_argument("--numbers", nargs="*", type=int, default=[3, 6, 9, 12])
    command = commands.add_parser("report")
    command.set_defaults(do=report)
    command.add_argument("out", type=Path, nargs="+")
    command.add_argument("published", type=Path)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    main()
