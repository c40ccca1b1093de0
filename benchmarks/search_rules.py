"""Rules that choose a setting from simulations, compared on the tables of ``search_table.py``.

    python -m benchmarks.search_rules FOLDER_OF_TABLES --grid coarse

A rule sees the scores of all settings in the simulations of a task and returns the number of the
setting that it would fit; what counts is the normalised accuracy (NA) of that setting on the test
rows. Gains are paired with the earlier default on the same tasks; standard errors are over
datasets. Priors are learnt from the other datasets only.
"""

import argparse
import io
import zipfile
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from openset import OpenSetSVC

from .search_table import GRIDS, HALVES

# The default grid before this comparison, the new one, and what is left of it now.
OLD = (2.0 ** np.arange(-7, 10, 2), (1, 8), np.arange(20) / 20)
NEW = (
    2.0 ** np.arange(-5, 10, 2),
    (1, 8),
    (0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
)
NOW = tuple(np.asarray(OpenSetSVC.search_spec.grids["default"][k]) for k in ("gamma", "C", "lam"))


def floor(n):
    """Lead that takes others out of the race after one simulation, for n classes."""
    return 0.2 / np.sqrt(n)


class Table:
    """The scores of one task: in simulations and on the test rows."""

    def __init__(self, name, content):
        self.dataset, n_known, run = name.rsplit("-", 2)
        self.key = self.dataset, int(n_known), int(run)
        self.n_known = int(n_known)
        self.kind, self.n_judged = content["kind"], content["n_judged"]
        self.na, self.bounded = content["na"] / 65535, content["bounded"]
        test = content["test"] / 65535
        self.test, self.test_auroc, self.test_oscr = (
            test[..., :2].mean(-1),
            test[..., 2],
            test[..., 3],
        )
        for name in ("areas", "test_areas", "curve", "test_curve"):
            if name in content:
                setattr(self, name, content[name] / 65535)
        self.far, self.thresholds = content.get("far"), content.get("thresholds")

    def which(self, kind, count=None):
        """Numbers of the first simulations of a kind."""
        return np.flatnonzero(self.kind == kind)[:count]


def load(folder):
    """The tables in the zip files and single files of a folder."""
    tables = {}
    for path in sorted(Path(folder).glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                content = dict(np.load(io.BytesIO(archive.read(name))))
                tables[name] = Table(name.removesuffix(".npz"), content)
    for path in sorted(Path(folder).glob("*.npz")):
        tables[path.name] = Table(path.stem, dict(np.load(path)))
    return list(tables.values())


def part_of(grid, gammas=None, boxes=None, lambdas=None):
    """Numbers of the settings with some values, for `numpy.ix_`; None takes all."""
    axes = zip((grid.gammas, grid.boxes, grid.lambdas), (gammas, boxes, lambdas), strict=True)
    return np.ix_(
        *(
            np.flatnonzero(np.isin(np.round(a, 9), np.round(a if v is None else v, 9)))
            for a, v in axes
        )
    )


class Rules:
    """Rules over a part of the grid."""

    def __init__(self, part):
        self.part = part

    def mean(self, table, which, strict=True):
        """Mean NA over simulations; -1 where a region was unbounded, if strict."""
        mean = table.na[which].mean(axis=0)[self.part]
        bounded = table.bounded[which].all(axis=0)[self.part]
        return np.where(bounded, mean, -1.0) if strict else mean

    def test_at(self, table, scores):
        """NA on the test rows of the setting with the highest score, the first of equals."""
        return table.test[self.part].ravel()[np.argmax(scores.round(12))]

    def plain(self, kind, count, strict=True):
        """The setting with the highest mean."""
        return lambda t: self.test_at(t, self.mean(t, t.which(kind, count), strict))

    def raced(self, kind, count, rounds=(1, 2), floor=lambda n: 0.02, bonus=None, narrow=False):
        """The highest mean of the settings that stay in a race.

        A bonus is added to the final means; `narrow` takes the narrowest width within one standard
        error of the best mean, over simulations, and its best setting.

        After each number of simulations in `rounds`, settings drop out that are behind the best by
        more than three standard errors of a mean of shares, or by `floor(n)` after one simulation
        of n classes.
        """

        def rule(t):
            which = t.which(kind, count)
            left = np.ones(t.test[self.part].shape, dtype=bool)
            for r in rounds:
                mean = np.where(left, self.mean(t, which[:r]), -1.0)
                top = mean.max()
                share = np.mean((1 / t.n_judged[which[:r]]).sum(axis=1))
                error = 0.5 * np.sqrt(abs(top) * (1 - abs(top)) * share)
                left &= mean >= top - max(3 * error, floor(t.n_known)) / np.sqrt(r)
            mean = np.where(left, self.mean(t, which), -2.0)
            if bonus is not None:
                mean = mean + bonus[t.key]
            if narrow:
                scores = np.array([t.na[s][self.part] for s in which]).reshape(len(which), -1)
                behind = scores[:, np.argmax(mean)][:, None] - scores
                error = behind.std(axis=0, ddof=1).reshape(mean.shape) / np.sqrt(len(which))
                near = (mean >= mean.max() - error).any(axis=(1, 2))
                mean[: np.flatnonzero(near)[-1]] = -2.0
            return self.test_at(t, mean)

        return rule

    def smooth(self, kind, count, width):
        """The highest mean after smoothing over neighbours of gamma, C and lambda."""

        def rule(t):
            mean = self.mean(t, t.which(kind, count))
            low = np.where(mean < 0, 0.5, mean)
            return self.test_at(
                t, np.where(mean < 0, -1, gaussian_filter(low, width, mode="nearest"))
            )

        return rule

    def best_fixed(self, tables):
        """The best setting of each dataset and n, chosen on the test rows: what could be had."""
        found = {}
        for cell in {t.key[:2] for t in tables}:
            own = [t for t in tables if t.key[:2] == cell]
            mean = np.mean([t.test[self.part] for t in own], axis=0)
            found |= {t.key: self.test_at(t, mean) for t in own}
        return found

    def priors(self, tables, weight, by_n=False):
        """By task, a weight times the mean test score of a setting on the other datasets."""
        sums: dict = {}
        for t in tables:
            own = t.test[self.part]
            sums.setdefault((t.n_known if by_n else 0, t.dataset), []).append(own - own.mean())
        means = {key: np.mean(v, axis=0) for key, v in sums.items()}
        found = {}
        for t in tables:
            others = [m for (n, d), m in means.items() if d != t.dataset and n in (0, t.n_known)]
            found[t.key] = weight * np.mean(others, axis=0)
        return found


def evaluate(rule, tables):
    """NA on the test rows of the setting a rule chooses, by task."""
    return {t.key: rule(t) for t in tables}


def summary(found, baseline, datasets=None):
    """Mean for n = 3 and 6, paired gains over the baseline and their errors over datasets."""
    cells = []
    for n in (3, 6):
        keys = [k for k in found if k[1] == n and (datasets is None or k[0] in datasets)]
        names = sorted({k[0] for k in keys})
        mean = [np.mean([found[k] for k in keys if k[0] == d]) for d in names]
        gain = [np.mean([found[k] - baseline[k] for k in keys if k[0] == d]) for d in names]
        cells.append((np.mean(mean), np.mean(gain), np.std(gain, ddof=1) / np.sqrt(len(gain))))
    return cells


def families(tables, grid):
    """Rules to compare, by name: functions of the tables."""
    old = Rules(part_of(grid, *OLD))
    new = Rules(part_of(grid, *NEW))
    found = {BASELINE: evaluate(old.raced("random", 5), tables)}

    def add(name, rule):
        found[name] = evaluate(rule, tables)

    for count in (1, 5, 10):
        add(f"random, {count} simulations, no race", old.plain("random", count))
    for count in (5, 6, 9):
        add(f"balanced, {count}, no race", old.plain("balanced", count))
    add("balanced, 9, unbounded settings allowed", old.plain("balanced", 9, strict=False))
    for kind, what in {"most": "all classes but one known", "more rows": "3/4 of the rows"}.items():
        if any(kind in t.kind for t in tables):
            known = {n: kind if n == 6 or kind == "more rows" else "balanced" for n in (3, 6)}
            add(f"{what}, 6", lambda t, k=known: old.plain(k[t.n_known], 6)(t))
    for width in ((0.3, 0, 0.5), (0.5, 0, 1), (0.5, 0.5, 2)):
        add(f"balanced, 9, smoothed {width}", old.smooth("balanced", 9, width))
    for weight in (0.1, 0.2, 0.4):
        prior = old.priors(tables, weight)
        rule = old.raced("balanced", 9, rounds=(), bonus=prior)
        add(f"balanced, 9, prior of the other sets, weight {weight}", rule)
    only = Rules(part_of(grid, OLD[0], (8,), OLD[2]))
    add("balanced, 9, C = 8 only", only.plain("balanced", 9))
    add("balanced, 9, earlier race", old.raced("balanced", 9))
    add("balanced, 9, new race and grid", new.raced("balanced", 9, (1, 2, 4), floor))
    add("balanced, 6, earlier race", old.raced("balanced", 6))
    race = "balanced", 6, (1, 2, 4), floor
    add(CHOSEN, new.raced(*race))
    for weight in (0.1, 0.2, 0.3):
        for by_n in (False, True):
            prior = new.priors(tables, weight, by_n)
            name = f"the same, prior of the other sets{' by n' * by_n}, weight {weight}"
            add(name, new.raced(*race, bonus=prior))
    add("the same, narrowest width within one standard error", new.raced(*race, narrow=True))
    return found, old


BASELINE = "random, 5, race (the earlier default)"
CHOSEN = "balanced, 6, new race and grid (the default without finer widths)"


def _cells(cells):
    texts = [f"{mean:.4f} | {gain:+.4f} ± {error:.4f}" for mean, gain, error in cells]
    return " | ".join(texts)


def main():
    """Print all rules, and what a choice on one half of the datasets is worth on the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--grid", choices=GRIDS, default="coarse")
    args = parser.parse_args()
    tables = load(args.folder)
    found, old = families(tables, GRIDS[args.grid])
    base = found[BASELINE]
    names = {t.dataset for t in tables}
    print(f"{len(tables)} tasks, {len(names)} datasets.\n")
    print("| rule | NA, n = 3 | gain | NA, n = 6 | gain |\n| --- | --- | --- | --- | --- |")
    for name, values in found.items():
        print(f"| {name} | {_cells(summary(values, base))} |")
    best = old.best_fixed(tables)
    print(f"| best fixed setting per dataset, chosen on the test | {_cells(summary(best, base))} |")
    print(
        "\n| found on | rule with the highest mean gain there | NA, n = 3, other half | gain |",
        end="",
    )
    print(" NA, n = 6, other half | gain |\n| --- | --- | --- | --- | --- | --- |")
    for half, other in (("first", "second"), ("second", "first")):
        gains = {
            k: np.mean([c[1] for c in summary(v, base, HALVES[half])]) for k, v in found.items()
        }
        for name in (max(gains, key=gains.get), CHOSEN):
            cells = _cells(summary(found[name], base, HALVES[other]))
            print(f"| {half} | {name} | {cells} |")
    print("\nThe default by dataset\n\n| dataset | NA, n = 3 | gain | NA, n = 6 | gain |")
    print("| --- | --- | --- | --- | --- |")
    for d in sorted(names):
        cells = []
        for n in (3, 6):
            keys = [k for k in base if k[:2] == (d, n)]
            gain = np.array([found[CHOSEN][k] - base[k] for k in keys])
            mean, error = np.mean([found[CHOSEN][k] for k in keys]), gain.std(ddof=1)
            cells.append(f"{mean:.3f} | {gain.mean():+.3f} ± {error / np.sqrt(len(keys)):.3f}")
        print(f"| {d} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
