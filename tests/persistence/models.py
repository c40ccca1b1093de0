"""Fitted models of every kind that a model file may hold, for tests and attacks.

``python -m tests.persistence.models FOLDER`` saves all of them and their answers. The folder
``fixtures_0_1_0`` was made so by version 0.1.0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import NMF, PCA, KernelPCA, TruncatedSVD
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.random_projection import SparseRandomProjection
from sklearn.svm import SVC, NuSVC, OneClassSVM

import openset
from openset import OSNN, WSVM, OpenSetSVC, all_estimators
from openset.calibration import CalibratedRejector
from openset.gaussian import OpenSetCentroids, OpenSetLDA
from openset.kernels import TStudent
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OpenSetKNN
from openset.persistence import save_model
from openset.wrappers import CascadeRejector, ThresholdRejector

X, codes = load_iris(return_X_y=True)
X, Y = X[::5], np.array(["setosa", "versicolor", "virginica"])[codes[::5]]
# What a model is asked: its data, and rows far away.
PROBES = np.concatenate([X[::2], X[::3] + 3.0, 1e4 * X[:3]])
TEXTS = [f"{'red green blue'.split()[k % 3]} word{k % 7} word{k % 5}" for k in range(30)]
COLOURS = np.array([text.split()[0] for text in TEXTS])
RECORDS = [{text.split()[0]: 1.0, "n": k % 7} for k, text in enumerate(TEXTS)]


def _searched(estimator=None, **grid):
    grid = grid or {"gamma": [1.0, 4.0]}
    return OpenSetSearchCV(estimator or OpenSetSVC(), grid, n_repeats=1, random_state=0)


def _mixed():
    """Numbers and categories of the same columns, as a table has them."""
    return ColumnTransformer(
        [
            ("bins", KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), [0, 1]),
            ("scaled", make_pipeline(SimpleImputer(), StandardScaler()), slice(1, 3)),
            ("coded", make_pipeline(FunctionTransformer(np.rint), _encoder()), [3]),
        ]
    )


def _encoder(**options):
    return OneHotEncoder(handle_unknown="ignore", **options)


def models() -> Iterator[tuple[str, Any, Any]]:
    """(name, fitted model, what it is asked); the family is the part of the name before "-"."""
    for name, cls in all_estimators():
        family = cls.__module__.split(".")[1]
        if family != "wrappers":
            yield f"{family}-{name}", cls().fit(X, Y), PROBES
    csr = sparse.csr_array(X)
    student = OpenSetSVC(kernel=TStudent(2.0), gamma=2.0)
    few = _encoder(max_categories=3, drop="first")
    searched_step = make_pipeline(MinMaxScaler(), OpenSetSVC())
    for name, estimator, samples, probes in (
        ("svm-csr", student, csr, PROBES),
        ("svm-landmarks", OpenSetSVC(landmarks=20, random_state=0), X, PROBES),
        ("evt-csr", WSVM(), sparse.csr_matrix(X), PROBES),
        ("neighbors-cosine", OSNN(rule="agreement", metric="cosine"), X, PROBES),
        ("neighbors-unit", OpenSetKNN(n_neighbors=3, normalize=True), X, PROBES),
        ("gaussian-relative", OpenSetLDA(relative=True, normalize=True), X, PROBES),
        ("gaussian-cosine", OpenSetCentroids(metric="cosine", per_class=True), X, PROBES),
        ("wrappers-logistic", ThresholdRejector(LogisticRegression()), X, PROBES),
        ("wrappers-svc", ThresholdRejector(SVC()), X, PROBES),
        ("wrappers-sparse", ThresholdRejector(NuSVC(probability=False)), csr, sparse.csr_array(X)),
        ("wrappers-bayes", CascadeRejector(OneClassSVM(gamma=1.0), GaussianNB()), X, PROBES),
        ("wrappers-cascade", CascadeRejector(OneClassSVM(gamma=1.0), SVC()), X, PROBES),
        (
            "neighbours-brute",
            ThresholdRejector(KNeighborsClassifier(algorithm="brute")),
            *(X, PROBES),
        ),
        (
            "neighbours-lof",
            CascadeRejector(
                LocalOutlierFactor(novelty=True, algorithm="brute"), LogisticRegression()
            ),
            *(X, PROBES),
        ),
        ("nested-sgd", ThresholdRejector(SGDClassifier(random_state=0)), X, PROBES),
        ("nested-rest", ThresholdRejector(OneVsRestClassifier(SVC())), X, PROBES),
        (
            "nested-bagging",
            ThresholdRejector(BaggingClassifier(GaussianNB(), 3, random_state=0)),
            *(X, PROBES),
        ),
        (
            "nested-selection",
            make_pipeline(SelectFromModel(LogisticRegression()), StandardScaler(), OSNN()),
            *(X, PROBES),
        ),
        (
            "calibration-own",
            CalibratedRejector(OpenSetSVC(), alpha=0.3, random_state=0),
            *(X, PROBES),
        ),
        (
            "calibration-frozen",
            CalibratedRejector(
                FrozenEstimator(make_pipeline(MinMaxScaler(), OSNN()).fit(X, Y)), alpha=0.3
            ),
            *(X, PROBES),
        ),
        ("search-plain", _searched(), X, PROBES),
        (
            "search-steps",
            _searched(searched_step, opensetsvc__gamma=[1.0, 4.0]),
            *(X, PROBES),
        ),
        ("pipeline-search", openset.make_pipeline(MinMaxScaler(), _searched()), X, PROBES),
        ("pipeline-scaled", make_pipeline(MinMaxScaler(), OpenSetSVC()), X, PROBES),
        (
            "pipeline-pca",
            openset.make_pipeline(StandardScaler(), PCA(3), OpenSetLDA()),
            *(X, PROBES),
        ),
        (
            "pipeline-calibrated",
            openset.make_pipeline(
                StandardScaler(), CalibratedRejector(OpenSetKNN(), alpha=0.3, random_state=0)
            ),
            *(X, PROBES),
        ),
        ("table-mixed", make_pipeline(_mixed(), MaxAbsScaler(), OpenSetSVC()), X, PROBES),
        ("table-few", make_pipeline(few, ThresholdRejector(SVC())), X, PROBES),
        (
            "table-ordinal",
            make_pipeline(
                OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), OSNN()
            ),
            *(X, PROBES),
        ),
        ("table-knn", make_pipeline(KNNImputer(), OpenSetSVC()), X, PROBES),
        (
            "text-counts",
            make_pipeline(CountVectorizer(), TruncatedSVD(3), OpenSetSVC()),
            *(TEXTS, TEXTS),
        ),
        ("text-tfidf", make_pipeline(TfidfVectorizer(), OpenSetSVC()), TEXTS, TEXTS),
        (
            "text-hashed",
            make_pipeline(HashingVectorizer(n_features=64), ThresholdRejector(SVC())),
            *(TEXTS, TEXTS),
        ),
        (
            "text-records",
            make_pipeline(DictVectorizer(), MaxAbsScaler(), OpenSetSVC()),
            *(RECORDS, RECORDS),
        ),
        (
            "decomposition-poly",
            make_pipeline(PolynomialFeatures(2), StandardScaler(), OpenSetSVC()),
            *(X, PROBES),
        ),
        (
            "decomposition-nmf",
            make_pipeline(NMF(2, random_state=0, max_iter=2000), OpenSetSVC()),
            *(X, X),
        ),
        (
            "decomposition-kernel",
            make_pipeline(
                make_union(KernelPCA(2), Nystroem(n_components=3, random_state=0)), OSNN()
            ),
            *(X, PROBES),
        ),
        (
            "decomposition-random",
            make_pipeline(
                QuantileTransformer(n_quantiles=10),
                SparseRandomProjection(3, random_state=0),
                OpenSetSVC(),
            ),
            *(X, PROBES),
        ),
    ):
        labels = COLOURS if isinstance(samples, list) else Y
        yield name, estimator.fit(samples, labels), probes


def main(folder: str) -> None:
    """Save all models, and what they answer."""
    answers = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model, probes in models():
            save_model(model, Path(folder, f"{name}.skops"))
            answers[f"{name}.scores"] = model.decision_function(probes)
            answers[f"{name}.answers"] = model.predict(probes)
    np.savez_compressed(Path(folder, "answers.npz"), **answers)


if __name__ == "__main__":
    main(sys.argv[1])
