"""Fitted models for other programs: ONNX graphs that need neither this library nor Python.

First the acceptance scores of each method, written as a graph in double precision; then what is
around them: scaler, thresholds, labels, metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from . import __version__
from .base import KernelMachineClassifier
from .calibration import CalibratedRejector
from .evt import PISVM, WSVM, ExtremeValueMachine, WeibullTail
from .gaussian import OpenSetCentroids, OpenSetLDA
from .kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent, get_kernel
from .neighbors import OpenSetKNN
from .registry import all_estimators
from .solver import needs_differences
from .svm import OneVsSetMachine
from .utils import answer_labels, layers, needs, unwrap

with needs("openset.export needs onnx", "onnx"):
    import onnx
    from onnx import NodeProto, TensorProto, helper, numpy_helper

__all__ = ["to_onnx"]


class Graph:
    """Nodes and constants of an ONNX graph. Values are referred to by name."""

    def __init__(self):
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def __call__(self, operator: str, *inputs, output: str | None = None, **attributes) -> str:
        """Apply a standard operator with its attributes; return the name of the (first) result."""
        # A string among the inputs is the name of a value; anything else becomes a constant.
        names = []
        for value in inputs:
            if not isinstance(value, str):
                array = np.ascontiguousarray(value)
                # ONNX has strings of no fixed width.
                array = array.astype(object) if array.dtype.kind == "U" else array
                value = f"constant_{len(self.constants)}"
                self.constants.append(numpy_helper.from_array(array, value))
            names.append(value)
        output = output or f"{operator}_{len(self.nodes)}"
        # TopK has a second result, which is not used.
        outputs = [output, f"{output}_index"] if operator == "TopK" else [output]
        self.nodes.append(helper.make_node(operator, names, outputs, **attributes))
        return output


_COLUMNS = np.array([1])

# Norm at which points are clipped, so that squares stay finite: a kernel that the library accepts
# has vanished there, next to any bias.
_FAR = 1e150


def expansion(graph: Graph, x: str, model, vectors, coef: np.ndarray, bias: np.ndarray) -> str:
    """Write f_c(x) = sum_i coef_ci k(gamma_c |x - s_i|^2) + bias_c as an (n, K) value."""
    # The kernel and `gamma_` are those of `model`. The shapes are: x, (n, d); vectors, dense or
    # CSR, (n_sv, d); coef, (K, n_sv); bias, (K,).
    kernel = get_kernel(model.kernel)
    vectors = vectors.toarray() if sparse.issparse(vectors) else vectors
    if not kernel.decaying:
        return graph("Add", graph("MatMul", x, vectors.T @ coef.T), bias)
    scores: Any = bias
    # Classes of one gamma share their kernel values.
    for gamma in np.unique(model.gamma_):
        own = np.where((model.gamma_ == gamma)[:, None], coef, 0.0)
        used = np.flatnonzero(own.any(axis=0))
        if used.size:
            k = _kernel_values(graph, x, vectors[used], kernel, gamma)
            scores = graph("Add", graph("MatMul", k, own[:, used].T), scores)
    if scores is bias:  # no support vector at all
        scores = graph("Add", graph("MatMul", x, np.zeros(coef.shape[::-1])), bias)
    return scores


def _kernel_values(graph, x, vectors, kernel, gamma):
    center, scale = vectors.mean(axis=0), np.sqrt(gamma)
    points = (vectors - center) * scale
    largest = np.sqrt(np.einsum("ij,ij->i", points, points).max())
    z = graph("Mul", graph("Sub", x, center), scale)
    s = _squared_distances(graph, z, points, needs_differences(kernel, np.sqrt(2) * largest))
    return _KERNELS[type(kernel)](graph, s, kernel)


def _squared_distances(graph, z, points, by_differences=False):
    """(n, m) from z, (n, d), to points, (m, d)."""
    norms = np.einsum("ij,ij->i", points, points)
    far = max(_FAR, 1e3 * np.sqrt(norms.max())) / np.sqrt(points.shape[1])
    z = graph("Clip", z, -far, far)
    if by_differences:  # needs the memory of n x m x d numbers, so only where digits are at stake
        difference = graph("Sub", graph("Unsqueeze", z, _COLUMNS), points)
        return graph("ReduceSumSquare", difference, np.array([2]), keepdims=0)
    squares = graph("ReduceSumSquare", z, _COLUMNS, keepdims=1)
    s = graph("Add", graph("Add", graph("MatMul", z, -2 * points.T), norms), squares)
    return graph("Max", s, 0.0)


_KERNELS: dict[type, Callable[[Graph, str, Any], str]] = {
    RBF: lambda graph, s, _: graph("Exp", graph("Neg", s)),
    TStudent: lambda graph, s, kernel: graph(
        "Reciprocal", graph("Add", graph("Pow", s, kernel.degree / 2), 1.0)
    ),
    RationalQuadratic: lambda graph, s, kernel: graph(
        "Div", float(kernel.c), graph("Add", s, float(kernel.c))
    ),
    InverseMultiquadric: lambda graph, s, kernel: graph(
        "Div", float(kernel.c), graph("Sqrt", graph("Add", s, float(kernel.c) ** 2))
    ),
}


def probability(graph: Graph, tail: WeibullTail, s: str) -> str:
    """Probability of scores s, (n, m), under m Weibull models."""
    z = graph("Add", graph("Mul", graph("Sub", s, tail.location), tail.sign * 1.0), tail.translate)
    power = graph("Pow", graph("Div", graph("Max", z, 0.0), tail.scale), tail.shape)
    p = graph("Exp", graph("Neg", power))
    if not tail.survivor:
        p = graph("Sub", 1.0, p)
    step = np.isinf(tail.shape)
    if np.any(step):
        side = graph("LessOrEqual" if tail.survivor else "GreaterOrEqual", z, tail.scale)
        p = graph("Where", step, graph("Where", side, 1.0, 0.0), p)
    return p


def _machines(graph, x, model):
    return expansion(graph, x, model, model.support_vectors_, model.dual_coef_, model.intercept_)


def _slabs(graph, x, model):
    near, width = model.near_, model.far_ - model.near_
    f = _machines(graph, x, model)
    inside = graph("Min", graph("Sub", f, near), graph("Sub", model.far_, f))
    inside = graph("Div", inside, np.where(width > 0, width, 1.0))
    return graph("Where", width > 0, inside, -1.0)


def _pi_svm(graph, x, model):
    p = graph("Mul", probability(graph, model.weibull_, _machines(graph, x, model)), model.prior_)
    return graph("Sub", p, float(model.threshold))


def _w_svm(graph, x, model):
    f = _machines(graph, x, model)
    included = probability(graph, model.inclusion_weibull_, f)
    product = graph("Mul", included, probability(graph, model.exclusion_weibull_, f))
    cap = model.cap_support_vectors_, model.cap_dual_coef_, model.cap_intercept_
    o = expansion(graph, x, model, *cap)
    near = graph("Greater", probability(graph, model.cap_weibull_, o), float(model.delta_tau))
    return graph("Where", near, graph("Sub", product, float(model.delta_R)), -1.0)


def _evm(graph, x, model):
    distances = _distances(graph, x, model.extreme_vectors_, model.metric)
    p = probability(graph, model.weibull_, distances)
    starts = np.r_[0, np.cumsum(model.n_extreme_)]
    mean = _by_class(graph, "ReduceMean", p, starts, model.n_fused, largest=1)
    return graph("Sub", mean, float(model.threshold))


def _by_class(graph, reduce, values, starts, n, largest):
    """Reduce the n largest or smallest values of each class, whose columns begin at `starts`."""
    columns = []
    for start, stop in pairwise(starts):
        own = graph("Slice", values, np.array([start]), np.array([stop]), _COLUMNS)
        k = np.array([min(n, stop - start)])
        some = graph("TopK", own, k, sorted=0, largest=largest)
        columns.append(graph(reduce, some, _COLUMNS, keepdims=1))
    return graph("Concat", *columns, axis=1)


def _unit_rows(graph, x):
    # By the largest feature first, so that no square over- or underflows; rows of zeros stay.
    largest = graph("ReduceMax", graph("Abs", x), _COLUMNS, keepdims=1)
    x = graph("Div", x, graph("Where", graph("Greater", largest, 0.0), largest, 1.0))
    norm = graph("ReduceL2", x, _COLUMNS, keepdims=1)
    return graph("Div", x, graph("Where", graph("Greater", norm, 0.0), norm, 1.0))


def _centroids(graph, x, model):
    return graph("Sub", model.radius_, _distances(graph, x, model.means_, model.metric))


def _distances(graph, x, vectors, metric="euclidean"):
    if metric == "cosine":
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        directions = vectors / np.where(norms > 0, norms, 1.0)
        x = _unit_rows(graph, x)
        return graph("Max", graph("Sub", 1.0, graph("MatMul", x, directions.T)), 0.0)
    center = vectors.mean(axis=0)
    squares = _squared_distances(graph, graph("Sub", x, center), vectors - center)
    return graph("Sqrt", squares)


def _lda(graph, x, model):
    x = _unit_rows(graph, x) if model.normalize else x
    mean, basis, centers, factor = model.projection()
    far = _FAR / np.sqrt(len(factor))
    z = graph("Clip", graph("MatMul", graph("Sub", x, mean), basis), -far, far)
    squares = graph("MatMul", graph("Mul", z, z), factor[:, None])
    norms = np.einsum("ij,ij->i", centers, centers)
    distances = graph("Add", graph("Add", graph("MatMul", z, -2 * centers.T), norms), squares)
    if not model.relative:
        distances = graph("Max", distances, 0.0)
    return graph("Sub", model.radius_, distances)


def _knn(graph, x, model):
    x = _unit_rows(graph, x) if model.normalize else x
    distances = _distances(graph, x, model.kept_samples()[0])
    starts, k = model.class_starts(), model.n_neighbors
    nearest = _by_class(graph, "ReduceMax", distances, starts, k, largest=0)
    return graph("Sub", model.radius_, nearest)


ScoreWriter = Callable[[Graph, str, Any], str]

# Methods whose scores are not kernel expansions.
_WRITERS: dict[type, ScoreWriter] = {
    ExtremeValueMachine: _evm,
    OneVsSetMachine: _slabs,
    OpenSetCentroids: _centroids,
    OpenSetKNN: _knn,
    OpenSetLDA: _lda,
    PISVM: _pi_svm,
    WSVM: _w_svm,
}


def score_writer(kind: type) -> ScoreWriter | None:
    """Return the function that writes the scores of a method as a graph; None if there is none."""
    # A kernel machine whose scores are its decision values needs no function of its own. Only
    # registered classes are exported: a subclass may decide otherwise.
    if kind in _WRITERS or not issubclass(kind, KernelMachineClassifier):
        return _WRITERS.get(kind)
    scores = [getattr(kind, name) for name in ("decision_function", "raw_scores", "decide")]
    plain = [getattr(KernelMachineClassifier, function.__name__) for function in scores]
    registered = (kind.__name__, kind) in all_estimators()
    return _machines if scores == plain and registered else None


def check_kernel(model) -> None:
    """Raise ValueError if the kernel is of the user's own making."""
    kernel = getattr(model, "kernel", "rbf")
    if not isinstance(kernel, str) and type(kernel) not in {*_KERNELS, Linear}:
        names = sorted(kind.__name__ for kind in _KERNELS)
        raise ValueError(
            f"kernel={kernel!r} is not one that ONNX export can write. Use one of {names} or the "
            "linear kernel."
        )


# Old enough for every runtime in use, new enough for double precision in all operators.
_OPSET = 18
_IR_VERSION = 8
# The standard's own second set of operators; texts need one of them.
_ML = "ai.onnx.ml"


def to_onnx(
    model: BaseEstimator, *, feature_names: Sequence[str] | None = None, dtype: str = "float64"
) -> onnx.ModelProto:
    """Write a fitted model as an ONNX graph of standard operators.

    The graph works in double precision. Its input is ``X``, of shape (n, d): the features before
    any scaling, in the order of the training set. Its outputs are ``label``, (n,): the class or the
    unknown label, int64, double or string as the classes are; ``scores``, (n, K): the acceptance
    scores, in the order of ``classes_``; and ``known_score``, (n,): the largest of them.

    Parameters
    ----------
    model : estimator
        A fitted estimator of the SVM family, PI-SVM, W-SVM, EVM, LDA, centroids or k-NN, or a
        Pipeline, a search or a :class:`openset.CalibratedRejector` of one. A Pipeline may fill gaps
        by SimpleImputer, scale by MinMaxScaler, StandardScaler, MaxAbsScaler, RobustScaler or
        Normalizer, and project by PCA; these steps may be frozen, or be in a Pipeline of their own.
        Of a model that begins with a :class:`openset.tables.TableEncoder`, ``X`` holds the columns
        of numbers, and a second input ``categories``, string of shape (n, q), those of categories.
    feature_names : sequence of str, default=None
        Names of the d features, in their order; None takes those that the model was fitted with,
        if any.
    dtype : {"float64", "float32"}, default="float64"
        Type of ``X``. float32 is widened first: the answers are those for ``X.astype(float)``.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(result, path)`` writes it to a file. Its metadata hold, as JSON, ``estimator``,
        ``classes``, ``unknown_label`` and, where they are known, ``features`` and ``categories``:
        the columns of that input, each with its values; another value is none of them.

    Notes
    -----
    The graph holds the kernel values of all n samples at once: n times the number of support
    vectors. Run large data in batches. It does not check its input; a sample with a feature that
    is NaN, and is not filled, comes out as unknown.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset import OpenSetSVC
    >>> from openset.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = to_onnx(OpenSetSVC().fit(X, y))
    >>> [output.name for output in model.graph.output]
    ['label', 'scores', 'known_score']
    >>> import onnxruntime
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())
    >>> session.run(["label"], {"X": [[5.0, 3.4, 1.5, 0.2], [50.0, 50.0, 50.0, 50.0]]})[0].tolist()
    [0, -1]
    """
    check_is_fitted(model)
    if dtype not in _DTYPES:
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r} instead.")
    graph, (n_features, names, categories) = Graph(), _inputs(model)
    widened = dtype == "float32" and n_features
    x = graph("Cast", "X", to=TensorProto.DOUBLE) if widened else "X"
    scores = graph("Sub", *_scores(graph, model, x), output="scores")
    decider = unwrap(model)
    labels = _labels(decider)
    known_score = graph("ReduceMax", scores, np.array([1]), keepdims=0, output="known_score")
    best = graph("ArgMax", scores, axis=1, keepdims=0)  # the first class on ties
    accepted = graph("GreaterOrEqual", known_score, 0.0)
    answer = graph("Where", accepted, best, np.array(len(decider.classes_)))
    graph("Gather", labels, answer, output="label")
    names = names if feature_names is None else [*map(str, feature_names)]
    return _model(graph, decider, labels, (n_features, names, categories), _DTYPES[dtype])


def _inputs(model) -> tuple[int, list[str] | None, dict[str, list[str]]]:
    """How many features a graph takes, their names, where they have names, and columns of texts."""
    *_, (decider, heads) = layers(model, through=(CalibratedRejector,))
    steps = [step for head in heads for _, step in head.steps]
    first = next((step for step in steps if hasattr(step, "n_features_in_")), decider)
    if _is_table_encoder(first):
        texts = first.categories_
        numbers = [name for name in first.feature_names_in_ if name not in texts]
        return len(numbers), numbers, texts
    names = getattr(model, "feature_names_in_", getattr(first, "feature_names_in_", None))
    return first.n_features_in_, None if names is None else [*map(str, names)], {}


_DTYPES = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}


def _scores(graph, estimator, x):
    """Scores of the estimator that decides, and the thresholds, (K,), of a calibration."""
    thresholds = 0.0
    for layer, heads in layers(estimator, through=(CalibratedRejector,)):
        if isinstance(layer, CalibratedRejector):
            if layer.categories_ is not None:
                raise ValueError(
                    "A model with thresholds per category cannot be exported to ONNX. Calibrate "
                    "and export one model per category."
                )
            thresholds = thresholds + layer.thresholds_
        if write := score_writer(type(layer)):
            check_kernel(layer)
            for _, step in (step for head in heads for step in head.steps):
                x = _transform(graph, step, x)
            return write(graph, x, layer), thresholds
    names = [name for name, kind in all_estimators() if score_writer(kind)]
    raise ValueError(
        f"{type(layer).__name__} cannot be exported to ONNX. What can: {', '.join(names)}, and a "
        "Pipeline, a search or a CalibratedRejector of one of them."
    )


def _transform(graph, step, x):
    if step is None or step == "passthrough":
        return x
    if isinstance(step, FrozenEstimator):
        return _transform(graph, step.estimator, x)
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            x = _transform(graph, part, x)
        return x
    if _is_table_encoder(step):
        return _encode(graph, step, x)
    if type(step) not in _STEPS:
        raise ValueError(
            f"{type(step).__name__} cannot be exported to ONNX. Steps of a Pipeline that can: "
            f"{', '.join(sorted(kind.__name__ for kind in _STEPS))}."
        )
    return _STEPS[type(step)](graph, step, x)


def _is_table_encoder(step):
    """Whether this is a TableEncoder; its module, which needs pyarrow, is not imported."""
    return type(step).__module__.startswith("openset.tables")


def _encode(graph, encoder, x):
    """The numbers, then one 0/1 feature per value of each category."""
    features = [x] if len(encoder.categories_) < encoder.n_features_in_ else []
    for j, values in enumerate(encoder.categories_.values()):
        cells = graph("Gather", "categories", np.array([j]), axis=1)
        places = {"keys_strings": values, "values_int64s": range(len(values)), "default_int64": -1}
        code = graph("LabelEncoder", cells, domain=_ML, **places)
        same = graph("Equal", code, np.arange(len(values)))
        features.append(graph("Cast", same, to=TensorProto.DOUBLE))
    return graph("Concat", *features, axis=1) if encoder.categories_ else x


def _impute(graph, imputer, x):
    fills_nan = imputer.missing_values != imputer.missing_values
    if not fills_nan or imputer.add_indicator:
        raise ValueError(
            "SimpleImputer can be exported to ONNX with missing_values=nan and "
            f"add_indicator=False; got {imputer!r}."
        )
    fill = imputer.statistics_.astype(np.float64)
    kept = np.flatnonzero(~np.isnan(fill))  # a feature without values is gone
    x = graph("Gather", x, kept, axis=1)
    return graph("Where", graph("IsNaN", x), fill[kept], x)


def _min_max(graph, scaler, x):
    x = graph("Add", _scale(graph, "Mul", x, scaler.scale_), scaler.min_)
    return graph("Clip", x, *map(float, scaler.feature_range)) if scaler.clip else x


def _shift_and_divide(graph, x, shift, divisor):
    x = x if shift is None else graph("Sub", x, shift)
    return x if divisor is None else _scale(graph, "Div", x, divisor)


def _scale(graph, operator, x, factors):
    """Multiply or divide x, (n, d), by (d,) factors."""
    # onnxruntime would join a single factor with a matrix product behind it, rounded to float32.
    x, largest = graph(operator, x, factors), np.finfo(np.float64).max
    return graph("Clip", x, -largest, largest) if len(factors) == 1 else x


def _max_abs(graph, scaler, x):
    x = _scale(graph, "Div", x, scaler.scale_)
    return graph("Clip", x, -1.0, 1.0) if getattr(scaler, "clip", False) else x


def _normalize(graph, scaler, x):
    """As scikit-learn does: rows of almost zero length stay as they are."""
    reduce = {"l1": "ReduceL1", "l2": "ReduceL2", "max": "ReduceMax"}[scaler.norm]
    length = graph(reduce, graph("Abs", x), _COLUMNS, keepdims=1)
    tiny = graph("Less", length, 10 * np.finfo(np.float64).eps)
    return graph("Div", x, graph("Where", tiny, 1.0, length))


def _project(graph, pca, x):
    basis = pca.components_.T
    x = graph("Sub", graph("MatMul", x, basis), pca.mean_ @ basis)
    scale = np.maximum(np.sqrt(pca.explained_variance_), np.finfo(np.float64).eps)
    return _scale(graph, "Div", x, scale) if pca.whiten else x


_STEPS: dict[type, Callable[[Graph, BaseEstimator, str], str]] = {
    MaxAbsScaler: _max_abs,
    MinMaxScaler: _min_max,
    Normalizer: _normalize,
    PCA: _project,
    RobustScaler: lambda graph, scaler, x: _shift_and_divide(
        graph,
        x,
        scaler.center_ if scaler.with_centering else None,
        scaler.scale_ if scaler.with_scaling else None,
    ),
    SimpleImputer: _impute,
    StandardScaler: lambda graph, scaler, x: _shift_and_divide(
        graph, x, scaler.mean_ if scaler.with_mean else None, scaler.scale_
    ),
}


def _labels(decider):
    """Classes and the unknown label behind them, in a type that ONNX has."""
    answers = answer_labels(decider.classes_, decider.unknown_label_)
    if answers.dtype.kind == "O" and not isinstance(answers[0], str):
        raise ValueError(
            f"the classes {decider.classes_.tolist()!r} and the unknown label "
            f"{decider.unknown_label_!r} do not fit into int64, the integers of ONNX. Use strings."
        )
    return answers.astype({"i": np.int64, "f": np.float64}.get(answers.dtype.kind, object))


def _model(graph, decider, labels, inputs, dtype):
    n_features, names, categories = inputs
    types = {"i": TensorProto.INT64, "f": TensorProto.DOUBLE, "O": TensorProto.STRING}
    describe = helper.make_tensor_value_info
    inputs = [describe("X", dtype, ["n", n_features])] if n_features else []
    opsets = [helper.make_opsetid("", _OPSET)]
    metadata = {
        "estimator": type(decider).__name__,
        "classes": labels[:-1].tolist(),
        "unknown_label": labels[-1:].tolist()[0],
    }
    if names is not None:
        if len(names) != n_features:
            raise ValueError(
                f"feature_names has {len(names)} names for the {n_features} features of the model."
            )
        metadata["features"] = names
    if categories:
        inputs.append(describe("categories", TensorProto.STRING, ["n", len(categories)]))
        opsets.append(helper.make_opsetid(_ML, 2))
        metadata["categories"] = categories
    outputs = [
        describe("label", types[labels.dtype.kind], ["n"]),
        describe("scores", TensorProto.DOUBLE, ["n", len(decider.classes_)]),
        describe("known_score", TensorProto.DOUBLE, ["n"]),
    ]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "openset", inputs, outputs, graph.constants),
        opset_imports=opsets,
        ir_version=_IR_VERSION,
        producer_name="openset",
        producer_version=__version__,
    )
    helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.checker.check_model(model, full_check=True)
    return model
