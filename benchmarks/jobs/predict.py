"""Decision values of the models of `ovr`."""

import numpy as np

from ..data import letter_repeated
from ..quality import expansion
from ..race import race
from ..report import Section, at_least
from .ovr import GAMMA, fits

_AT_LEAST = {"scikit-learn": 20, "scikit-learn-intelex": 1}


def run(quick):
    X, y, fitted = fits(quick)
    T, _ = letter_repeated(len(y))
    models = {run.program.name: run.answer for run in fitted}
    tasks = [(r.program, lambda model=r.answer: model.decision_function(T)) for r in fitted]
    runs = race(tasks, "decision_function")
    signs = np.where(y == np.unique(y)[:, None], 1.0, -1.0)
    some = slice(None, None, 20)

    rows = [["program", "seconds", "runs", "times ours", "error", "differs by", "answers differ"]]
    ours = runs[0]
    for run in runs:
        model = models[run.program.name]
        exact = expansion(T[some], X, run.program.machines(model, X, signs), GAMMA) + _biases(model)
        rows.append(
            [
                run.program.name,
                f"{run.seconds:.3g}",
                str(len(run.times)),
                f"{run.seconds / ours.seconds:.1f}",
                f"{np.abs(run.answer[some] - exact).max():.1e}",
                f"{np.abs(run.answer - ours.answer).max():.1e}",
                f"{((run.answer >= 0) != (ours.answer >= 0)).mean():.1e}",
            ]
        )
    section = Section(
        "decision_function",
        f"The models of one-vs-rest, {len(signs)} classes, {len(T)} test rows (the training rows "
        "moved a little). The error is that against a float64 sum over the program's own "
        "multipliers, on every twentieth row; the rest are differences from openset, whose model "
        "is another optimum within the same tolerance.",
        [rows],
    )
    for run in runs[1:]:
        name = run.program.name
        ratio = run.seconds / ours.seconds
        section.targets.append(at_least(f"predict, against {name}", _AT_LEAST[name], ratio))
    return section


def _biases(model):
    machines = getattr(model, "estimators_", [model])
    return np.concatenate([np.ravel(machine.intercept_) for machine in machines])
