"""What a model file may hold, checked before anything in it is built.

The archive is read once, with a limit on the size of every member, and copied into a new one that
holds only what was checked. The reader of the objects sees the copy alone: no entry that states a
wrong size or occurs twice, and no description that two parsers read differently, gets past.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from io import BytesIO
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np

from ..base.fitted import require
from ..utils import read_member, stored_array_size
from ._scikit_learn import ESTIMATORS, LOSSES

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
    """Return an archive of the checked members alone.

    Raises ForeignTypesError if the description asks for a type that is neither `trusted` nor one
    that every model file may hold, TooLargeError, or ValueError if the file is damaged.
    """
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
            for name in [SCHEMA, *{name for name, _, _ in references}]:
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
    """Every object of the description, as the reader of the objects will find them."""
    nodes, foreign, waiting = [], set(), [schema]
    while waiting:
        node = waiting.pop()
        require(isinstance(node, dict), "an object is not described by a dict")
        for key in ("__class__", "__module__", "__loader__"):
            require(isinstance(node.get(key), str), f"an object has no {key}")
        require(type(node.get("__id__", 0)) is int, "an object has an odd __id__")
        if name := _foreign(node, trusted):
            foreign.add(name)
            continue
        nodes.append(node)
        waiting += _children(node)
    if foreign:
        raise ForeignTypesError(", ".join(sorted(foreign)))
    return nodes


def _children(node) -> list:
    loader, content = node["__loader__"], node.get("content")
    if loader == "DictNode":
        keys = node["key_types"]
        require(isinstance(content, dict), "a dict has no content")
        fits = keys["__loader__"] == "ListNode" and len(keys["content"]) >= len(content)
        require(fits, "the keys of a dict have no types")
        require(all(k["__loader__"] == "TypeNode" for k in keys["content"]), "a key has no type")
        return [keys, *content.values()]
    if loader in ("ListNode", "TupleNode", "SetNode"):
        require(isinstance(content, list), f"a {loader} has no items")
        return content
    if loader == "NdArrayNode" and node["type"] == "json":
        shape = [json.loads(size["content"]) for size in node["shape"]["content"]]
        require(isinstance(content, list), "an array of objects has no items")
        if len(shape) != 1:  # numpy would also take apart what lies deeper than the shape
            _check_items(content, shape)
        return [*content, node["shape"]]
    if loader == "LossNode":
        items = _children(node["__reduce__"]["args"])
        fits = not content["content"] and all(item["__loader__"] == "JsonNode" for item in items)
        require(fits, "a loss has more than numbers")
        return items
    if loader == "MaskedArrayNode":
        return [content["data"], content["mask"]]
    if loader == "JsonNode":
        value = json.loads(content)
        scalar = value is None or isinstance(value, str | int | float)
        require(scalar, "a number or a text is neither")
    if loader == "SliceNode":
        limits = [content[key] for key in ("start", "stop", "step")]
        require(all(k is None or type(k) is int for k in limits), "a slice has odd limits")
    if loader in ("DTypeNode", "RandomStateNode"):
        return [content]
    if loader == "ObjectNode" and content is not None:
        fits = content["__loader__"] in ("DictNode", "JsonNode")
        require(fits, "the attributes of an object are no dict")
        return [content]
    return []


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
        return None if is_estimator or name in trusted else name
    if loader == "FunctionNode":  # the reader allows ufuncs, and whatever else it trusts
        is_ufunc = name.startswith(("numpy.", "scipy.special.")) and name not in trusted
        return None if is_ufunc else name
    if loader == "LossNode":
        return None if node["__module__"] in LOSSES else name
    if loader not in _NODES:
        return f"{name} ({loader})" if name in trusted or "." not in name else name
    return None if name in _NODES[loader] else name


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
        names = inner.namelist()
        _require_memory(sum(inner.getinfo(part).file_size for part in names), limit)
        parts = {"data.npy", "indices.npy", "indptr.npy", "shape.npy", "format.npy"}
        fits = len(set(names)) == len(names) and parts <= set(names) <= parts | {"_is_array.npy"}
        require(fits, f"{name} is not a sparse matrix")
        for part in names:  # as of every other member
            info = inner.getinfo(part)
            packed = info.compress_type in (ZIP_STORED, ZIP_DEFLATED)
            require(packed, f"{name} is packed in an odd way")
        size = sum(stored_array_size(inner, part) for part in names)
        small = ("shape.npy", "format.npy")
        require(all(inner.getinfo(part).file_size < 500 for part in small), f"{name} is damaged")
        shape, form = (np.load(BytesIO(read_member(inner, p)), allow_pickle=False) for p in small)
    is_csr = form.ndim == 0 and form.dtype.kind in "SU" and form.item() in (b"csr", "csr")
    require(is_csr, f"{name} is a sparse matrix, but not CSR")
    require(("_is_array.npy" in names) == (cls == "csr_array"), f"{name} is no {cls}")
    require(shape.shape == (2,) and shape.dtype.kind == "i" and np.all(shape >= 0), "no shape")
    return size + 8 * int(shape[1])
