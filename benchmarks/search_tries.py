"""What was tried after the default search of ``search_rules.md`` was found.

    python -m benchmarks.search_tries rules FOLDER_OF_TABLES
    python -m benchmarks.search_tries classes DATA_HOME --runs 6

`rules` chooses from the tables of ``search_table.py`` (coarse grid). Which six of the balanced
simulations of a task are used is luck of the size of the gains, so each rule is applied to several
choices of six, and the results are averaged. `classes` gives every machine its own lambda, chosen
on the simulations of the default search after its setting: on the ten small datasets.
"""

import argparse
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np

from openset import OpenSetSearchCV, OpenSetSVC
from openset.model_selection import OpenSetSplit

from .search_rules import NEW, NOW, Rules, _cells, floor, load, part_of, summary
from .search_table import DATASETS, GRIDS, HALVES, LARGE, N_KNOWN, SOME_LAMBDAS, as_fitted, draw

LAMBDAS = np.unique(np.append(np.arange(0, 14) / 20, [0.025, 0.075, 0.7, 0.8, 0.9]))
SEED = 7


def choices(table):
    """Six simulations, in several ways: rounds in which every class is withheld equally often."""
    found = table.which("balanced")
    length, n_rounds = (3, 2) if table.n_known == 3 else (2, 3)
    rounds = found[: len(found) // length * length].reshape(-1, length)
    orders = list(permutations(range(len(rounds)), n_rounds))
    return [rounds[list(order)].ravel() for order in orders[:: max(len(orders) // 10, 1)]]


def raced(grid, power=0.5, least=floor, bonus=0.0, spread=0.0, finalists=None):
    """NA on the test rows of the setting that the race over a part of the grid chooses.

    The margin after r simulations is that after one over r ** power. `bonus` is added to the means;
    `spread` times the standard deviation over simulations is taken off. The best `finalists` are
    judged again with all balanced simulations.
    """
    rules = Rules(part_of(GRIDS["coarse"], *grid))

    def rule(t, which):
        left = np.ones(t.test[rules.part].shape, dtype=bool)
        for r in (1, 2, 4):
            mean = np.where(left, rules.mean(t, which[:r]), -1.0)
            top = mean.max()
            share = np.mean((1 / t.n_judged[which[:r]]).sum(axis=1))
            error = 0.5 * np.sqrt(abs(top) * (1 - abs(top)) * share)
            left &= mean >= top - max(3 * error, least(t.n_known)) / r**power
        scores = np.array([t.na[s][rules.part] for s in which])
        mean = rules.mean(t, which) + bonus - spread * scores.std(axis=0)
        if finalists is not None:
            best = np.sort(np.where(left, mean, -2.0), axis=None)[-finalists]
            left &= mean >= best
            mean = rules.mean(t, t.which("balanced"))
        return rules.test_at(t, np.where(left, mean, -2.0))

    return lambda t: np.mean([rule(t, which) for which in choices(t)])


def with_threshold(grid, lead):
    """NA on the test rows if a threshold is searched, too, without a race.

    The best of the pairs of setting and threshold that bound all regions is taken if it is ahead
    of the best setting by `lead`. The tables have 17 thresholds from -0.8 to 0.8 and every fourth
    lambda for them; thresholds were judged in the first simulations only.
    """
    rules = Rules(part_of(GRIDS["coarse"], *grid))
    widths, boxes, _ = rules.part
    some = np.flatnonzero(GRIDS["coarse"].lambdas[list(SOME_LAMBDAS)] <= np.max(grid[2]) + 1e-9)
    pairs = (widths, boxes, some)

    def rule(t, which):
        mean = rules.mean(t, which)
        bounded = t.far[which].astype(float).max(axis=0)[pairs][..., None] < t.thresholds
        found = np.where(bounded, t.curve[which].mean(axis=0)[pairs], -1.0).round(12)
        if found.max() < mean.max() + lead:
            return rules.test_at(t, mean)
        return t.test_curve.mean(axis=-1)[pairs].ravel()[np.argmax(found)]

    def averaged(t):
        possible = [which for which in choices(t) if max(which) < len(t.curve)]
        return np.mean([rule(t, which) for which in possible])

    return averaged


def compare_rules(folder):
    """Print the rules, with paired gains over the default as it was, on all sets and on halves."""
    tables = load(folder)
    widths, lambdas = np.log2(NOW[0]), np.asarray(NOW[2])
    rules = {
        "eight widths, twelve lambdas, margin / √r (as it was)": raced(NEW),
        "margin / r": raced(NEW, 1.0),
        "margin / r, 1.5 times as large": raced(NEW, 1.0, lambda n: 1.5 * floor(n)),
        "lambda to 0.7": raced((NEW[0], NEW[1], NEW[2][:10])),
        "lambda to 0.6": raced((NEW[0], NEW[1], NOW[2])),
        "lambda to 0.5": raced((NEW[0], NEW[1], NEW[2][:8])),
        "without 2⁹": raced((NEW[0][:-1], *NEW[1:])),
        "without 2⁻⁵": raced((NEW[0][1:], *NEW[1:])),
        "C = 8 only": raced((NEW[0], (8,), NEW[2])),
        "seven widths, nine lambdas, margin / r (now)": raced(NOW, 1.0),
    }
    for count in (3, 10):
        rules[f"now, {count} best judged with 9 or 10 simulations"] = raced(
            NOW, 1.0, finalists=count
        )
    for weight in (0.01, 0.02, 0.04):
        rules[f"now, {weight} lambda taken off"] = raced(NOW, 1.0, bonus=-weight * lambdas)
    for weight in (0.002, 0.004):
        bonus = -weight * abs(widths - 2)[:, None, None]
        rules[f"now, {weight} for each factor of 2 from width 2² taken off"] = raced(
            NOW, 1.0, bonus=bonus
        )
    for weight in (0.05, 0.1):
        rules[f"now, {weight} standard deviations over simulations taken off"] = raced(
            NOW, 1.0, spread=weight
        )
    rules["now, without a race"] = with_threshold(NOW, np.inf)
    for lead in (0, 0.005, 0.01):
        rules[f"the same, or a threshold that is ahead by {lead}"] = with_threshold(NOW, lead)
    base = None
    print("| rule | NA, n = 3 | gain | NA, n = 6 | gain | gains by half: n = 3, n = 6 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, rule in rules.items():
        found = {t.key: rule(t) for t in tables}
        base = found if base is None else base
        halves = [summary(found, base, names) for names in HALVES.values()]
        text = "; ".join(", ".join(f"{gain:+.4f}" for _, gain, _ in cells) for cells in halves)
        print(f"| {name} | {_cells(summary(found, base))} | {text} |", flush=True)


class Machines:
    """Scores of all machines of the chosen width and C, by lambda, in simulations and on the test.

    The last of the parts is the test.
    """

    def __init__(self, dataset, n_known, run, home):
        X, y, X_test, y_test, _ = draw(dataset, n_known, run, home)
        seed = 1000 * SEED + run
        search = OpenSetSearchCV(OpenSetSVC(), random_state=seed, refit=False).fit(X, y)
        best = search.best_params_
        labels, m = np.unique(y), len(y)
        rows = np.append(y, y_test)
        parts = [(s.fit, s.validation) for s in OpenSetSplit(6, random_state=seed).simulate(y)]
        parts.append((np.arange(m), np.arange(m, len(rows))))
        self.known = [np.searchsorted(labels, np.unique(rows[fit])) for fit, _ in parts]
        self.true = []
        for known, (_, judged) in zip(self.known, parts, strict=True):
            inside = np.isin(rows[judged], labels[known])
            places = np.searchsorted(labels[known], rows[judged])
            self.true.append(np.where(inside, places, len(known)))
        self.n_classes = len(labels)
        self.lambdas = np.unique(np.append(LAMBDAS, best["lam"]))
        self.chosen = np.full(self.n_classes, np.searchsorted(self.lambdas, best["lam"]))
        self.scores, self.far = {}, {}
        codes = np.append(np.searchsorted(labels, y), np.full(len(y_test), len(labels)))
        splits = [(*part, known) for part, known in zip(parts, self.known, strict=True)]
        settings = [best | {"lam": lam} for lam in self.lambdas]
        data = np.vstack([X, X_test]), codes, np.ones(len(rows))
        for together in OpenSetSVC().grid_scores(settings, *data, splits):
            for found in together:
                self.scores[found.split] = as_fitted(found.scores, found.far)
                self.far[found.split] = found.far.copy()

    def na(self, lambdas, parts):
        """Mean NA if each class has its own number of lambda."""
        found = []
        for s in parts:
            known, true = self.known[s], self.true[s]
            scores = np.stack([self.scores[s][lambdas[c], :, k] for k, c in enumerate(known)], -1)
            inside, accepted = true < len(known), scores.max(-1) >= 0
            right = accepted & (scores.argmax(-1) == true)
            found.append((right[inside].mean() + 1 - accepted[~inside].mean()) / 2)
        return np.mean(found)

    def climb(self, least_gain, reach=4):
        """One lambda per class, changed class by class while the simulations gain enough."""
        simulations = range(len(self.known) - 1)
        lambdas = self.chosen.copy()
        best = self.na(lambdas, simulations)
        for c in [*range(self.n_classes)] * 3:
            moves = []
            for new in range(max(lambdas[c] - reach, 0), lambdas[c] + reach + 1):
                bounded = new < len(self.lambdas) and all(
                    self.far[s][new, list(self.known[s]).index(c)] < 0
                    for s in simulations
                    if c in self.known[s]
                )
                if bounded:
                    moved = lambdas.copy()
                    moved[c] = new
                    moves.append((self.na(moved, simulations), new))
            gain, new = max(moves, default=(-1.0, 0))
            if gain > best + least_gain:
                best, lambdas[c] = gain, new
        return lambdas


def compare_classes(home, runs):
    """Print what a lambda for each class gains over one for all."""
    warnings.simplefilter("ignore")
    found: dict = {}
    small = [name for name in DATASETS if name not in LARGE[:4]]
    for task in [(d, n, run) for run in range(runs) for d in small for n in N_KNOWN]:
        machines = Machines(*task, home)
        test = [len(machines.known) - 1]
        found.setdefault("one lambda", {})[task] = machines.na(machines.chosen, test)
        for least in (0.0, 0.005, 0.01, 0.02):
            name = f"one for each class, gains above {least}"
            found.setdefault(name, {})[task] = machines.na(machines.climb(least), test)
    for name, values in found.items():
        print(f"| {name} | {_cells(summary(values, found['one lambda']))} |")


def main():
    """Compare."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("rules").add_argument("folder", type=Path)
    sub = commands.add_parser("classes")
    sub.add_argument("home", type=Path)
    sub.add_argument("--runs", type=int, default=6)
    args = parser.parse_args()
    if args.command == "rules":
        compare_rules(args.folder)
    else:
        compare_classes(args.home, args.runs)


if __name__ == "__main__":
    main()
