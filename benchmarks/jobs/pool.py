"""What the pool of memory for kernel rows saves when one fit follows another."""

from dataclasses import dataclass

import numpy as np

from openset.solver import tuned

from ..data import letter
from ..programs import CACHE, OURS
from ..race import race
from ..report import Section, at_least


@dataclass
class Pool:
    name: str
    pooled_bytes: int


VARIANTS = [Pool("with the pool", 2**26), Pool("without", 2**60)]


def run(quick):
    X, y = letter(2_000 if quick else 20_000)
    signs = np.where(y == 1, 1.0, -1.0)
    section = Section(
        "Memory pool",
        f"letter, {len(y)} rows, cache of {CACHE} MB; seconds per fit, one fit after another, with "
        "kernel rows in pooled memory and in memory allocated for each fit.",
        [[["problem", *(variant.name for variant in VARIANTS), "ratio"]]],
    )
    jobs = {
        "one binary problem, gamma 32": OURS.binary(X, signs, 32.0),
        "one-vs-rest, 26 classes, gamma 8": OURS.one_vs_rest(X, y, 8.0),
    }
    for label, fit in jobs.items():
        runs = race([(variant, _with(variant, fit)) for variant in VARIANTS], label)
        ratio = runs[1].seconds / runs[0].seconds
        times = (f"{run.seconds:.3g}" for run in runs)
        section.tables[0].append([label, *times, f"{ratio:.2f}"])
        section.targets.append(at_least(f"memory pool, {label}", 1, ratio))
    return section


def _with(variant, fit):
    def timed():
        with tuned(pooled_bytes=variant.pooled_bytes):
            return fit()

    return timed
