"""One binary problem at solver level."""

import numpy as np

from ..data import letter
from ..programs import Intelex, LibSVM, ScikitLearn, ThunderSVM, programs
from ..quality import judge
from ..race import race
from ..report import Section, agreement, at_least, fit_table


def run(quick):
    X, y = letter(2_000 if quick else 20_000)
    signs = np.where(y == 1, 1.0, -1.0)
    section = Section(
        "One binary problem",
        f"letter, {len(y)} rows, class 1 against the rest, solver level (openset and "
        "scikit-learn run on one core, the others on all).",
    )
    cases = []
    for gamma in (0.5, 8.0, 32.0):
        label = f"gamma {gamma:g}"
        tasks = [
            (program, program.binary(X, signs, gamma))
            for program in programs(ScikitLearn, Intelex, LibSVM, ThunderSVM)
        ]
        runs = race(tasks, label)
        qualities = [
            judge(X, signs[None], gamma, run.program.multipliers(run.answer, signs)[None])
            for run in runs
        ]
        cases.append((label, runs, qualities))
        rivals = [run for run in runs if type(run.program) in (ScikitLearn, Intelex)]
        fastest = min(rivals, key=lambda run: run.seconds)
        section.targets.append(
            at_least(
                f"binary, {label}, against {fastest.program.name}",
                3,
                fastest.seconds / runs[0].seconds,
            )
        )
        section.targets += agreement(f"binary, {label}", qualities)
    section.tables.append(fit_table(cases))
    return section
