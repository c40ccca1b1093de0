"""Choose the rule of ``studies/open_intents.toml`` without a test row.

Run ``python benchmarks/open_intents_rule.py --data-home FOLDER``. In every draw of the study half
of the known classes are withheld. Models are fitted on training rows of the others; half of their
validation rows set the threshold and the other half are tested, together with rows of the withheld
classes, as many as make up the share of unknown classes. So only training and validation rows of
known classes are used. The result is ``benchmarks/open_intents_rule.md``.
"""

import argparse
import os
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score

from openset import OpenSetSVC
from openset.datasets import load_dataset
from openset.metrics import oscr_area
from openset.utils import decide

DATASETS = ["banking77-minilm", "clinc150-minilm"]
RATIOS = [0.25, 0.5, 0.75]
SEEDS = range(10)
GAMMAS, GAMMA, C = [1.0, 2.0, 4.0], 2.0, 8.0
ALPHAS = [0.05, 0.08, 0.1, 0.12, 0.15, 0.2]
FOLDS = 5
INNER = 2  # simulations inside a simulation, for an alpha of each draw
FITS = {
    "train": "the model is fitted on the training rows",
    "refit": "then it is fitted again, on training and calibration rows, and keeps the threshold",
    "folds": f"the threshold comes from the scores of all rows in {FOLDS}-fold cross-validation, "
    "the model is fitted on all",
}


def draw(y, part, ratio, seed):
    """Rows to fit, to calibrate and to test, and rows of withheld classes."""
    labels = np.unique(y[part == "train"])
    known = np.random.RandomState(seed).choice(labels, round(len(labels) * ratio), replace=False)
    rng = np.random.RandomState(200 + seed)
    kept = rng.choice(known, len(known) // 2, replace=False)
    fit = np.flatnonzero((part == "train") & np.isin(y, kept))
    validation = np.flatnonzero((part == "val") & np.isin(y, kept))
    rng.shuffle(validation)
    seen = (part == "train") | (part == "val")
    withheld = rng.permutation(np.flatnonzero(seen & np.isin(y, np.setdiff1d(known, kept))))
    return fit, validation[::2], validation[1::2], withheld, rng


def judged(y, model, X, test, withheld, share):
    """Truth and scores of test rows and as many unknown ones as make up the share."""
    n_unknown = min(len(withheld), round(len(test) * share / (1 - share)))
    rows = np.concatenate([test, withheld[:n_unknown]])
    codes = np.searchsorted(model.classes_, y[rows])
    truth = np.where(np.isin(y[rows], model.classes_), codes, len(model.classes_))
    return truth, model.decision_function(X[rows])


def measure(truth, scores, threshold):
    """Accuracy and macro F1."""
    answers = decide(scores - threshold)
    return np.array([np.mean(answers == truth), f1_score(truth, answers, average="macro")])


def simulate(X, y, rows, share):
    """{(fit, rule): accuracy and macro F1}, and the area under the OSCR curve for each gamma."""
    fit, calibration, test, withheld, rng = rows

    def fitted(some, gamma=GAMMA):
        return OpenSetSVC(gamma=gamma, C=C).fit(X[some], y[some])

    both = np.concatenate([fit, calibration])
    first, second = fitted(fit), fitted(both)
    fold = rng.permutation(len(both)) % FOLDS
    crossed = np.concatenate(
        [fitted(both[fold != k]).known_score(X[both[fold == k]]) for k in range(FOLDS)]
    )
    held_out = first.known_score(X[calibration])
    problems = {
        "train": (held_out, judged(y, first, X, test, withheld, share)),
        "refit": (held_out, judged(y, second, X, test, withheld, share)),
    }
    problems["folds"] = crossed, problems["refit"][1]
    areas = []
    for gamma in GAMMAS:
        truth, scores = judged(y, fitted(fit, gamma), X, test, withheld, share)
        areas.append(oscr_area(truth, scores, known=np.arange(len(first.classes_))))
    alphas = {str(alpha): alpha for alpha in ALPHAS}
    inner = [inner_curves(X, y, fit, calibration, fitted, rng) for _ in range(INNER)]
    for name, assumed in (("own, share known", share), ("own, share 1/2", 0.5)):
        total = sum(curves(assumed) for curves in inner)
        alphas[name] = ALPHAS[int(total.argmax())]
    return areas, {
        (kind, name): measure(*problem, np.quantile(reference, alpha))
        for kind, (reference, problem) in problems.items()
        for name, alpha in alphas.items()
    }


def inner_curves(X, y, fit, calibration, fitted, rng):
    """With half of the classes withheld once more: accuracy plus macro F1 for each alpha."""
    classes = np.unique(y[fit])
    kept = rng.choice(classes, len(classes) // 2, replace=False)
    of_kept, mine = np.isin(y[calibration], kept), np.isin(y[fit], kept)
    model = fitted(fit[mine])
    others = rng.permutation(np.concatenate([fit[~mine], calibration[~of_kept]]))
    halves = calibration[of_kept][::2], calibration[of_kept][1::2]

    def curves(share):
        total = np.zeros(len(ALPHAS))
        for some, rest in (halves, halves[::-1]):
            problem = judged(y, model, X, rest, others, share)
            scores = model.known_score(X[some])
            total += [measure(*problem, np.quantile(scores, alpha)).sum() for alpha in ALPHAS]
        return total

    return curves


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", type=Path, default=os.environ.get("OPENSET_DATA"))
    home = parser.parse_args().data_home
    areas, found = [], {}
    for dataset in DATASETS:
        data = load_dataset(dataset, data_home=home)
        for ratio, seed in product(RATIOS, SEEDS):
            rows = draw(data.target, data.split, ratio, seed)
            area, values = simulate(data.data, data.target, rows, 1 - ratio)
            areas.append(area)
            for rule, pair in values.items():
                found.setdefault(rule, {}).setdefault((dataset, ratio), []).append(pair)
            print(dataset, ratio, seed, np.round(area, 4), flush=True)
    text = write(areas, found)
    Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def write(areas, found):
    cells = list(product(DATASETS, RATIOS))
    header = ["fit", "alpha", *(f"{d.partition('-')[0]} {r:g}" for d, r in cells), "mean of sum"]
    lines = [
        "# The rule of the open-intent study",
        "",
        "Written by `python benchmarks/open_intents_rule.py`, which scores no test row. In each "
        "draw of the study half of the known classes act as unknown; only training and validation "
        "rows of known classes are used. Half of the validation rows calibrate, the other half "
        "and rows of the withheld classes are tested, with a share of unknown rows of one minus "
        f"the ratio of known classes. `OpenSetSVC(C={C:g})`, {len(SEEDS)} seeds.",
        "",
        "Mean area under the OSCR curve in percent: "
        + ", ".join(
            f"gamma {g:g}: {100 * np.mean(a):.1f}"
            for g, a in zip(GAMMAS, np.transpose(areas), strict=True)
        )
        + f". The table is for gamma {GAMMA:g}: accuracy / macro F1 in percent, and the mean "
        "of their sum. alpha is the share of known calibration rows that the threshold rejects. "
        '"own" chooses it for each draw by withholding half of the remaining classes once more, '
        "with the share of unknown rows known or taken as one half. The kinds of fit: "
        + "; ".join(f"*{name}*, {words}" for name, words in FITS.items())
        + ".",
        "",
        f"| {' | '.join(header)} |",
        "| " + " | ".join("---" for _ in header) + " |",
    ]
    totals = {}
    for (fit, alpha), values in found.items():
        means = [100 * np.mean(values[cell], axis=0) for cell in cells]
        totals[fit, alpha] = np.array([mean.sum() for mean in means])
        texts = [f"{a:.1f} / {f:.1f}" for a, f in means]
        total = f"{totals[fit, alpha].mean():.2f}"
        lines.append(f"| {fit} | {alpha} | {' | '.join(texts)} | {total} |")
    for fit in FITS:  # the best alpha of each ratio, over the datasets
        sums = np.array([totals[fit, str(a)] for a in ALPHAS]).reshape(len(ALPHAS), -1, len(RATIOS))
        best = sums.mean(axis=1).argmax(axis=0)
        alphas = ", ".join(f"{ALPHAS[k]:g}" for k in best)
        total = np.mean([sums[k, :, i].mean() for i, k in enumerate(best)])
        lines.append(f"| {fit} | {alphas} by ratio |{' |' * len(cells)} {total:.2f} |")
    fixed = {rule: total.mean() for rule, total in totals.items()}
    fit, alpha = max(fixed, key=fixed.get)
    _, once = max((rule for rule in fixed if rule[0] == "train"), key=fixed.get)
    lines += [
        "",
        f"Of the rules that are one for all ratios, *{fit}* with alpha = {alpha} has the largest "
        f"sum; of those with one fit (*train*), alpha = {once}, the rule of the study. An alpha of "
        "each ratio would need to know the share of unknown rows.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
