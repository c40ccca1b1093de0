"""Random fits against a float64 oracle, in several processes: writes ``benchmarks/reliability.md``.

``python -m benchmarks.reliability --fits 2100 --processes 3``. The attack is in tests/fuzz.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz.__main__ import Tally, attacks, run, table

_ADDED = ("refused", "points")

_TEXT = """# Reliability: random fits

Written by `python -m benchmarks.reliability`: {fits} random fits (seed {seed}) in {seconds:.0f} s,
on a two-core machine that was busy with other work, so the times say little. {failures} failures.

{table}

Each fit has random data (narrow, wide or sparse; scales 1e-150 to 1e150, offsets up to 1e12 and
single cells up to 1e100 in units of the spread; five dtypes, ten layouts and sparse formats),
weights, kernel, width, C, lambda and tolerance. The oracle forms every distance from differences in
float64.

* *score*: largest error of a score, divided by max(1, largest coefficient). Allowed: 1e-4.
* *gap*: largest true KKT gap in units of tol, where the solver reports at most tol. Allowed: 2.
* *points*: scores compared. *refused*: fits that ended with a clear ValueError.
* In every fit, points beyond the certificate of each class are scored as well, up to 1e150 radii
  away. One that is accepted is a failure.

With the code as it was before this check existed, 96 of the first 300 fits with seed 1 failed.
"""


def _run(seed, minutes, first_and_cases):
    first, cases = first_and_cases
    return run({"fits": attacks()["fits"]}, seed, minutes, cases, first)


def merged(parts):
    """The tallies of several processes as one."""
    whole = {}
    for tallies in parts:
        for key, tally in tallies.items():
            total = whole.setdefault(key, Tally())
            total.cases += tally.cases
            total.failures += tally.failures
            total.seconds += tally.seconds
            for name, value in tally.measured.items():
                before = total.measured.get(name, 0)
                total.measured[name] = before + value if name in _ADDED else max(before, value)
    return whole


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("--fits", type=int, default=2100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after so long")
    parser.add_argument("--seed", type=int, default=20261116)
    options = parser.parse_args()
    share = -(-options.fits // options.processes)
    ranges = [(first, share) for first in range(0, options.fits, share)]
    start = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        work = partial(_run, options.seed, options.minutes)
        results = list(pool.map(work, ranges))
    tallies = merged([tallies for tallies, _ in results])
    text = _TEXT.format(
        fits=sum(tally.cases for tally in tallies.values()),
        seed=options.seed,
        seconds=time.monotonic() - start,
        failures=sum(failures for _, failures in results),
        table=table(tallies),
    )
    Path(__file__).with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
