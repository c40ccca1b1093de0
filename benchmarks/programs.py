"""This library and its peers behind one interface; all with C = 1, tol = 1e-3, cache 1000 MB.

``binary(X, signs, gamma)`` prepares one SVM and returns the function to be timed, whose answer
``multipliers(answer, signs)`` turns into the y_i alpha_i of all rows, shape (m,).
``one_vs_rest(X, y, gamma)`` does so for one SVM per class, and ``machines(model, X, signs)`` gives
the multipliers of them all; `signs` and they are of shape (K, m).
"""

from functools import cache
from importlib import import_module
from importlib.metadata import version

import numpy as np
from sklearn.multiclass import OneVsRestClassifier

from openset import OneVsRestSVC
from openset.kernels import RBF
from openset.solver import kernel_rows, solve, svm_problem

N_JOBS = 2
TOL = 1e-3
CACHE = 1000


class Way:
    """A way of this library that is timed against another."""

    def __init__(self, name):
        self.name = name


class Ours:
    name = "openset"
    distribution = "openset"

    def binary(self, X, signs, gamma):
        def fit():
            problem = svm_problem(signs, np.ones(len(signs)), 0.0)
            return solve(problem, kernel_rows(X, RBF(), gamma, CACHE), tol=TOL)

        return fit

    def multipliers(self, solution, signs):
        return solution.beta

    def one_vs_rest(self, X, y, gamma):
        model = OneVsRestSVC(gamma=gamma, tol=TOL, cache_size=CACHE, n_jobs=N_JOBS)
        return lambda: model.fit(X, y)

    def machines(self, model, X, signs):
        beta = np.zeros(signs.shape)
        beta[:, model.support_] = model.dual_coef_
        # A fit merges equal rows of one class; an equal share for each copy is as good a solution.
        rows = np.column_stack([X, signs.argmax(axis=0)])
        _, copy_of, n_copies = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        sums = np.zeros((len(signs), len(n_copies)))
        np.add.at(sums, (slice(None), copy_of), beta)
        return (sums / n_copies)[:, copy_of]


class ScikitLearn:
    name = "scikit-learn"
    distribution = "scikit-learn"
    module = "sklearn.svm"
    n_jobs = N_JOBS

    def __init__(self):
        self._SVC = import_module(self.module).SVC

    def _svc(self, gamma):
        return self._SVC(C=1.0, gamma=gamma, tol=TOL, cache_size=CACHE)

    def binary(self, X, signs, gamma):
        return lambda: self._svc(gamma).fit(X, signs)

    def multipliers(self, model, signs):
        return _signed(model.support_, model.dual_coef_, signs)

    def one_vs_rest(self, X, y, gamma):
        model = OneVsRestClassifier(self._svc(gamma), n_jobs=self.n_jobs)
        return lambda: model.fit(X, y)

    def machines(self, model, X, signs):
        pairs = zip(model.estimators_, signs, strict=True)
        return np.array([self.multipliers(machine, own) for machine, own in pairs])


class Intelex(ScikitLearn):
    name = "scikit-learn-intelex"
    distribution = "scikit-learn-intelex"
    module = "sklearnex.svm"
    n_jobs = None  # each machine runs on all cores by itself


class ThunderSVM(ScikitLearn):
    name = "thundersvm"
    distribution = "thundersvm-cpu"
    module = "thundersvm"


class LibSVM:
    name = "libsvm"
    distribution = "libsvm-official"

    def __init__(self):
        self._svm = import_module("libsvm.svmutil")

    def binary(self, X, signs, gamma):
        # Copying the rows into Python's view of C structures is not the solver's work.
        problem = self._svm.svm_problem(signs, X)
        options = self._svm.svm_parameter(f"-q -t 2 -c 1 -g {gamma!r} -e {TOL!r} -m {CACHE}")
        return lambda: self._svm.svm_train(problem, options)

    def multipliers(self, model, signs):
        return _signed(np.array(model.get_sv_indices()) - 1, model.get_sv_coef(), signs)


def _signed(support, coef, signs):
    beta = np.zeros(len(signs))
    beta[np.asarray(support)] = np.asarray(coef).ravel()
    # Some call the first class they meet the positive one. Turning all signs at once cannot hide
    # a multiplier on the wrong side.
    return beta if beta @ signs >= 0 else -beta


OURS = Ours()


@cache
def peer(kind):
    """The program `kind`, or None, with a line that says why, where it cannot be used."""
    try:
        return kind()
    except (ImportError, OSError) as error:
        print(f"skipped: {kind.distribution} cannot be imported ({error})")
        return None


def programs(*kinds):
    """This library and those of its peers `kinds` that are installed."""
    return [OURS, *filter(None, map(peer, kinds))]


def versions():
    """Name and version of every program that is installed."""
    usable = programs(ScikitLearn, Intelex, LibSVM, ThunderSVM)
    return {program.distribution: version(program.distribution) for program in usable}
