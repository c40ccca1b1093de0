"""How fits, searches and scores scale over threads, next to a matrix product in the same run."""

import os
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from openset import OpenSetSearchCV, OpenSetSVC

from ..data import Absent, clinc, letter
from ..report import Section, Target, at_least, at_most, heading, stamp

_FILE = Path(__file__).parents[1] / "cores.md"
_THREADS = (1, 2, 4, 8, 16)


def run(quick):
    """Time every job with 1, 2, 4, ... threads; on 16 cores or more, write cores.md."""
    threads = [n for n in _THREADS if n <= os.cpu_count()]
    repeats = 1 if quick else 7
    rows = [["job", *(f"{n} threads, s" for n in threads), "gain", "objective", "KKT gap", "same"]]
    targets = []
    product = np.random.default_rng(0).random((1000 if quick else 4000,) * 2, dtype=np.float32)

    def multiply(n):
        with threadpool_limits(n):
            return product @ product

    times, _ = _in_turns(multiply, threads, repeats)
    gemm = times[0] / min(times)
    rows.append(_row("float32 matrix product, 4000 x 4000", times))
    for name, job, goal in _jobs(quick):
        job(threads[-1])  # compile
        times, results = _in_turns(job, threads, repeats)
        same = all(np.array_equal(results[0][0], result[0], equal_nan=True) for result in results)
        rows.append(_row(name, times, *results[0][1:], "yes" if same else "NO"))
        slower = max(t / min(times[: k + 1]) for k, t in enumerate(times))
        targets.append(
            Target(
                f"{name}, more threads",
                "at most 1.1 times as long",
                f"{slower:.2f}",
                slower <= 1.1,
            )
        )
        targets.append(at_least(name, round(min(goal, 0.7 * gemm), 2), times[0] / times[-1]))
    if not quick:
        _search_clinc(threads, rows, targets)
    section = Section(
        "Threads",
        f"Median of {repeats} in turns, warm; *gain* is the time of one thread over that of "
        f"{threads[-1]}. *same*: whether the multipliers, scores or choices are equal to the "
        "bit for every number of threads. The targets are 8x (scores 10x), or 70 % of what the "
        "matrix product gains.",
        [rows],
        targets,
    )
    if os.cpu_count() >= 16 and not quick:
        reached = [["target", "wanted", "measured"]]
        reached += [[t.job, t.target, t.measured] for t in targets]
        _FILE.write_text(
            f"# Many cores\n\nWritten by `python -m benchmarks cores`, {stamp()}.\n\n"
            + f"{heading()}\n\n"
            + Section("Threads", section.text, [rows, reached]).markdown()
            + f"\n\n{_findings()}"
        )
    return section


def _findings():
    """What was found, written by hand: kept when the tables are written again."""
    _, mark, text = _FILE.read_text().partition("## What was found")
    return mark + text if mark else ""


def _jobs(quick):
    X, y = letter(2000 if quick else 20_000)
    rows = np.random.default_rng(0).permutation(len(y))[:2000]

    def fit(X, y, **params):
        def job(n):
            model = OpenSetSVC(n_jobs=n, **params).fit(X, y)
            return model.dual_coef_, model.dual_objective_.sum(), model.kkt_gap_.max()

        return job

    model = OpenSetSVC(gamma=8.0).fit(X, y)

    def scores(n):
        return model.set_params(n_jobs=n).decision_function(X), None, None

    def search(preset):
        def job(n):
            found = OpenSetSearchCV(OpenSetSVC(), preset=preset, n_jobs=n, random_state=0)
            found.fit(X[rows], y[rows])
            return found.cv_results_["mean_test_score"], None, None

        return job

    yield f"fit, letter {len(y)} x 16, 26 classes, gamma 8", fit(X, y, gamma=8.0), 8
    yield f"scores of its {len(y)} rows", scores, 10
    yield "default search, letter, 2000 rows, 26 classes", search("default"), 8
    yield "paper's search, same rows", search("paper"), 8
    if not quick:
        try:
            yield "fit, CLINC150 15,000 x 384, gamma 2, C 8", fit(*clinc(), gamma=2.0, C=8.0), 8
        except Absent as reason:
            print(f"left out: {reason}")


def _search_clinc(threads, rows, targets):
    """The default search on CLINC150, once, on all threads: six simulations of 75 classes."""
    try:
        X, y = clinc()
    except Absent as reason:
        print(f"left out: {reason}")
        return
    search = OpenSetSearchCV(OpenSetSVC(), n_jobs=threads[-1], random_state=0)
    begin = time.perf_counter()
    found = search.fit(X, y)
    seconds = time.perf_counter() - begin
    chosen = ", ".join(f"{name} {value:.3g}" for name, value in found.best_params_.items())
    name = f"default search, CLINC150 (finds {chosen}, score {found.best_score_:.4f}), once"
    rows.append([name, *[""] * (len(threads) - 1), f"{seconds:.3g}", "", "", "", ""])
    targets.append(at_most(name, {16: 20, 2: 90}.get(threads[-1], np.inf), seconds, " s"))


def _in_turns(job, threads, repeats):
    """Median times by number of threads, and results; other load meets all of them alike."""
    times, results = np.empty((repeats, len(threads))), []
    for r in range(repeats):
        for t, n in enumerate(threads):
            begin = time.perf_counter()
            result = job(n)
            times[r, t] = time.perf_counter() - begin
            if r == 0:
                results.append(result)
    return np.median(times, axis=0).tolist(), results


def _row(name, times, objective=None, gap=None, same=""):
    return [
        name,
        *(f"{t:.3g}" for t in times),
        f"{times[0] / times[-1]:.1f}",
        "" if objective is None else f"{objective:.7g}",
        "" if gap is None else f"{gap:.2e}",
        same,
    ]
