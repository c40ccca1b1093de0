"""A new method is one file, one registry entry and one page: the rest of the library sees it."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

import openset
from openset.persistence import load_model, save_model
from openset.utils import METHODS, Method, method_names, method_table
from openset.utils.estimator_checks import check_open_set_estimator

FILE = '''
import numpy as np

from openset.base import (
    OpenSetClassifier, SearchSpec, Traits, validate_samples, validate_training_data
)


class NearestMean(OpenSetClassifier):
    """A class accepts a ball around its mean."""

    traits = Traits("nearest mean", bounded=True)
    search_spec = SearchSpec(grids={"default": {"reach": [1.0, 2.0, 3.0]}}, after_fit=("reach",))

    def __init__(self, reach=3.0, unknown_label="auto"):
        self.reach = reach
        self.unknown_label = unknown_label

    def fit(self, X, y):
        X, codes, _, _ = validate_training_data(self, X, y)
        groups = [X[codes == c] for c in range(len(self.classes_))]
        self.means_ = np.array([group.mean(axis=0) for group in groups])
        self.spread_ = np.array([np.sqrt(group.var(axis=0).sum()) for group in groups])
        return self

    def raw_scores(self, X):
        X = validate_samples(self, X)
        distances = np.linalg.norm(X[:, None] - self.means_, axis=2)
        return np.minimum(distances, 1e100)

    def decide(self, raw):
        return self.reach * self.spread_ - raw

    def far_scores(self):
        return np.full(len(self.classes_), -np.inf)
'''

KERNEL_FILE = '''
import numpy as np

from openset.base import KernelMachineClassifier, Traits


class StrictSVC(KernelMachineClassifier):
    """A plain SVM that accepts above a margin."""

    traits = Traits("strict SVM", condition="b_c < margin for every class")

    def __init__(self, C=1.0, gamma="scale", kernel="rbf", margin=0.1, tol=1e-3, max_iter=-1,
                 cache_size=1000, n_jobs=None, device="cpu", verbose=0, unknown_label="auto"):
        self.C = C
        self.gamma = gamma
        self.kernel = kernel
        self.margin = margin
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.unknown_label = unknown_label

    def score_map(self, path, **params):
        return np.ones(1), np.array([-self.margin])
'''


@pytest.fixture
def add_method(tmp_path, monkeypatch):
    """Write a file and enter its class in the registry, for the time of a test."""
    monkeypatch.syspath_prepend(tmp_path)
    added = []

    def add(name, text, command):
        module = f"toy_{name.lower()}"
        tmp_path.joinpath(f"{module}.py").write_text(text, "utf-8")
        METHODS.append(Method(name, module, command))
        added.append(module)
        return getattr(__import__(module), name)

    yield add
    for module in added:
        METHODS.pop()
        sys.modules.pop(module, None)


def test_the_library_sees_a_new_method(add_method, tmp_path):
    cls = add_method("NearestMean", FILE, "nearest-mean")
    assert ("NearestMean", cls) in openset.all_estimators()
    assert method_names()["nearest-mean"] is cls
    (row,) = (row for row in method_table() if row.estimator == "NearestMean")
    assert (row.method, row.command, row.bounded) == ("nearest mean", "nearest-mean", True)
    check_open_set_estimator(cls())
    X, y = load_iris(return_X_y=True)
    search = openset.OpenSetSearchCV(cls(), n_repeats=2, random_state=0).fit(X, y)
    assert search.best_params_["reach"] in (1.0, 2.0, 3.0)
    save_model(search.best_estimator_, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    np.testing.assert_array_equal(loaded.predict(X), search.predict(X))


def test_a_new_kernel_machine_comes_with_search_certificate_and_export(add_method, tmp_path):
    cls = add_method("StrictSVC", KERNEL_FILE, "strict-svm")
    check_open_set_estimator(cls())
    X, y = load_iris(return_X_y=True)
    plain = openset.OneVsRestSVC(gamma=0.5).fit(X, y)
    strict = cls(gamma=0.5).fit(X, y)
    np.testing.assert_allclose(strict.intercept_, plain.intercept_ - 0.1)
    grid = {"C": [1.0, 8.0], "gamma": [0.1, 1.0]}
    search = openset.OpenSetSearchCV(cls(), grid, level="class", random_state=0).fit(X, y)
    assert set(search.best_params_) == {"C", "gamma"}
    save_model(search.best_estimator_, tmp_path / "m.skops")
    assert np.all(load_model(tmp_path / "m.skops").predict(X) == search.predict(X))
    pytest.importorskip("onnx")
    from openset.export import to_onnx

    assert to_onnx(strict).graph.output[0].name == "label"
