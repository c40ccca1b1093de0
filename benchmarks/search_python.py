"""CPU time of a search outside its compiled loops, one thread: python -m benchmarks.search_python.

What is left is what more threads cannot make faster. See benchmarks/cores.md, "What was found".
"""

import sys
from importlib import import_module
from time import thread_time

import numpy as np

from openset import OpenSetSearchCV, OpenSetSVC

from .data import letter

COMPILED = {
    "openset.solver._sweep": "sweep",
    "openset.solver._matrix": "fill_from_points",
    "openset.utils._contract": "best_class",
}


def main(repeats=50):
    """Print the best and the median of many searches of 2000 rows of letter."""
    spent = dict.fromkeys(COMPILED.values(), 0.0)
    for module, name in COMPILED.items():
        _add_time(import_module(module), name, spent)
    X, y = letter(20_000)
    rows = np.random.default_rng(0).permutation(len(y))[:2000]
    times = []
    for _ in range(repeats + 2):
        before, begin = sum(spent.values()), thread_time()
        OpenSetSearchCV(OpenSetSVC(), n_jobs=1, random_state=0).fit(X[rows], y[rows])
        whole = thread_time() - begin
        times.append((whole, whole - (sum(spent.values()) - before)))
    for name, own in zip(
        ("search", "outside compiled loops"), np.transpose(times[2:]), strict=True
    ):
        print(f"{name}: best {1e3 * own.min():.1f} ms, median {1e3 * np.median(own):.1f} ms")


def _add_time(module, name, spent):
    function = getattr(module, name)

    def timed(*args):
        begin = thread_time()
        try:
            return function(*args)
        finally:
            spent[name] += thread_time() - begin

    setattr(module, name, timed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
