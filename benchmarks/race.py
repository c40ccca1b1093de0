"""Run programs in turns, so that whatever else the machine does meets all of them alike."""

import gc
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

REPEATS = 3
# A program that takes longer than this, in seconds, is not run again.
HEAVY = 30.0


@dataclass
class Run:
    """The times of one program, in seconds, and its last answer."""

    program: Any
    times: list[float] = field(default_factory=list)
    answer: Any = None

    @property
    def seconds(self):
        return median(self.times)

    @property
    def heavy(self):
        return bool(self.times) and self.times[-1] > HEAVY


def race(tasks, label=""):
    """Time the functions of `tasks`, a list of (program, function), ours first.

    The first turn is not counted: it holds our compilation, the start of the peers' worker
    processes, and the first touch of memory. Only a heavy peer is content with it. A program that
    fails is named and left out. Returns a Run for each of the others.
    """
    runs = [Run(program) for program, _ in tasks]
    failed = set()
    for turn in range(1 + REPEATS):
        for run, (program, function) in zip(runs, tasks, strict=True):
            if run.heavy or program.name in failed:
                continue
            run.answer = None
            gc.collect()
            start = perf_counter()
            try:
                run.answer = function()
            except Exception as error:
                if run is runs[0]:
                    raise
                failed.add(program.name)
                print(f"skipped: {program.name} failed ({error})")
                continue
            seconds = perf_counter() - start
            counts = turn > 0 or (seconds > HEAVY and run is not runs[0])
            if counts:
                run.times.append(seconds)
            warm_up = "" if counts else " (warm-up)"
            print(f"  {label} {program.name}: {seconds:.3g} s{warm_up}", flush=True)
    return [run for run in runs if run.program.name not in failed]
