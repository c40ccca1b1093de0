"""From a fitted estimator, scaler and search included, to an ONNX model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..calibration import CalibratedRejector
from ..registry import all_estimators
from ..utils import answer_labels, layers, unwrap
from ._scores import Graph, check_kernel, score_writer

# Old enough for every runtime in use, new enough for double precision in all operators.
_OPSET = 18
_IR_VERSION = 8


def to_onnx(model: BaseEstimator, *, feature_names: Sequence[str] | None = None) -> onnx.ModelProto:
    """Write a fitted model as an ONNX graph of standard operators.

    The graph works in double precision. Its input is ``X``, double of shape (n, d): the features
    before any scaling, in the order of the training set. Its outputs are ``label``, (n,): the
    class or the unknown label, int64, double or string as the classes are; ``scores``, (n, K): the
    acceptance scores, in the order of ``classes_``; and ``known_score``, (n,): the largest of them.

    Parameters
    ----------
    model : estimator
        A fitted estimator of the SVM family, PI-SVM, W-SVM, EVM, LDA, centroids or k-NN, or a
        Pipeline, a search or a :class:`openset.CalibratedRejector` of one. A Pipeline may fill gaps
        by SimpleImputer and scale by MinMaxScaler, StandardScaler, MaxAbsScaler or RobustScaler.
        Of a model that begins with a :class:`openset.tables.TableEncoder`, the input is what the
        encoder returns: numbers, and 0 or 1 per value of a category.
    feature_names : sequence of str, default=None
        Names of the d features, in their order; None takes those that the model was fitted with,
        if any.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(result, path)`` writes it to a file. Its metadata hold, as JSON, ``estimator``,
        ``classes``, ``unknown_label`` and, where they are known, ``features``.

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
    graph = Graph()
    scores = graph("Sub", *_scores(graph, model, "X"), output="scores")
    decider = unwrap(model)
    labels = _labels(decider)
    known_score = graph("ReduceMax", scores, np.array([1]), keepdims=0, output="known_score")
    best = graph("ArgMax", scores, axis=1, keepdims=0)  # the first class on ties
    accepted = graph("GreaterOrEqual", known_score, 0.0)
    answer = graph("Where", accepted, best, np.array(len(decider.classes_)))
    graph("Gather", labels, answer, output="label")
    return _model(graph, model, labels, feature_names)


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
    if step is None or step == "passthrough" or _is_table_encoder(step):
        return x
    if type(step) not in _STEPS:
        raise ValueError(
            f"{type(step).__name__} cannot be exported to ONNX. Steps of a Pipeline that can: "
            f"{', '.join(sorted(kind.__name__ for kind in _STEPS))}."
        )
    return _STEPS[type(step)](graph, step, x)


def _is_table_encoder(step):
    """Whether this is a TableEncoder, which takes a matrix as it is; its module needs pyarrow."""
    return type(step).__module__.startswith("openset.tables")


def _impute(graph, imputer, x):
    fills_nan = imputer.missing_values != imputer.missing_values
    if not fills_nan or imputer.add_indicator:
        raise ValueError(
            "SimpleImputer can be exported to ONNX with missing_values=nan and "
            f"add_indicator=False; got {imputer!r}."
        )
    kept = np.flatnonzero(~np.isnan(imputer.statistics_))  # a feature without values is gone
    x = graph("Gather", x, kept, axis=1)
    return graph("Where", graph("IsNaN", x), imputer.statistics_[kept], x)


def _min_max(graph, scaler, x):
    x = graph("Add", graph("Mul", x, scaler.scale_), scaler.min_)
    return graph("Clip", x, *map(float, scaler.feature_range)) if scaler.clip else x


def _shift_and_divide(graph, x, shift, divisor):
    x = x if shift is None else graph("Sub", x, shift)
    return x if divisor is None else graph("Div", x, divisor)


_STEPS: dict[type, Callable[[Graph, BaseEstimator, str], str]] = {
    MaxAbsScaler: lambda graph, scaler, x: _shift_and_divide(graph, x, None, scaler.scale_),
    MinMaxScaler: _min_max,
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


def _model(graph, estimator, labels, feature_names):
    types = {"i": TensorProto.INT64, "f": TensorProto.DOUBLE, "O": TensorProto.STRING}
    describe = helper.make_tensor_value_info
    decider = unwrap(estimator)
    # A Pipeline does not know if its first step is "passthrough".
    n_features = getattr(estimator, "n_features_in_", decider.n_features_in_)
    names = getattr(estimator, "feature_names_in_", None)
    for _, heads in layers(estimator):
        if heads and _is_table_encoder(heads[0].steps[0][1]):
            names = heads[0].steps[0][1].get_feature_names_out()
            n_features = len(names)
    inputs = [describe("X", TensorProto.DOUBLE, ["n", n_features])]
    outputs = [
        describe("label", types[labels.dtype.kind], ["n"]),
        describe("scores", TensorProto.DOUBLE, ["n", len(decider.classes_)]),
        describe("known_score", TensorProto.DOUBLE, ["n"]),
    ]
    body = helper.make_graph(graph.nodes, "openset", inputs, outputs, graph.constants)
    model = helper.make_model(
        body,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="openset",
        producer_version=__version__,
    )
    metadata = {
        "estimator": type(decider).__name__,
        "classes": labels[:-1].tolist(),
        "unknown_label": labels[-1:].tolist()[0],
    }
    if feature_names is None:
        feature_names = names
    if feature_names is not None:
        if len(feature_names) != n_features:
            raise ValueError(
                f"feature_names has {len(feature_names)} names for the {n_features} features of "
                "the model."
            )
        metadata["features"] = list(map(str, feature_names))
    helper.set_model_props(model, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.checker.check_model(model, full_check=True)
    return model
