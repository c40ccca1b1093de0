"""Every setting of a grid for OpenSetSVC, in simulations and on the test rows.

For each dataset, number of known classes and run of the paper's protocol, all settings (gamma, C,
lambda) are scored in simulations of several kinds on the training rows, and on test rows after a
fit on all training rows. Rules that choose a setting from the simulations can then be compared
without another fit: see ``search_rules.py``.

    python -m benchmarks.search_table DATA_HOME OUT --grid fine --seconds 540 --processes 16

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
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from openset import OpenSetSVC
from openset.base.parameters import unit_gamma
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


class Grid(NamedTuple):
    """Settings of a table, and the simulations of each kind for n = 3 and n = 6."""

    gammas: np.ndarray
    boxes: tuple
    lambdas: np.ndarray
    kinds: dict


GRIDS = {
    # The default grid before this comparison, with a third C; also thresholds and areas.
    "coarse": Grid(
        2.0 ** np.arange(-7, 10, 2),
        (1.0, 8.0, 64.0),
        np.arange(20) / 20,
        {"random": (10, 10), "balanced": (9, 10), "more rows": (6, 6), "most": (0, 6)},
    ),
    "fine": Grid(
        2.0 ** np.arange(-7, 10),
        (1.0, 4.0, 8.0),
        np.sort(np.append(np.arange(20) / 20, [0.0125, 0.025, 0.075])),
        {"random": (5, 5), "balanced": (9, 10)},
    ),
}
# Thresholds that are tried on the scores of the coarse grid, at some of its lambdas.
THRESHOLDS = np.append(np.arange(-5, 10) / 10, [0.95, 0.99])
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


def simulations(y, rng, kinds):
    """Simulations by kind: (kind, known classes, rows to fit, rows to judge).

    "random": half of the classes are known, drawn anew in every simulation, half of their samples
    are for fitting. All other kinds withhold every class equally often. "balanced": otherwise the
    same. "more rows": three quarters of the samples are for fitting. "most": all classes but one
    are known.
    """
    n = len(np.unique(y))
    found = []
    for kind, counts in kinds.items():
        n_known = n - 1 if kind == "most" else (n + 1) // 2
        share = 0.75 if kind == "more rows" else 0.5
        repeats = counts[0 if n == 3 else 1]
        found += _draw(kind, y, rng, n_known, repeats, share, balanced=kind != "random")
    return found


def _draw(kind, y, rng, n_known, repeats, share, balanced):
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


def run_task(dataset, n_known, run, home, grid_name):
    """All tables of one task."""
    grid, with_curves = GRIDS[grid_name], grid_name == "coarse"
    train, y, test, y_test, rng = draw(dataset, n_known, run, home)
    model = OpenSetSVC()
    drawn = simulations(y, rng, grid.kinds)
    # Widths are in units of the rows of the first simulation, as in a search.
    first = drawn[0][2]
    gammas = grid.gammas * unit_gamma(train[first], np.ones(len(first)))
    settings = [
        {"gamma": g, "C": c, "lam": lam} for g in gammas for c in grid.boxes for lam in grid.lambdas
    ]
    shape = (len(grid.gammas), len(grid.boxes), len(grid.lambdas))
    table = {
        "na": np.zeros((len(drawn), *shape), np.uint16),
        "bounded": np.zeros((len(drawn), *shape), bool),
        "test": np.zeros((*shape, 4), np.uint16),
    }
    if with_curves:
        part = (*shape[:2], len(SOME_LAMBDAS), len(THRESHOLDS))
        table["far"] = np.zeros((len(drawn), *part[:3]), np.float16)
        table["areas"] = np.zeros((len(drawn), *part[:3], 2), np.uint16)
        table["curve"] = np.zeros((len(drawn), *part), np.uint16)
        table["test_curve"] = np.zeros((*part, 2), np.uint16)
        table["test_areas"] = np.zeros((*part[:3], 2), np.uint16)
        table["thresholds"] = THRESHOLDS
    labels = np.unique(y)

    def fill(s, found, true):
        g, c = divmod(found.settings[0][0] // shape[2], shape[1])
        aks, aus, curves = measure(as_fitted(found.scores, found.far), true, np.zeros(1))
        if s is None:
            answers = np.stack([aks[:, 0], aus[:, 0]], axis=-1)
            table["test"][g, c] = np.hstack([_coded(answers), _areas(*curves)])
        else:
            table["na"][s, g, c] = _coded((aks + aus)[:, 0] / 2)
            table["bounded"][s, g, c] = found.far.max(axis=1) < 0
        if not with_curves:
            return
        aks, aus, curves = measure(found.scores[list(SOME_LAMBDAS)], true, THRESHOLDS)
        if s is None:
            table["test_curve"][g, c] = _coded(np.stack([aks, aus], axis=-1))
            table["test_areas"][g, c] = _areas(*curves)
        else:
            table["areas"][s, g, c] = _areas(*curves)
            table["curve"][s, g, c] = _coded((aks + aus) / 2)
            table["far"][s, g, c] = found.far.max(axis=1)[list(SOME_LAMBDAS)]

    # Fitted on all training rows, judged on the test rows.
    m, weight = len(y), np.ones(len(y) + len(y_test))
    everything = [(np.arange(m), np.arange(m, m + len(y_test)), np.arange(len(labels)))]
    codes = np.append(np.searchsorted(labels, y), np.full(len(y_test), len(labels)))
    true = np.where(np.isin(y_test, labels), np.searchsorted(labels, y_test), len(labels))
    arguments = settings, np.vstack([train, test]), codes, weight, everything
    for found in chain.from_iterable(model.grid_scores(*arguments)):
        fill(None, found, true)
    splits = [(fit, judge, np.searchsorted(labels, known)) for _, known, fit, judge in drawn]
    codes = []
    for _, known, _, judge in drawn:
        inside = np.isin(y[judge], known)
        codes.append(np.where(inside, np.searchsorted(known, y[judge]), len(known)))
    for found in chain.from_iterable(model.grid_scores(settings, train, y, np.ones(m), splits)):
        fill(found.split, found, codes[found.split])
    table["kind"] = np.array([kind for kind, *_ in drawn])
    counts = [(np.sum(code < code.max()), np.sum(code == code.max())) for code in codes]
    table["n_judged"] = np.array(counts, np.int32)
    return table


def _coded(shares):
    return np.round(np.asarray(shares) * 65535).astype(np.uint16)


def worker(task, home, grid, folder, deadline):
    """Run a task unless it is done or the time is over; returns its name and its CPU seconds."""
    name = "{}-{}-{}".format(*task)
    path = folder / f"{name}.npz"
    if path.exists() or time.time() > deadline:
        return name, None
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = run_task(*task, home, grid)
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
    parser.add_argument("--grid", choices=GRIDS, default="fine")
    parser.add_argument("--tasks", type=Path, help="folder of the files of tasks")
    args = parser.parse_args()
    folder = args.tasks or args.out / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    tasks = [(d, n, r) for d in args.datasets for n in N_KNOWN for r in range(args.runs)]
    end = time.time() + args.seconds
    work = partial(worker, home=args.home, grid=args.grid, folder=folder, deadline=end)
    with multiprocessing.get_context("spawn").Pool(args.processes) as pool:
        for name, seconds in pool.imap_unordered(work, tasks):
            if seconds is not None:
                print(f"{name}: {seconds:.1f} s", flush=True)
    pack(folder, args.out)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
