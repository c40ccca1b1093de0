"""Many classes, many rows: time and peak memory of a fit, each in a process of its own."""

from multiprocessing import TimeoutError, get_context
from time import perf_counter

import numpy as np
from sklearn.svm import SVC

from openset import OpenSetSVC

from .. import memory
from ..data import aloi_half, clinc, mnist
from ..programs import N_JOBS, TOL
from ..report import Section, at_least, at_most

# scikit-learn fits one machine at a time, to the end where that takes this many seconds; otherwise
# for a tenth of them, the rest estimated from the median.
LIMIT = 600

# name: data and their size if quick, gamma, C, cache in MB. The gamma of ALOI was searched on 60
# classes, with others as unknown. 5 GB hold most of the kernel rows that classes share: wide rows
# are what such a fit spends its time on.
CASES = {
    "clinc150": (clinc, 10, 1.0, 1.0, 1000),
    "aloi": (aloi_half, 20, 2.0, 8.0, 5000),
    "mnist": (mnist, 2000, 0.02, 8.0, 5000),
}

_HEADER = [
    "data",
    "rows",
    "classes",
    "program",
    "seconds",
    "peak memory",
    "cache",
    "support vectors",
    "KKT gap",
]


def run(quick):
    table = [_HEADER]
    section = Section(
        "Many classes, many rows",
        "One machine a class, all rows, each program in a process of its own, the peak of which "
        "includes interpreter, libraries and data. scikit-learn: classes in turn on one core each "
        f"of {N_JOBS}; what would take more than {LIMIT} s is an estimate from the median of some "
        "classes, marked ~. clinc150: gamma 1, C 1; aloi: gamma 2, C 8, half of the rows; "
        "mnist: gamma 0.02, C 8.",
        [table],
    )
    for name, (data, size, *_) in CASES.items():
        ours = _apart(_fit_ours, name, quick)
        try:
            theirs = _apart(_fit_theirs, name, quick, timeout=LIMIT)
        except TimeoutError:
            theirs = None
        X, y = data(size) if quick else data()
        head = [name, f"{X.shape[0]} x {X.shape[1]}", str(len(np.unique(y)))]
        cache = f"{CASES[name][-1]} MB"
        table.append(
            [
                *head,
                "openset",
                f"{ours['seconds']:.3g}",
                f"{ours['peak']:.0f} MB",
                cache,
                str(ours["support"]),
                f"{ours['gap']:.1e}",
            ]
        )
        seconds, peak = f"> {LIMIT}", ""
        if theirs is not None:
            seconds = f"{'' if theirs['finished'] else '~'}{theirs['seconds']:.3g}"
            peak = f"{theirs['peak']:.0f} MB"
        table.append([*head, "scikit-learn", seconds, peak, cache, "", ""])
        section.targets.append(at_most(f"scale, {name}: KKT gap", 1.1 * TOL, ours["gap"]))
        if memory.KNOWN:
            most = CASES[name][-1] + 1024
            section.targets.append(at_most(f"scale, {name}: memory", most, ours["peak"], " MB"))
        if name == "clinc150":
            ratio = theirs["seconds"] / ours["seconds"]
            section.targets.append(at_least("scale, 150 classes, against scikit-learn", 15, ratio))
        if name == "aloi":
            section.targets.append(at_most("scale, 1000 classes", 900, ours["seconds"], " s"))
    return section


def _apart(fit, name, quick, timeout=None):
    with get_context("spawn").Pool(1) as pool:  # ended with what it still does
        return pool.apply_async(fit, (name, quick)).get(timeout)


def _problem(name, quick):
    data, size, *settings = CASES[name]
    return (*(data(size) if quick else data()), *settings)


def _fit_ours(name, quick):
    X, y, gamma, C, cache = _problem(name, quick)
    # Compiled before the clock starts, as in the other jobs.
    settings = {"gamma": gamma, "C": C, "tol": TOL, "cache_size": cache, "n_jobs": N_JOBS}
    some = np.isin(y, np.unique(y)[:3])
    OpenSetSVC(**settings).fit(X[some][:300], y[some][:300])
    start = perf_counter()
    model = OpenSetSVC(**settings, verbose=1).fit(X, y)
    seconds = perf_counter() - start
    print(f"  {name} openset: {seconds:.3g} s", flush=True)
    return {
        "seconds": seconds,
        "peak": memory.peak() if memory.KNOWN else np.nan,
        "support": len(model.support_),
        "gap": model.kkt_gap_.max(),
    }


def _fit_theirs(name, quick):
    X, y, gamma, C, cache = _problem(name, quick)
    classes = np.unique(y)
    times = []
    for c in classes:
        start = perf_counter()
        SVC(gamma=gamma, C=C, tol=TOL, cache_size=cache).fit(X, y == c)
        times.append(perf_counter() - start)
        # As if the classes were shared out to all cores.
        expected = np.median(times) * len(classes) / N_JOBS
        if sum(times) > LIMIT / 10 and expected > LIMIT:
            break
    finished = len(times) == len(classes)
    mean = np.mean(times) if finished else np.median(times)
    seconds = mean * len(classes) / N_JOBS
    print(f"  {name} scikit-learn: {len(times)} machines, {seconds:.3g} s in all", flush=True)
    peak = memory.peak() if memory.KNOWN else np.nan
    return {"seconds": seconds, "peak": peak, "finished": finished}
