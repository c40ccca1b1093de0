"""Random attacks for a given time: ``python -m tests.fuzz --minutes 10``, or ``make fuzz``.

An attack is a module ``tests/fuzz/fuzz_NAME.py`` with a function ``attack(rng)``: one random case,
which raises if the library is wrong and returns a dict of what it measured. In the table, the cases
of an attack are grouped by "group"; numbers named in `ADDED` are added up, of other numbers
the largest is shown. The attacks take turns. Case k of an attack is drawn from (seed, k), so that
``--seed S --only NAME --case K`` repeats it.
"""

from __future__ import annotations

import argparse
import importlib
import secrets
import sys
import time
import traceback
from pathlib import Path

import numpy as np

# What is added up over the cases; of other numbers the largest counts.
ADDED = ("refused", "points", "killed", "near", "tied")


def attacks() -> dict:
    """Every attack by name."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("fuzz_*.py"))
    return {
        name.removeprefix("fuzz_"): importlib.import_module(f".{name}", __package__).attack
        for name in names
    }


class Tally:
    """What the cases of one group gave."""

    def __init__(self):
        self.cases, self.failures, self.seconds = 0, 0, 0.0
        self.measured: dict[str, float] = {}

    def add(self, measured: dict, seconds: float, cases: int = 1, failures: int = 0) -> None:
        self.cases += cases
        self.failures += failures
        self.seconds += seconds
        for name, value in measured.items():
            before = self.measured.get(name, 0)
            self.measured[name] = before + value if name in ADDED else max(before, value)


def run(chosen: dict, seed: int, minutes: float, cases: int | None, first: int = 0):
    """Run the attacks in turn until the time or the number of cases of each is used up."""
    tallies: dict[tuple[str, str], Tally] = {}
    failures = 0
    end = time.monotonic() + 60 * minutes
    k = first
    while time.monotonic() < end and (cases is None or k < first + cases):
        for name, attack in chosen.items():
            start = time.perf_counter()
            try:
                measured = dict(attack(np.random.default_rng([seed, k])))
                failed = False
            except Exception:
                measured, failed = {}, True
                print(f"\n--- {name}: seed {seed}, case {k} ---\n{traceback.format_exc()}")
            group = measured.pop("group", "failed" if failed else "all")
            tally = tallies.setdefault((name, group), Tally())
            tally.add(measured, time.perf_counter() - start, failures=int(failed))
            failures += failed
        k += 1
    return tallies, failures


def table(tallies: dict) -> str:
    """The tallies as a Markdown table."""
    names = sorted({name for tally in tallies.values() for name in tally.measured})
    head = ["attack", "group", "cases", "failures", "seconds", *names]
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    for (attack, group), tally in sorted(tallies.items()):
        values = [tally.measured.get(name) for name in names]
        cells = ["" if value is None else f"{value:.3g}" for value in values]
        for name, value in zip(names, values, strict=True):
            if name in ADDED and value is not None:
                cells[names.index(name)] = str(int(value))
        row = [attack, group, str(tally.cases), str(tally.failures), f"{tally.seconds:.1f}", *cells]
        lines.append(" | ".join(row))
    return "\n".join(f"| {line} |" for line in lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Random attacks.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--cases", type=int, help="stop after so many cases of each attack")
    parser.add_argument("--seed", type=int, help="of an earlier run; drawn and printed by default")
    parser.add_argument("--only", action="append", help="the name of an attack; may be repeated")
    parser.add_argument("--case", type=int, help="repeat one case")
    parser.add_argument("--report", type=Path, help="also write the table to this Markdown file")
    options = parser.parse_args(argv)
    every = attacks()
    unknown = set(options.only or []) - set(every)
    if unknown:
        parser.error(f"no attack named {sorted(unknown)}; choose from {sorted(every)}")
    chosen = {name: every[name] for name in options.only or every}
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}: {', '.join(chosen)}", flush=True)
    first, cases = (0, options.cases) if options.case is None else (options.case, 1)
    started = time.monotonic()
    tallies, failures = run(chosen, seed, options.minutes, cases, first)
    text = table(tallies)
    seconds = time.monotonic() - started
    print(f"{text}\n\n{failures} failures in {seconds:.0f} s, seed {seed}")
    if options.report:
        options.report.write_text(
            "# Reliability: random attacks\n\n"
            f"Written by `python -m tests.fuzz --seed {seed}`, in {seconds:.0f} s (on a busy "
            f"two-core machine; times are noisy). {failures} failures.\n\n{text}\n\n"
            "* *fits*: random fits against a float64 oracle that forms every distance from "
            "differences (`tests/fuzz/fuzz_fits.py`): scales 1e-150 to 1e150, offsets, huge cells, "
            "layouts, dtypes, weights, kernels, sparse formats. `score` is the largest error of a "
            "score divided by max(1, largest coefficient) (allowed: 1e-4), `gap` the largest true "
            "KKT gap in units of tol where the solver reports at most tol (allowed: 2), `refused` "
            "the fits that ended with a clear ValueError. In every fit, points beyond the "
            "certificate of each class are scored as well; one accepted is a failure.\n"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
