"""The paper's grid: all classes, widths of the kernel and lambdas over one training set."""

import numpy as np
from threadpoolctl import threadpool_limits

from openset.kernels import RBF
from openset.solver import Batch, Settings, solve_batches, svm_problem

from ..data import letter_sample
from ..programs import CACHE, N_JOBS, OURS, TOL, Intelex, ScikitLearn, programs
from ..quality import Quality, judge
from ..race import race
from ..report import Section, agreement, at_least, at_most, fit_table

LAMS = np.arange(20) * 0.05


def run(quick):
    n_classes, n_rows, step = (4, 300, 6) if quick else (12, 1500, 2)
    X, y = letter_sample(n_classes, n_rows)
    gammas = 2.0 ** np.arange(-15, 16, step)
    signs = np.where(y == np.arange(1, n_classes + 1)[:, None], 1.0, -1.0)
    tasks = [(OURS, lambda: _grid(X, signs, gammas))]
    for program in programs(ScikitLearn, Intelex)[1:]:
        tasks.append((program, lambda program=program: _one_by_one(program, X, signs, gammas)))
    runs = race(tasks, "grid")

    ours = [_judge_paths(X, signs, gamma, runs[0].answer[g]) for g, gamma in enumerate(gammas)]
    # Objectives are compared where lambda = 0, which is all that the others can solve.
    qualities = [_joined([Quality(*(x[:: len(LAMS)] for x in quality)) for quality in ours])]
    for run in runs[1:]:
        found = [
            np.array([run.program.multipliers(m, s) for m, s in zip(models, signs, strict=True)])
            for models in run.answer
        ]
        pairs = zip(gammas, found, strict=True)
        qualities.append(_joined([judge(X, signs, gamma, beta) for gamma, beta in pairs]))
        # They would have to be run for every lambda.
        run.times = [len(LAMS) * time for time in run.times]

    n_plain = len(gammas) * n_classes
    n_machines = n_plain * len(LAMS)
    section = Section(
        "The paper's grid",
        f"letter, {n_classes} classes, {n_rows} rows, {len(gammas)} gammas x {len(LAMS)} lambdas = "
        f"{n_machines} machines. openset solves all on {N_JOBS} threads and hands over the scores "
        f"of all rows; the others fit the {n_plain} machines of lambda = 0 without scoring "
        f"(scikit-learn on one core), and their time is multiplied by {len(LAMS)}. Objectives and "
        "gaps in the table are those of lambda = 0.",
        [fit_table([("grid", runs, qualities)])],
    )
    for run in runs[1:]:
        if type(run.program) is ScikitLearn:
            ratio = run.seconds / runs[0].seconds
            section.targets.append(at_least("grid, against scikit-learn", 200, ratio))
    gap = _joined(ours).gap.max()
    section.targets.append(at_most(f"grid: KKT gap, all {n_machines}", 1.1 * TOL, gap))
    section.targets += agreement("grid, lambda = 0", qualities)
    return section


def _grid(X, signs, gammas):
    """Multipliers of all machines, by gamma and class, (T, m) each; all scores are read."""
    paths = [[None] * len(signs) for _ in gammas]
    problem = svm_problem(signs, np.ones(len(X)), 0.0)
    totals = LAMS * problem.upper.sum(axis=1, keepdims=True)
    batches = [
        Batch(problem.p[c : c + 1], problem.lower[c : c + 1], problem.upper[c : c + 1], own[None])
        for c, own in enumerate(totals)
    ]
    settings = Settings(TOL, cache_size=CACHE, n_jobs=N_JOBS)
    for together in solve_batches(X, RBF(), gammas, batches, settings):
        for solved in together:
            paths[solved.width][solved.batch] = solved.beta
            (solved.scores >= 0).sum(axis=0)
    return paths


def _one_by_one(program, X, signs, gammas):
    with threadpool_limits(1):
        return [[program.binary(X, own, gamma)() for own in signs] for gamma in gammas]


def _judge_paths(X, signs, gamma, paths):
    totals = np.outer((signs > 0).sum(axis=1), LAMS).ravel()
    return judge(X, np.repeat(signs, len(LAMS), axis=0), gamma, np.vstack(paths), totals)


def _joined(qualities):
    return Quality(*map(np.concatenate, zip(*qualities, strict=True)))
