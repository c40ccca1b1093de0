"""What the benchmarks found, as Markdown."""

import json
import os
import platform
import re
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .programs import CACHE, TOL, versions
from .race import HEAVY, REPEATS

_FILE = Path(__file__).with_name("results.md")
# What each job found when it was last run, for the file above.
_FOUND = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Target:
    """A figure to be reached, and the one that was measured."""

    job: str
    target: str
    measured: str
    reached: bool


def at_least(job, target, measured):
    """The target that a ratio of times is at least `target`."""
    return Target(job, f"at least {target:g}x", f"{measured:.1f}x", bool(measured >= target))


def at_most(job, target, measured, unit=""):
    """The target that a number is at most `target`."""
    return Target(
        job, f"at most {target:.4g}{unit}", f"{measured:.4g}{unit}", bool(measured <= target)
    )


@dataclass
class Section:
    """The tables of one job, each a list of rows of text under a header, and its targets."""

    title: str
    text: str
    tables: list[list[list[str]]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)

    def markdown(self):
        parts = [f"## {self.title}", self.text, *map(table, self.tables)]
        return "\n\n".join(parts)


def table(rows):
    """A Markdown table; the first row is the header."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    lines.insert(1, f"|{' --- |' * len(rows[0])}")
    return "\n".join(lines)


_FIT_HEADER = [
    "case",
    "program",
    "seconds",
    "runs",
    "times ours",
    "dual objective",
    "differs by",
    "KKT gap",
    "infeasible by",
]


def fit_table(cases):
    """The table of fits; `cases` has for each case its name, its runs, ours first, and qualities.

    Objectives are summed over the machines; their relative difference from ours, the gap and the
    infeasibility are the worst of all machines.
    """
    rows = [_FIT_HEADER]
    for case, runs, qualities in cases:
        for run, quality in zip(runs, qualities, strict=True):
            rows.append(
                [
                    case,
                    run.program.name,
                    f"{run.seconds:.3g}",
                    str(len(run.times)),
                    f"{run.seconds / runs[0].seconds:.1f}",
                    f"{quality.objective.sum():.7g}",
                    f"{difference(quality, qualities[0]):.1e}",
                    f"{quality.gap.max():.2e}",
                    f"{quality.infeasible.max():.0e}",
                ]
            )
    return rows


def difference(quality, reference):
    """Largest relative difference of two programs' objectives over all machines."""
    return np.abs(quality.objective / reference.objective - 1).max()


def agreement(job, qualities):
    """The targets that the objectives of all programs agree and that ours is optimal.

    A tenth is added to the tolerance: kernel values are float32 in every solver, and the judge's
    are not.
    """
    ours, *others = qualities
    targets = [at_most(f"{job}: KKT gap", 1.1 * TOL, ours.gap.max())]
    if others:
        worst = max(difference(quality, ours) for quality in others)
        targets.append(at_most(f"{job}: objectives differ, relative", 1e-4, worst))
    return targets


def heading():
    """Machine, versions and rules."""
    packages = {name: version(name) for name in ("numpy", "scipy", "numba")} | versions()
    return "\n".join(
        [
            "# Benchmarks",
            "",
            f"- {_cpu()}, {os.cpu_count()} cores, {_memory():.0f} GB of memory",
            f"- Python {platform.python_version()}, "
            + ", ".join(f"{name} {number}" for name, number in packages.items()),
            f"- C = 1, tol = {TOL:g}, {CACHE} MB for kernel rows in every program",
            f"- programs run in turns; times are medians of {REPEATS} runs after one that does not "
            f"count; what takes longer than {HEAVY:g} s is not run again (see the column runs)",
            "- objective, KKT gap and infeasibility are computed from each program's multipliers "
            "by one float64 function",
        ]
    )


def _cpu():
    told = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", told.read_text()) if told.exists() else None
    return found[1] if found else platform.processor()


def _memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def summary(sections):
    """The table of targets."""
    targets = [target for section in sections for target in section.targets]
    rows = [
        [target.job, target.target, target.measured, "yes" if target.reached else "**no**"]
        for target in targets
    ]
    return "\n".join(["## Targets", "", table([["job", "target", "measured", "reached"], *rows])])


def stamp():
    """When, and how busy the machine was before."""
    return f"{datetime.now():%Y-%m-%d %H:%M}, load before {os.getloadavg()[0]:.1f}"


def keep(name, section, stamp):
    """Keep what a job found in place of what it found before."""
    _FOUND.mkdir(exist_ok=True)
    found = {"stamp": stamp, "heading": heading(), **asdict(section)}
    (_FOUND / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")


def write(names):
    """Write the results file from what the jobs found last, in the order of `names`."""
    files = [_FOUND / f"{name}.json" for name in names]
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    sections = [
        Section(f["title"], f["text"], f["tables"], [Target(**t) for t in f["targets"]])
        for f in found
    ]
    parts = [found[-1]["heading"], summary(sections)]
    for section, f in zip(sections, found, strict=True):
        parts.append(section.markdown() + f"\n\n*Measured {f['stamp']}.*")
    _FILE.write_text("\n\n".join(parts) + "\n")
