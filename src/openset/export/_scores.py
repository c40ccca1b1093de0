"""The acceptance scores of each method, written as a graph in double precision."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper
from scipy import sparse

from ..base import KernelMachineClassifier
from ..evt import PISVM, WSVM, ExtremeValueMachine, WeibullTail
from ..gaussian import OpenSetCentroids, OpenSetLDA
from ..kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent, get_kernel
from ..neighbors import OpenSetKNN
from ..registry import all_estimators
from ..solver import needs_differences
from ..svm import OneVsSetMachine


class Graph:
    """Nodes and constants of an ONNX graph. Values are referred to by name.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.export._scores import Graph
    >>> graph = Graph()
    >>> graph("Exp", graph("Sub", "X", np.array([1.0, 2.0])))
    'Exp_1'
    """

    def __init__(self):
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def __call__(self, operator: str, *inputs, output: str | None = None, **attributes) -> str:
        """Apply a standard operator with its attributes; return the name of the (first) result.

        A string among the inputs is the name of a value; anything else becomes a constant.
        """
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = output or f"{operator}_{len(self.nodes)}"
        # TopK has a second result, which is not used.
        outputs = [output, f"{output}_index"] if operator == "TopK" else [output]
        self.nodes.append(helper.make_node(operator, names, outputs, **attributes))
        return output

    def _constant(self, value) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.ascontiguousarray(value)
        if array.dtype.kind == "U":  # as ONNX has strings: of no fixed width
            array = array.astype(object)
        self.constants.append(numpy_helper.from_array(array, name))
        return name


_COLUMNS = np.array([1])

# Norm at which points are clipped, so that squares stay finite: a kernel that the library accepts
# has vanished there, next to any bias.
_FAR = 1e150


def expansion(graph: Graph, x: str, model, vectors, coef: np.ndarray, bias: np.ndarray) -> str:
    """Write f_c(x) = sum_i coef_ci k(gamma_c |x - s_i|^2) + bias_c as an (n, K) value.

    The kernel and ``gamma_`` are those of `model`. The shapes are: x, (n, d); vectors, dense or
    CSR, (n_sv, d); coef, (K, n_sv); bias, (K,).
    """
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
    """Return the function that writes the scores of a method as a graph; None if there is none.

    A kernel machine whose scores are its decision values needs no function of its own. Only
    registered classes are exported: a subclass may decide otherwise.
    """
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
