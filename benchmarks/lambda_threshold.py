"""What lambda buys, compared with a threshold: four ways to bound a region, paired.

    python -m benchmarks.lambda_threshold FOLDER_OF_TABLES

The tables are those of ``search_table.py --grid coarse``. C is 1, 8 or 64 and gamma is searched in
all variants, by the mean normalised accuracy (NA) of the balanced simulations. The last part
chooses by the area under the OSCR curve instead, for users who set the threshold afterwards.
"""

import argparse
from pathlib import Path

import numpy as np

from .search_rules import load
from .search_table import GRIDS, SOME_LAMBDAS

MEASURES = ["NA", "OSCR", "AUROC"]
REFERENCE = "lambda searched"
BY_AREA = "chosen by OSCR, lambda searched"


def _best(scores):
    return np.unravel_index(np.argmax(scores.round(12)), scores.shape)


def variants(t):
    """NA, OSCR area and AUROC on the test rows of what each variant chooses."""
    which = t.which("balanced")
    mean = t.na[which].mean(axis=0)
    bounded = t.bounded[which].all(axis=0)
    fitted = np.stack([t.test, t.test_oscr, t.test_auroc], axis=-1)
    found = {
        REFERENCE: fitted[_best(np.where(bounded, mean, -1))],
        "lambda = 0, raised until bounded": fitted[_best(mean[..., :1])],
    }
    # Scores without `ensure_bounded`: a threshold above the score of far points bounds the region.
    with_curve = which[which < len(t.curve)]
    curve = t.curve[with_curve].mean(axis=0)
    far = t.far[with_curve].astype(float).max(axis=0)
    bounded_at = far[..., None] < t.thresholds
    areas = t.test_areas[..., ::-1]
    for name, (scores, lambdas) in {
        "lambda = 0, threshold searched": (curve, 1),
        "the same, regions bounded": (np.where(bounded_at, curve, -1), 1),
        "both searched, regions bounded": (np.where(bounded_at, curve, -1), None),
    }.items():
        g, c, k, h = _best(scores[:, :, :lambdas])
        found[name] = np.append(t.test_curve[g, c, k, h].mean(), areas[g, c, k])
    by_area = t.areas[which].mean(axis=0)[..., 1]
    for name, lambdas in {BY_AREA: None, "chosen by OSCR, lambda = 0": 1}.items():
        found[name] = np.append(np.nan, areas[_best(by_area[:, :, :lambdas])])
    return found


def main():
    """Print means, paired differences and their errors over datasets, as Markdown."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    tables = load(parser.parse_args().folder)
    found = {t.key: variants(t) for t in tables}
    datasets = sorted({key[0] for key in found})

    def by_dataset(name, n, reference=None):
        rows = {d: [] for d in datasets}
        for key, values in found.items():
            if key[1] == n:
                rows[key[0]].append(values[name] - (values[reference] if reference else 0))
        return np.array([np.mean(rows[d], axis=0) for d in datasets])

    names = list(next(iter(found.values())))
    lambdas = GRIDS["coarse"].lambdas[list(SOME_LAMBDAS)]
    print(f"{len(tables)} tasks, {len(datasets)} datasets. With a threshold, lambda is one of")
    print(f"{lambdas.tolist()}.")
    for n in (3, 6):
        print(f"\nn = {n}\n\n| variant | NA | OSCR | AUROC |\n| --- | --- | --- | --- |")
        for name in names:
            reference = BY_AREA if name.startswith("chosen") else REFERENCE
            mean, gain = by_dataset(name, n), by_dataset(name, n, reference)
            cells = []
            for k in range(len(MEASURES)):
                if np.isnan(mean[:, k]).any():
                    cells.append("")
                    continue
                error = gain[:, k].std(ddof=1) / np.sqrt(len(gain))
                text = f"{mean[:, k].mean():.3f}"
                if name != reference:
                    text += f" ({gain[:, k].mean():+.4f} ± {error:.4f})"
                cells.append(text)
            print(f"| {name} | {' | '.join(cells)} |")
    shown = ["lambda = 0, threshold searched", "both searched, regions bounded"]
    print("\nDifference in NA / OSCR from `lambda searched`, by dataset\n")
    print("| dataset | " + " | ".join(f"{s}, n = {n}" for s in shown for n in (3, 6)) + " |")
    print("| --- |" + " --- |" * 4)
    columns = [by_dataset(s, n, REFERENCE) for s in shown for n in (3, 6)]
    for i, d in enumerate(datasets):
        print(f"| {d} | " + " | ".join(f"{c[i, 0]:+.3f} / {c[i, 1]:+.3f}" for c in columns) + " |")


if __name__ == "__main__":
    main()
