"""Every setting of the default grid of OpenSetSVC, in simulations and on the test rows.

For each dataset, number of known classes and run of the paper's protocol, all settings (gamma, C,
lambda) are scored in simulations of several kinds on the training rows, and on test rows after a
fit on all training rows. Rules that choose a setting from the simulations can then be compared
without another fit: see ``search_rules.py``.

    python -m benchmarks.search_table DATA_HOME OUT --seconds 540 --processes 16

One file per task is written to OUT/tasks; call it again to resume. At the end the files are packed
into zip files of less than 15 MB in OUT.
"""

import argparse
import multiprocessing
import os
import time
import warnings
import zipfile
from functools import lru_cache, partial
from pathlib import Path
from zlib import crc32

import numpy as np

from openset import OpenSetSVC
from openset.base.parameters import FRACTIONS, SCALED_GAMMAS, unit_gamma
from openset.datasets import load_dataset
from openset.study import make_split

# Two halves with every kind of data in both; a rule is found on one and confirmed on the other.
HALVES = {
    "first": [
        "yeast",
        "mfeat-zernike",
        "mfeat-fourier",
        "led7",
        "vowel",
        "optdigits",
        "letter",
    ],
    "second": [
        "mfeat-morphological",
        "mfeat-karhunen",
        "mfeat-factors",
        "led24",
        "movement_libras",
        "pendigits",
        "krkopt",
    ],
}
# The largest first: none of them may be left for the end.
LARGE = ["krkopt", "pendigits", "optdigits", "letter", "led24"]
DATASETS = LARGE + sorted({*HALVES["first"], *HALVES["second"]} - {*LARGE})
N_KNOWN = (6, 3)
N_RUNS = 10
TEST_ROWS = 1200

GAMMAS, LAMBDAS = np.array(SCALED_GAMMAS), np.array(FRACTIONS)
BOXES = (1.0, 8.0, 64.0)
# Thresholds that are tried on the scores, at some of the lambdas.
THRESHOLDS = np.linspace(-0.8, 0.8, 17)
SOME_LAMBDAS = (0, 4, 8, 12, 16)


@lru_cache(maxsize=2)
def load(dataset, home):
    """Features and classes."""
    return load_dataset(dataset, data_home=home, return_X_y=True)


def draw(dataset, n_known, run, home):
    """Training rows and at most 1,200 known and 1,200 unknown test rows, scaled to [0, 1]."""
    X, y = load(dataset, home)
    split = make_split(y, dataset, n_known, run)
    rng = np.random.default_rng([crc32(dataset.encode()), n_known, run])
    known = np.isin(y[split.test], split.known)
    parts = [rng.permutation(split.test[part])[:TEST_ROWS] for part in (known, ~known)]
    test = np.concatenate(parts)
    low, high = X[split.train].min(axis=0), X[split.train].max(axis=0)
    scale = np.where(high > low, high - low, np.inf)
    train = (X[split.train] - low) / scale
    return train, y[split.train], (X[test] - low) / scale, y[test], rng


def simulations(y, rng):
    """Simulations by kind: (kind, known classes, rows to fit, rows to judge).

    "random": half of the classes are known, drawn anew in every simulation, half of their samples
    are for fitting. All other kinds withhold every class equally often. "balanced": otherwise the
    same. "more rows": three quarters of the samples are for fitting. "most" and "two thirds": all
    classes but one, or two thirds of them, are known (n = 6 only).
    """
    n = len(np.unique(y))
    half = (n + 1) // 2
    found = _draw("random", y, rng, half, 10, balanced=False)
    found += _draw("balanced", y, rng, half, 9 if n == 3 else 10)
    found += _draw("more rows", y, rng, half, 6, share=0.75)
    if n > 3:
        found += _draw("most", y, rng, n - 1, 6)
        found += _draw("two thirds", y, rng, 2 * n // 3, 6)
    return found


def _draw(kind, y, rng, n_known, repeats, share=0.5, balanced=True):
    classes = np.unique(y)
    n = len(classes)
    # After as many simulations every class has been withheld equally often.
    period = n // np.gcd(n, n_known) if balanced else 1
    found = []
    for r in range(repeats):
        if r % period == 0:
            order = rng.permutation(classes)
        known = np.sort(np.roll(order, -n_known * (r % period))[:n_known])
        parts = [rng.permutation(np.flatnonzero(y == c)) for c in known]
        fit = np.sort(np.concatenate([m[: max(1, int(share * len(m)))] for m in parts]))
        found.append((kind, known, fit, np.setdiff1d(np.arange(len(y)), fit)))
    return found


def _areas(best, right, known):
    """Areas under the ROC curve and the OSCR curve, (L, 2), coded; ties count half."""
    areas = []
    for score, correct in zip(best, right, strict=True):
        unknown = np.sort(score[~known])
        below = [np.searchsorted(unknown, score[known], side) for side in ("left", "right")]
        share = (below[0] + below[1]) / (2 * max(len(unknown), 1))
        areas.append((share.mean(), (share * correct[known]).mean()))
    return _coded(areas)


def measure(scores, true, thresholds):
    """Shares of known and unknown answered correctly, (L, t); areas (L, 2).

    `scores` has shape (L, n, K), the code K means unknown.
    """
    n_classes = scores.shape[-1]
    best, known = scores.max(axis=-1), true < n_classes
    right = scores.argmax(axis=-1) == true
    accepted = best[..., None] >= thresholds
    aks = (accepted & right[..., None])[:, known].mean(axis=1)
    aus = 1 - accepted[:, ~known].mean(axis=1)
    return aks, aus, (best, right, known)


def as_fitted(scores, far):
    """Scores (L, n, K) in which a class with an unbounded region takes the next larger lambda.

    It stands for `ensure_bounded`, which raises lambda of such a class between the two.
    """
    scores = scores.copy()
    for k in range(scores.shape[-1]):
        for t in range(len(scores) - 2, -1, -1):
            if far[t, k] >= 0:
                scores[t, :, k] = scores[t + 1, :, k]
    return scores


def run_task(dataset, n_known, run, home):
    """All tables of one task."""
    train, y, test, y_test, rng = draw(dataset, n_known, run, home)
    model = OpenSetSVC()
    drawn = simulations(y, rng)
    # Widths are in units of the rows of the first simulation, as in a search.
    first = drawn[0][2]
    gammas = GAMMAS * unit_gamma(train[first], np.ones(len(first)))
    settings = [{"gamma": g, "C": c, "lam": lam} for g in gammas for c in BOXES for lam in LAMBDAS]
    shape = (len(drawn) + 1, len(GAMMAS), len(BOXES), len(LAMBDAS))
    some = len(SOME_LAMBDAS)
    table = {
        "aks": np.zeros(shape, np.uint16),
        "aus": np.zeros(shape, np.uint16),
        "far": np.zeros(shape, np.float16),
        "areas": np.zeros((*shape[:3], some, 2), np.uint16),
        "test_areas": np.zeros((*shape[1:], 2), np.uint16),
        "test_curve": np.zeros((*shape[1:3], some, len(THRESHOLDS), 2), np.uint16),
        "curve": np.zeros((20, *shape[1:3], some, len(THRESHOLDS)), np.uint16),
    }
    labels = np.unique(y)

    def fill(s, found, true):
        g, c = divmod(found.settings[0][0] // len(LAMBDAS), len(BOXES))
        scores, far = found.scores, found.far
        bounded = as_fitted(scores, far)
        aks, aus, curves = measure(bounded, true, np.zeros(1))
        table["aks"][s, g, c], table["aus"][s, g, c] = _coded(aks[:, 0]), _coded(aus[:, 0])
        table["far"][s, g, c] = far.max(axis=1)
        if s == 0:
            table["test_areas"][g, c] = _areas(*curves)
        part = scores[list(SOME_LAMBDAS)]
        aks, aus, curves = measure(part, true, THRESHOLDS)
        table["areas"][s, g, c] = _areas(*curves)
        if s == 0:
            table["test_curve"][g, c] = _coded(np.stack([aks, aus], axis=-1))
        elif s <= len(table["curve"]):
            table["curve"][s - 1, g, c] = _coded((aks + aus) / 2)

    # Entry 0: fitted on all training rows, judged on the test rows.
    m, weight = len(y), np.ones(len(y) + len(y_test))
    everything = [(np.arange(m), np.arange(m, m + len(y_test)), np.arange(len(labels)))]
    codes = np.append(np.searchsorted(labels, y), np.full(len(y_test), len(labels)))
    true = np.where(np.isin(y_test, labels), np.searchsorted(labels, y_test), len(labels))
    for found in model.grid_scores(settings, np.vstack([train, test]), codes, weight, everything):
        fill(0, found, true)
    splits = [(fit, judge, np.searchsorted(labels, known)) for _, known, fit, judge in drawn]
    codes = []
    for _, known, _, judge in drawn:
        inside = np.isin(y[judge], known)
        codes.append(np.where(inside, np.searchsorted(known, y[judge]), len(known)))
    for found in model.grid_scores(settings, train, y, np.ones(m), splits):
        fill(1 + found.split, found, codes[found.split])
    table["kind"] = np.array([kind for kind, *_ in drawn])
    table["known"] = np.array([np.isin(labels, known) for _, known, *_ in drawn])
    counts = [(np.sum(code < code.max()), np.sum(code == code.max())) for code in [true, *codes]]
    table["n_judged"] = np.array(counts, np.int32)
    return table


def _coded(shares):
    return np.round(np.asarray(shares) * 65535).astype(np.uint16)


def worker(task, home, folder, deadline):
    """Run a task unless it is done or the time is over; returns its name and its CPU seconds."""
    name = "{}-{}-{}".format(*task)
    path = folder / f"{name}.npz"
    if path.exists() or time.time() > deadline:
        return name, None
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = run_task(*task, home)
    seconds = time.process_time() - begin
    partial_path = path.with_suffix(".part")
    with partial_path.open("wb") as file:
        np.savez_compressed(file, seconds=seconds, **table)
    partial_path.replace(path)
    return name, seconds


def pack(folder, out, limit=14_500_000):
    """Pack the files of the tasks into zip files below the limit."""
    archive, size, number = None, 0, 0
    for path in sorted(folder.glob("*.npz")):
        if archive is None or size + path.stat().st_size > limit:
            if archive is not None:
                archive.close()
            archive, size, number = zipfile.ZipFile(out / f"table-{number}.zip", "w"), 0, number + 1
        archive.write(path, path.name)
        size += path.stat().st_size
    if archive is not None:
        archive.close()


def main():
    """Run the tasks that are left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--datasets", nargs="*", default=DATASETS)
    parser.add_argument("--runs", type=int, default=N_RUNS)
    parser.add_argument("--tasks", type=Path, help="folder of the files of tasks")
    args = parser.parse_args()
    folder = args.tasks or args.out / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    tasks = [(d, n, r) for d in args.datasets for n in N_KNOWN for r in range(args.runs)]
    work = partial(worker, home=args.home, folder=folder, deadline=time.time() + args.seconds)
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        for name, seconds in pool.imap_unordered(work, tasks):
            if seconds is not None:
                print(f"{name}: {seconds:.1f} s", flush=True)
    pack(folder, args.out)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
