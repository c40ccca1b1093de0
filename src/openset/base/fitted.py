"""Checks that fitted attributes fit together, for models that come from a file."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

# dtype kinds of the labels that a classifier may have learnt.
_LABELS = "biufUO"


# Estimators of scikit-learn that a model file may hold. Their prediction was reviewed: either NumPy
# does the work and checks, or `persistence` checks what the compiled code relies on.
ESTIMATORS = frozenset(
    # transformers
    """
    Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer LabelBinarizer LabelEncoder
    MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures
    PowerTransformer QuantileTransformer RobustScaler StandardScaler TargetEncoder
    KNNImputer MissingIndicator SimpleImputer
    CountVectorizer DictVectorizer FeatureHasher HashingVectorizer TfidfTransformer TfidfVectorizer
    RFE RFECV SelectFromModel SequentialFeatureSelector VarianceThreshold
    DictionaryLearning FactorAnalysis FastICA IncrementalPCA KernelPCA LatentDirichletAllocation
    MiniBatchDictionaryLearning MiniBatchNMF MiniBatchSparsePCA NMF PCA SparsePCA
    TruncatedSVD CCA PLSCanonical PLSRegression PLSSVD
    AdditiveChi2Sampler Nystroem PolynomialCountSketch RBFSampler SkewedChi2Sampler
    GaussianRandomProjection SparseRandomProjection
    KMeans KNeighborsTransformer MiniBatchKMeans NeighborhoodComponentsAnalysis
    ColumnTransformer FeatureUnion FrozenEstimator Pipeline
    """
    # classifiers, detectors, and what selects features
    """
    BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB
    LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis
    LinearSVC LinearSVR NuSVC NuSVR OneClassSVM SVC SVR
    ElasticNet ElasticNetCV Lasso LassoCV LinearRegression LogisticRegression LogisticRegressionCV
    PassiveAggressiveClassifier Perceptron Ridge RidgeClassifier RidgeClassifierCV SGDClassifier
    SGDOneClassSVM
    DummyClassifier
    KNeighborsClassifier LocalOutlierFactor NearestCentroid NearestNeighbors
    EllipticEnvelope EmpiricalCovariance LedoitWolf MinCovDet OAS ShrunkCovariance
    BaggingClassifier OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier
    GridSearchCV RandomizedSearchCV
    """.split()
)


def require(condition: Any, message: str) -> None:
    """Raise ValueError unless the condition holds."""
    if not condition:
        raise ValueError(message)


# What the numbers of an array may be: name and dtypes, which of them are valid, and the complaint.
_INTEGERS = "int", (np.int32, np.int64)
_FLOATS = "float64", (np.float64,)
_KINDS: dict[str, tuple[str, tuple, Callable, str]] = {
    "bool": ("bool", (np.bool_,), np.ones_like, ""),
    "int": (*_INTEGERS, lambda a: a >= 0, "entries below 0"),
    "row": (*_INTEGERS, lambda a: a >= -1, "entries below -1"),  # -1: no training sample
    "float": (*_FLOATS, np.isfinite, "{} entries that are not finite"),
    "dense": (*_FLOATS, np.isfinite, "{} entries that are not finite"),
    "inf": (*_FLOATS, lambda a: ~np.isnan(a), "{} entries that are not finite"),
}


def check_array(name: str, value: Any, layout: str, sizes: dict[str, int]) -> None:
    """Raise ValueError unless an array has the dtype, the shape and the range of its layout."""
    # A layout names the axes and, optionally, what the numbers are: `"K n"` is a float64 array of
    # shape (K, n) with finite numbers; `"K inf"` may hold inf, but no NaN; `"n int"` holds integers
    # >= 0, `"n row"` also -1; `"K bool"` is boolean. `"n d"` may be a CSR matrix, unless it is
    # `"n d dense"`. Axes that are not in `sizes` are added to it.
    *axes, kind = layout.split()
    if kind not in _KINDS:
        axes, kind = [*axes, kind], "float"
    if sparse.issparse(value) and kind == "float" and len(axes) == 2:
        require(value.format == "csr", f"{name} is a sparse matrix, but not CSR")
        check_compressed(name, value)
        shape, numbers = value.shape, value.data
    else:
        require(isinstance(value, np.ndarray), f"{name} is not an array")
        shape, numbers = value.shape, value
    require(len(shape) == len(axes), f"{name} has shape {shape}, not ({', '.join(axes)})")
    for axis, size in zip(axes, shape, strict=True):
        expected = sizes.setdefault(axis, size)
        require(size == expected, f"{name} has {size} instead of {expected} entries along {axis}")
    wanted, dtypes, fine, complaint = _KINDS[kind]
    require(numbers.dtype in dtypes, f"{name} has dtype {numbers.dtype}, not {wanted}")
    n_bad = np.sum(~fine(numbers))
    require(n_bad == 0, f"{name} has {complaint.format(n_bad)}")


def check_compressed(name: str, matrix: Any) -> None:
    """Raise ValueError if the pointers or indices of a CSR or CSC matrix are out of range."""
    arrays = matrix.indptr, matrix.indices, matrix.data
    require(all(isinstance(a, np.ndarray) and a.ndim == 1 for a in arrays), f"{name} is damaged")
    kinds = {matrix.indptr.dtype, matrix.indices.dtype}
    require(kinds <= {np.dtype(np.int32), np.dtype(np.int64)}, f"{name} has indices of {kinds}")
    require(matrix.data.dtype.kind in "biufc", f"{name} has data of {matrix.data.dtype}")
    n, d = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
    pointers, indices = matrix.indptr, matrix.indices
    require(
        len(pointers) == n + 1
        and pointers[0] == 0
        and np.all(pointers[:-1] <= pointers[1:])
        and pointers[-1] <= len(indices)
        and len(indices) == len(matrix.data)
        and indices.min(initial=0) >= 0
        and indices.max(initial=-1) < d,
        f"{name} has pointers or indices out of range",
    )


def check_fitted_labels(model: Any) -> dict[str, int]:
    """Check ``classes_``, ``unknown_label_`` and the features; return the sizes K and d."""
    classes = model.classes_
    require(
        isinstance(classes, np.ndarray)
        and classes.ndim == 1
        and len(classes) > 0
        and classes.dtype.kind in _LABELS,
        "classes_ is not an array of labels",
    )
    labels = classes.tolist()
    # Labels of strange types may not be comparable: any error means that they are refused.
    require(all(a < b for a, b in pairwise(labels)), "classes_ is not sorted")
    require(all(label == label for label in labels), "classes_ has a label that is NaN")
    unknown = model.unknown_label_
    require(
        isinstance(unknown, str | int | float | bool | np.generic), "unknown_label_ is not a label"
    )
    require(unknown == unknown and unknown not in labels, "unknown_label_ is one of classes_")
    return {"K": len(labels), **_check_features(model)}


def _check_features(model):
    """Check the number and the names of the features, if any; return the size d."""
    sizes = {}
    if "n_features_in_" in vars(model):
        d = sizes["d"] = model.n_features_in_
        require(isinstance(d, int) and d > 0, f"n_features_in_ is {d!r}")
    if "feature_names_in_" in vars(model):
        names = model.feature_names_in_
        is_vector = isinstance(names, np.ndarray) and names.shape == (sizes.get("d"),)
        require(is_vector, "feature_names_in_ does not fit n_features_in_")
        require(all(isinstance(n, str) for n in names), "feature_names_in_ has no names")
    return sizes


def check_attributes(model: Any, layouts: Mapping[str, str]) -> dict[str, int]:
    """Check labels, parameters and all declared attributes; return the sizes of the axes."""
    # An attribute with an empty layout is only required to be there; `"K models"` is one of the
    # stored types of the method that holds K models and checks itself. Undeclared ones must not
    # replace what the class defines, and must not hold NaN.
    sizes = check_fitted_labels(model)
    parameters = set(model.get_params(deep=False))
    common = {"classes_", "unknown_label_", "n_features_in_", "feature_names_in_"}
    present = vars(model).keys() - {"_sklearn_output_config", "_prepared"}
    # A class attribute that an instance repeats, such as the kernel of a linear method.
    repeated = {
        name for name in present if _same(getattr(type(model), name, None), vars(model)[name])
    }
    for name in sorted(present - parameters - common - set(layouts) - repeated):
        value = vars(model)[name]
        require(not hasattr(type(model), name), f"{name} is not an attribute of an instance")
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            require(not np.isnan(value).any(), f"{name} has entries that are NaN")
    missing = sorted(set(layouts) - present)
    require(not missing, f"{', '.join(missing)} is missing")
    for name, layout in layouts.items():
        value, (axis, _, kind) = getattr(model, name), layout.partition(" ")
        if kind == "models":
            stored = type(model).stored_types
            require(isinstance(value, stored), f"{name} is no {stored[0].__name__}")
            value.check(name, sizes[axis])
        elif layout:
            check_array(name, value, layout, sizes)
    return sizes


def _same(a, b):
    return isinstance(a, str | float) and type(a) is type(b) and a == b


def warn_if_not_stored(model: BaseEstimator) -> None:
    """Warn of estimators inside that no model file may hold."""
    inside = [v for v in model.get_params().values() if isinstance(v, BaseEstimator)]
    foreign = set()
    for cls in map(type, inside):
        package = cls.__module__.partition(".")[0]
        if package != "openset" and not (package == "sklearn" and cls.__name__ in ESTIMATORS):
            foreign.add(cls.__name__)
    _warn_not_stored(foreign, JOBLIB)


def warn_if_tree(fitted: BaseEstimator) -> None:
    """Warn of neighbours in a tree, which no model file may hold; the data decide about that."""
    parts = (fitted, *fitted.get_params().values())
    trees = (getattr(part, "_tree", None) for part in parts if isinstance(part, BaseEstimator))
    names = {type(tree).__name__ for tree in trees if tree is not None}
    _warn_not_stored(names, f"Pass algorithm='brute', which can be saved. {JOBLIB}")


def _warn_not_stored(names, remedy):
    if names:
        warnings.warn(
            f"save_model will not save this model: the arrays of {', '.join(sorted(names))} cannot "
            f"be checked when they are loaded. {remedy}",
            stacklevel=6,  # below fit_estimator, fit and the function scikit-learn puts around it
        )


# What to do with models that are no model files.
JOBLIB = (
    "To keep it, use joblib.dump and joblib.load, which runs any code that is in its file: load "
    "only files that you wrote, with the same version of scikit-learn."
)
