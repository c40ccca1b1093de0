"""What a model file may hold: its description, before anything is built; its objects, afterwards.

The archive is read once, with a limit on the size of every member, and copied into a new one that
holds only what was checked. The reader of the objects sees the copy alone: no entry that states a
wrong size or occurs twice, and no description that two parsers read differently, gets past. Then
every object is looked at: compiled code does not check the shapes and indices that it is given, so
a damaged array would make it read or write out of bounds.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import is_dataclass
from io import BytesIO
from types import NoneType
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector

from ..base import OpenSetClassifier
from ..base.fitted import ESTIMATORS, check_array, check_compressed, require
from ..utils import read_member, stored_array_size

SCHEMA = "schema.json"

# Loading must not need more memory than this, or than this multiple of the size of the file.
_MOST_BYTES = 2**30
_MOST_RATIO = 100

# Memory per byte of an array: the copy of its member, a buffer and the array of each reference,
# and temporary arrays of the checks. Measured peaks are lower.
_PER_ARRAY = 5
# Memory per object of the description. The most expensive ones measured 3.5 kB, a number 0.9 kB.
_PER_NODE = {"JsonNode": 1200, "TypeNode": 1200, "ListNode": 1500, "TupleNode": 1500}
_OTHER_NODE = 4000

_SCALARS = {f"numpy.{kind.__name__}" for kind in np.sctypeDict.values()} - {"numpy.void"}
_SPARSE = {"scipy.sparse._csr.csr_matrix", "scipy.sparse._csr.csr_array"}

# What each kind of node may create. Nodes of other kinds (bound methods, partials, trees, ...)
# create objects whose inside nobody checks; they are refused.
_NODES: dict[str, Collection[str]] = {
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SetNode": {"builtins.set"},
    "JsonNode": {"builtins.str"},
    "SliceNode": {"builtins.slice"},
    "TypeNode": {"builtins.str", "builtins.int", "builtins.float", "builtins.bool"} | _SCALARS,
    "NdArrayNode": {"numpy.ndarray"} | _SCALARS - {"numpy.object_"},
    "MaskedArrayNode": {"numpy.ma.MaskedArray"},
    "DTypeNode": {"numpy.dtype"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
    "SparseMatrixNode": _SPARSE,
}


class ForeignTypesError(ValueError):
    """A model asks for types that no model file may hold; the message names them."""


class TooLargeError(ValueError):
    """Loading the file would need far more memory than its size explains."""


def read_json(archive: ZipFile, name: str, limit: float) -> Any:
    """Parse a member; raise TooLargeError if the result might need more memory than the limit."""
    size = archive.getinfo(name).file_size
    _require_memory(8 * size, limit)
    data = read_member(archive, name)
    # Every object in JSON begins with a bracket or ends with a comma.
    _require_memory(8 * size + 100 * sum(map(data.count, (b",", b"[", b"{"))), limit)
    return json.loads(data)


def memory_limit(n_bytes: int) -> int:
    """Memory that loading a file of this size may need."""
    return max(_MOST_BYTES, _MOST_RATIO * n_bytes)


def checked_copy(file: IO[bytes], n_bytes: int, trusted: Collection[str]) -> IO[bytes]:
    """Return an archive of the checked members alone, with the types named where they are now."""
    # Raises ForeignTypesError if the description asks for a type that is neither `trusted` nor one
    # that every model file may hold, TooLargeError, or ValueError if the file is damaged.
    limit = memory_limit(n_bytes)
    with ZipFile(file) as archive:
        names = archive.namelist()
        require(len(set(names)) == len(names), "a member occurs twice")
        schema = read_json(archive, SCHEMA, limit)
        nodes = _nodes(schema, trusted)
        _check_repeated(nodes)
        needed = 8 * archive.getinfo(SCHEMA).file_size
        needed += sum(_PER_NODE.get(node["__loader__"], _OTHER_NODE) for node in nodes)
        references = Counter((n["file"], n["__loader__"], n["__class__"]) for n in _stored(nodes))
        for (name, loader, cls), count in references.items():
            size = archive.getinfo(name).file_size
            _require_memory(needed + 2 * count * size, limit)  # before anything is unpacked
            if loader == "SparseMatrixNode":
                size += _check_sparse(name, read_member(archive, name), cls, limit - needed)
            else:
                size = max(size, stored_array_size(archive, name))
            needed += count * _PER_ARRAY * size
        _require_memory(needed, limit)
        copy = BytesIO()
        with ZipFile(copy, "w", ZIP_STORED) as checked:
            checked.writestr(SCHEMA, json.dumps(schema))
            for name in {name for name, _, _ in references}:
                checked.writestr(name, read_member(archive, name))
    copy.seek(0)
    return copy


def _require_memory(needed, limit):
    if needed > limit:
        raise TooLargeError(
            f"it would unpack to objects of about {needed / 1e6:,.0f} MB; at most "
            f"{_MOST_BYTES / 1e6:,.0f} MB, or {_MOST_RATIO} times the size of the file, are allowed"
        )


def _nodes(schema, trusted) -> list[dict]:
    """Every object of the description, as the reader will build them; moved types get new names."""
    nodes, foreign, waiting = [], set(), [schema]
    homes = {name.rpartition(".")[2]: name for name in trusted if name.startswith("openset.")}
    while waiting:
        node = waiting.pop()
        require(isinstance(node, dict), "an object is not described by a dict")
        for key in ("__class__", "__module__", "__loader__"):
            require(isinstance(node.get(key), str), f"an object has no {key}")
        require(type(node.get("__id__", 0)) is int, "an object has an odd __id__")
        if node["__module__"].startswith("openset."):  # wherever the type was when it was written
            home = homes.get(node["__class__"], f"{node['__module__']}.{node['__class__']}")
            node["__module__"], _, node["__class__"] = home.rpartition(".")
        if name := _foreign(node, trusted):
            foreign.add(name)
            continue
        nodes.append(node)
        waiting += _children(node)
    if foreign:
        raise ForeignTypesError(", ".join(sorted(foreign)))
    return nodes


def _in_dict(node, content) -> list:
    keys = node["key_types"]
    require(isinstance(content, dict), "a dict has no content")
    fits = keys["__loader__"] == "ListNode" and len(keys["content"]) >= len(content)
    require(fits, "the keys of a dict have no types")
    require(all(k["__loader__"] == "TypeNode" for k in keys["content"]), "a key has no type")
    return [keys, *content.values()]


def _in_list(node, content) -> list:
    require(isinstance(content, list), f"a {node['__loader__']} has no items")
    return content


def _in_array(node, content) -> list:
    if node["type"] != "json":
        return []
    shape = [json.loads(size["content"]) for size in node["shape"]["content"]]
    require(isinstance(content, list), "an array of objects has no items")
    if len(shape) != 1:  # numpy would also take apart what lies deeper than the shape
        _check_items(content, shape)
    return [*content, node["shape"]]


def _in_loss(node, content) -> list:
    items = _children(node["__reduce__"]["args"])
    fits = not content["content"] and all(item["__loader__"] == "JsonNode" for item in items)
    require(fits, "a loss has more than numbers")
    return items


def _in_json(node, content) -> list:
    value = json.loads(content)
    require(isinstance(value, str | int | float | None), "a number or a text is neither")
    return []


def _in_slice(node, content) -> list:
    limits = [content[key] for key in ("start", "stop", "step")]
    require(all(k is None or type(k) is int for k in limits), "a slice has odd limits")
    return []


def _in_object(node, content) -> list:
    if content is None:
        return []
    fits = content["__loader__"] in ("DictNode", "JsonNode")
    require(fits, "the attributes of an object are no dict")
    return [content]


# What lies inside a node, by its kind; nothing else holds others.
_INSIDE: dict[str, Callable[[dict, Any], list]] = {
    "DictNode": _in_dict,
    **dict.fromkeys(("ListNode", "TupleNode", "SetNode"), _in_list),
    "NdArrayNode": _in_array,
    "LossNode": _in_loss,
    "MaskedArrayNode": lambda node, content: [content["data"], content["mask"]],
    "JsonNode": _in_json,
    "SliceNode": _in_slice,
    **dict.fromkeys(("DTypeNode", "RandomStateNode"), lambda node, content: [content]),
    "ObjectNode": _in_object,
}


def _children(node: dict) -> list:
    inside = _INSIDE.get(node["__loader__"])
    return [] if inside is None else inside(node, node.get("content"))


def _check_items(items, shape):
    """Lists nested as deep as the shape says, and scalars in them."""
    require(shape and len(items) == shape[0], "an array of objects has another shape")
    for item in items:
        expected = "ListNode" if len(shape) > 1 else "JsonNode"
        require(item["__loader__"] == expected, "an array of objects has another shape")
        if len(shape) > 1:
            _check_items(item["content"], shape[1:])


def _foreign(node, trusted) -> str | None:
    """The name of what a node would create, unless every model file may hold it."""
    name = f"{node['__module__']}.{node['__class__']}"
    loader = node["__loader__"]
    if loader == "ObjectNode":
        is_estimator = name.startswith("sklearn.") and node["__class__"] in ESTIMATORS
        fits = is_estimator or name in trusted
    elif loader == "FunctionNode":  # the reader allows ufuncs, and whatever else it trusts
        fits = name.startswith(("numpy.", "scipy.special.")) and name not in trusted
    elif loader == "LossNode":
        fits = node["__module__"] in LOSSES
    elif loader in _NODES:
        fits = name in _NODES[loader]
    else:
        return f"{name} ({loader})" if name in trusted else name
    return None if fits else name


def _check_repeated(nodes):
    """The reader builds objects of the same number once: a short one may not stand for a long."""
    first: dict[int, dict] = {}
    for node in nodes:
        if node.get("__id__"):
            fits = _same(first.setdefault(node["__id__"], node), node)
            require(fits, "two objects have the same __id__")


def _same(a, b):
    """Whether two descriptions differ in the numbers of their parts alone."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        keys = (a.keys() | b.keys()) - {"__id__", "file", "protocol", "_skops_version"}
        return all(key in a and key in b and _same(a[key], b[key]) for key in keys)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


def _stored(nodes):
    for node in nodes:
        if node["__loader__"] == "SparseMatrixNode" or node.get("type") == "numpy":
            require(isinstance(node["file"], str), "an array names no member")
            yield node


def _check_sparse(name, data, cls, limit) -> int:
    """Size in memory of a stored CSR matrix, with a dense row; its indices are checked later."""
    with ZipFile(BytesIO(data)) as inner:
        names, infos = inner.namelist(), inner.infolist()
        _require_memory(sum(info.file_size for info in infos), limit)
        parts = {"data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy"}
        fits = len(set(names)) == len(names) and parts <= set(names) <= parts | {"_is_array.npy"}
        require(fits, f"{name} is not a sparse matrix")
        packed = {info.compress_type for info in infos} <= {ZIP_STORED, ZIP_DEFLATED}
        require(packed, f"{name} is packed in an odd way")  # as of every other member
        size = sum(stored_array_size(inner, part) for part in names)
        small = ("shape.npy", "format.npy")
        require(all(inner.getinfo(part).file_size < 500 for part in small), f"{name} is damaged")
        shape, form = (np.load(BytesIO(read_member(inner, p)), allow_pickle=False) for p in small)
    is_csr = form.ndim == 0 and form.dtype.kind in "SU" and form.item() in (b"csr", "csr")
    require(is_csr, f"{name} is a sparse matrix, but not CSR")
    require(("_is_array.npy" in names) == (cls == "csr_array"), f"{name} is no {cls}")
    require(shape.shape == (2,) and shape.dtype.kind == "i" and np.all(shape >= 0), "no shape")
    return size + 8 * int(shape[1])


# Objects with nothing inside.
_PLAIN = (str, int, float, bool, NoneType, np.generic, np.dtype, slice, type, np.ufunc)


def check_model(model: BaseEstimator) -> None:
    """Raise ValueError if a part of the model is damaged, or is nothing that can be checked."""
    for part in parts(model):
        try:
            _check_part(part)
        except Exception as error:  # attributes of odd types may raise anything
            raise ValueError(f"{type(part).__name__}: {error}") from error


def parts(model) -> Iterator[Any]:
    """Every object inside, at any depth."""
    seen: dict[int, Any] = {}  # keeps them alive, so that no number is used twice
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or type(part) in (str, int, float, bool, NoneType):
            continue
        seen[id(part)] = part
        yield part
        waiting += _inside(part)


def _inside(part) -> Iterable[Any]:
    if isinstance(part, dict):
        return [*part.keys(), *part.values()]
    if isinstance(part, list | tuple | set | frozenset):
        return part
    if isinstance(part, np.ma.MaskedArray):
        return [part.data, part.mask]
    if isinstance(part, np.ndarray):
        return part.ravel().tolist() if part.dtype.hasobject else []
    return vars(part).values() if isinstance(part, BaseEstimator) or _is_ours(part) else []


def _is_ours(part):
    """Kernels and the fitted parts that estimators declare in ``stored_types``."""
    return is_dataclass(part) and type(part).__module__.startswith("openset.")


def _check_part(part):
    if isinstance(part, OpenSetClassifier):
        if is_fitted(part) or set(vars(part)) & set(part.fitted_attributes or ()):
            part.check_fitted()
    elif isinstance(part, BaseEstimator):
        check_estimator(part)
        if type(part).__module__.startswith("openset.tables"):  # imported, it would need pyarrow
            part.check_fitted()
        if is_classifier(part) or is_outlier_detector(part):
            _check_finite(part)
    elif sparse.issparse(part):
        require(part.format == "csr", f"a sparse matrix of format {part.format}, not CSR")
        check_compressed("a sparse matrix", part)
    elif isinstance(part, np.ndarray):
        known = type(part) in (np.ndarray, np.ma.MaskedArray) and part.dtype.kind != "V"
        require(known, f"an array of {part.dtype}")
    elif isinstance(part, np.random.RandomState):
        state: Any = part.get_state(legacy=False)
        # The generator reads the word at this position.
        require(0 <= state["state"]["pos"] <= 624, "a random state is damaged")
    else:
        containers = dict, list, tuple, set, frozenset
        known = isinstance(part, (*_PLAIN, *containers)) or type(part).__module__ in LOSSES
        require(known or _is_ours(part), "objects of this type cannot be checked")


def _check_finite(part: BaseEstimator) -> None:
    for name, value in vars(part).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            require(np.isfinite(value).all(), f"{name} has entries that are not finite")


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
    sizes: dict[str, int] = {}
    if "n_features_in_" in vars(part):
        d = sizes["d"] = part.n_features_in_
        require(type(d) is int and d > 0, f"n_features_in_ is {d!r}")
    for cls in type(part).__mro__:
        check = _CHECKS.get(cls.__name__)
        if check is not None and (is_fitted(part) or check is _check_function):
            check(part, sizes)


def is_fitted(part: BaseEstimator) -> bool:
    """Whether there is an attribute that fit sets: a part of them might be missing."""
    return any(name.endswith("_") and not name.startswith("__") for name in vars(part))


def _check_libsvm(part, sizes):
    """libsvm reads its arrays without looking at their lengths."""
    require(part.kernel != "precomputed", "kernel='precomputed' is not supported in model files")
    # A detector and a regressor count as two classes, the second without support vectors.
    n_classes = len(part.classes_) if is_classifier(part) else 2
    n_pairs, n_rows = n_classes * (n_classes - 1) // 2, n_classes - 1
    sizes |= {"rows": n_rows, "pairs": n_pairs, "classes": n_classes}
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
    require(part._fit_method == "brute" and part._tree is None, "only brute force is supported")
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
    outs, drop = part._n_features_outs, part._drop_idx_after_grouping
    fits = isinstance(part.categories_, list) and len(part.categories_) == sizes["d"] == len(outs)
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
    fits = len(part.categories_) == sizes["d"]
    require(fits, "categories_ does not fit n_features_in_")
    for categories in part.categories_:
        require(isinstance(categories, np.ndarray) and categories.ndim == 1, "categories_")


def _check_target_encoder(part, sizes):
    """Columns without an encoding would show memory that nothing was written to."""
    _check_ordinal(part, sizes)
    n = sizes["d"] * (len(part.classes_) if part.target_type_ == "multiclass" else 1)
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
    d = sizes["d"]
    require(d <= 10**6, f"n_features_in_ is {d}")
    fresh = type(part)(**part.get_params()).fit(np.zeros((1, d)))
    for name in ("_min_degree", "_max_degree", "_n_out_full", "n_output_features_"):
        fits = getattr(part, name) == getattr(fresh, name)
        require(fits, f"{name} is {getattr(part, name)}, not {getattr(fresh, name)}")


def _check_components(part, sizes):
    """Coordinate descent runs over `_n_components` rows of components_."""
    check_array("components_", np.asarray(part.components_, np.float64), "k d", sizes)
    n = getattr(part, "_n_components", sizes["k"])
    require(type(n) is int and n == sizes["k"], f"_n_components is {n!r}")


def _check_centers(part, sizes):
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
