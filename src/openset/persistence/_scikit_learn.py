"""Which estimators of scikit-learn a model file may hold, and what their compiled code relies on.

That code does not look at the shapes and indices it is given: a damaged array makes it read or
write out of bounds. Estimators are listed here once their prediction was reviewed: either NumPy
does the work, which checks, or a check below covers what the compiled code relies on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from ..base.fitted import check_array, require

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

# Modules of the losses that linear models keep, which are objects with a few numbers.
LOSSES = frozenset({"sklearn.linear_model._sgd_fast", "sklearn._loss._loss"})


def check_estimator(part: BaseEstimator) -> None:
    """Raise ValueError if compiled code could not rely on a fitted estimator of scikit-learn."""
    parameters = part.get_params(deep=False)
    for name in set(vars(part)) - set(parameters):
        found = hasattr(type(part), name) and vars(part)[name] is not getattr(type(part), name)
        require(not found, f"{name} is not an attribute of an instance")
    if hasattr(part, "_parameter_constraints"):  # a FeatureUnion has none
        part._validate_params()
    if "n_features_in_" in vars(part):
        d = part.n_features_in_
        require(type(d) is int and d > 0, f"n_features_in_ is {d!r}")
    for cls in type(part).__mro__:
        if cls.__name__ in _CHECKS:
            _CHECKS[cls.__name__](part, {})


def is_fitted(part: BaseEstimator) -> bool:
    """Whether there is an attribute that fit sets: a part of them might be missing."""
    return any(name.endswith("_") and not name.startswith("__") for name in vars(part))


def _check_libsvm(part, sizes):
    """libsvm reads its arrays without looking at their lengths."""
    if not is_fitted(part):
        return
    require(part.kernel != "precomputed", "kernel='precomputed' is not supported in model files")
    # A detector and a regressor count as two classes, the second without support vectors.
    n_classes = len(part.classes_) if is_classifier(part) else 2
    n_pairs, n_rows = n_classes * (n_classes - 1) // 2, n_classes - 1
    sizes |= {"d": part.n_features_in_, "rows": n_rows, "pairs": n_pairs, "classes": n_classes}
    layouts = {"support_vectors_": "n d", "_dual_coef_": "rows n", "dual_coef_": "rows n"}
    layouts |= {"_intercept_": "pairs", "intercept_": "pairs", "support_": "n int"}
    for name, layout in layouts.items():
        check_array(name, getattr(part, name), layout, sizes)
    counts = part._n_support
    check_array("_n_support", counts, "classes int", sizes)
    own = counts if is_classifier(part) else counts[:1]
    # In Python's integers: those of 32 bits wrap around.
    require(sum(own.tolist()) == sizes["n"], "_n_support does not add up to the support vectors")
    for name in ("_probA", "_probB"):
        values = getattr(part, name)
        check_array(name, values, "a", {})
        require(len(values) in (0, n_pairs), f"{name} has {len(values)} entries")
    require(part._sparse is False or part._sparse is True, "_sparse is not a bool")
    for name in ("support_vectors_", "_dual_coef_"):
        is_sparse = not isinstance(getattr(part, name), np.ndarray)
        require(part._sparse == is_sparse, f"_sparse does not fit {name}")
    if part._sparse:  # read as if it was dense
        n_stored = len(part._dual_coef_.data)
        require(n_stored == n_rows * sizes["n"], "_dual_coef_ does not store all coefficients")
    require(np.isfinite(part._gamma) and part._gamma >= 0, "_gamma is not finite")


def _check_neighbors(part, sizes):
    """Neighbours are found among n_samples_fit_ rows; their classes index an array of counts."""
    if not is_fitted(part):
        return
    require(part._fit_method == "brute" and part._tree is None, "only brute force is supported")
    sizes["d"] = part.n_features_in_
    X = part._fit_X
    if isinstance(X, np.ndarray):
        X = X.astype(np.float64)  # float32 is fine, too
    check_array("_fit_X", X, "n d", sizes)
    fits = type(part.n_samples_fit_) is int and part.n_samples_fit_ == sizes["n"]
    require(fits, "n_samples_fit_ is not the number of rows of _fit_X")
    if is_classifier(part):
        check_array("_y", part._y, "n int", sizes)
        fits = isinstance(part.classes_, np.ndarray) and part.classes_.ndim == 1
        require(fits and np.all(part._y < len(part.classes_)), "_y names a class that is not there")
        require(part.outputs_2d_ is False, "outputs_2d_ is not False")


def _check_one_hot(part, sizes):
    """A value becomes the index of a column: it must be one of those that are counted."""
    if not is_fitted(part):
        return
    outs, drop = part._n_features_outs, part._drop_idx_after_grouping
    d = part.n_features_in_
    fits = isinstance(part.categories_, list) and len(part.categories_) == d == len(outs)
    require(fits, "categories_ does not fit n_features_in_")
    require(type(part._infrequent_enabled) is bool, "_infrequent_enabled is not a bool")
    for i, categories in enumerate(part.categories_):
        _check_categories(categories)
        n, mapping = len(categories), None
        if part._infrequent_enabled:
            mapping = part._default_to_infrequent_mappings[i]
        if mapping is not None:
            check_array("_default_to_infrequent_mappings", mapping, "m int", {"m": n})
            n = int(mapping.max()) + 1
        dropped = None if drop is None else drop[i]
        if dropped is not None:
            dropped = int(dropped)
            require(0 <= dropped < n, "_drop_idx_after_grouping is out of range")
            n -= 1
        require(int(outs[i]) == n, f"_n_features_outs is {outs[i]} where {n} columns follow")


def _check_categories(categories):
    """Values are looked up by bisection, which needs them sorted, or else by a table."""
    require(isinstance(categories, np.ndarray) and categories.ndim == 1, "categories_ is no array")
    require(len(categories) > 0, "categories_ is empty")
    values = categories
    if values.dtype.kind == "f":
        values = values[~np.isnan(values)]
        require(len(categories) - len(values) <= 1, "categories_ holds NaN twice")
        require(np.isnan(categories[len(values) :]).all(), "NaN is not last in categories_")
    if values.dtype.kind == "O":
        fits = len({(type(v), v) if v == v else None for v in values}) == len(values)
    else:
        fits = np.all(values[:-1] < values[1:])
    require(fits, "categories_ is not sorted, or holds a value twice")


def _check_ordinal(part, sizes):
    if is_fitted(part):
        fits = len(part.categories_) == part.n_features_in_
        require(fits, "categories_ does not fit n_features_in_")
        for categories in part.categories_:
            require(isinstance(categories, np.ndarray) and categories.ndim == 1, "categories_")


def _check_target_encoder(part, sizes):
    """Columns without an encoding would show memory that nothing was written to."""
    if is_fitted(part):
        _check_ordinal(part, sizes)
        n = part.n_features_in_
        if part.target_type_ == "multiclass":
            n *= len(part.classes_)
        require(len(part.encodings_) == n, f"encodings_ has {len(part.encodings_)} parts, not {n}")


def _check_vocabulary(part, sizes):
    """A word becomes the index of a column."""
    if "vocabulary_" in vars(part):
        words = part.vocabulary_
        require(isinstance(words, dict), "vocabulary_ is not a dict")
        require(all(type(k) is int for k in words.values()), "vocabulary_ has an odd index")
        fits = sorted(words.values()) == list(range(len(words)))
        require(fits, "vocabulary_ has indices that are out of range or occur twice")


def _check_polynomial(part, sizes):
    """Columns that no product fills would show memory that nothing was written to."""
    if is_fitted(part):
        d = part.n_features_in_
        require(d <= 10**6, f"n_features_in_ is {d}")
        fresh = type(part)(**part.get_params()).fit(np.zeros((1, d)))
        for name in ("_min_degree", "_max_degree", "_n_out_full", "n_output_features_"):
            fits = getattr(part, name) == getattr(fresh, name)
            require(fits, f"{name} is {getattr(part, name)}, not {getattr(fresh, name)}")


def _check_components(part, sizes):
    """Coordinate descent runs over `_n_components` rows of components_."""
    if is_fitted(part):
        sizes["d"] = part.n_features_in_
        check_array("components_", np.asarray(part.components_, np.float64), "k d", sizes)
        n = getattr(part, "_n_components", sizes["k"])
        require(type(n) is int and n == sizes["k"], f"_n_components is {n!r}")


def _check_centers(part, sizes):
    if is_fitted(part):
        sizes["d"] = part.n_features_in_
        require(part.cluster_centers_.dtype in (np.float32, np.float64), "cluster_centers_")
        check_array("cluster_centers_", part.cluster_centers_.astype(np.float64), "k d", sizes)
        threads = part._n_threads
        require(type(threads) is int and 0 < threads <= 2**12, f"_n_threads is {threads!r}")


def _check_function(part, sizes):
    for function in (part.func, part.inverse_func):
        fits = function is None or isinstance(function, np.ufunc)
        require(fits, f"{function!r} is not a ufunc, such as numpy.log1p")
    # With where= a ufunc leaves memory as it was.
    require(not part.kw_args and not part.inv_kw_args, "kw_args is not empty")


# By the name of the class or of one that it inherits from.
_CHECKS: dict[str, Callable[[Any, dict], None]] = {
    "BaseLibSVM": _check_libsvm,
    "NeighborsBase": _check_neighbors,
    "OneHotEncoder": _check_one_hot,
    "OrdinalEncoder": _check_ordinal,
    "TargetEncoder": _check_target_encoder,
    "CountVectorizer": _check_vocabulary,
    "DictVectorizer": _check_vocabulary,
    "PolynomialFeatures": _check_polynomial,
    "_BaseNMF": _check_components,
    "LatentDirichletAllocation": _check_components,
    "_BaseSparseCoding": _check_components,
    "_BaseKMeans": _check_centers,
    "FunctionTransformer": _check_function,
}
