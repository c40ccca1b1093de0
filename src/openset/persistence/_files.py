"""Writing and reading model files, and their cards."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from inspect import signature
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import __version__, kernels
from ..base import OpenSetPipeline
from ..base.fitted import JOBLIB
from ..calibration import CalibratedRejector
from ..model_selection import OpenSetSearchCV
from ..registry import RENAMED_METHODS, all_estimators
from ..traffic import TrafficClassifier
from ..utils import atomic_write, needs, unwrap
from ._checks import (
    SCHEMA,
    ForeignTypesError,
    TooLargeError,
    check_model,
    checked_copy,
    memory_limit,
    parts,
    read_json,
)
from ._old_models import update_rejector

# Number of the layout of a model file. A reader refuses numbers above its own.
FORMAT = 1

_CARD = "openset.json"
_CONTENT = (
    "A model file holds estimators and kernels of openset, and of scikit-learn those whose arrays "
    f"can be checked. Of a search that holds others, save the best_estimator_. {JOBLIB}"
)


class ModelFileError(ValueError):
    """A file is not a model that this version of openset can load."""


def trusted_types() -> list[str]:
    """Names of the types that a model file may ask for, in addition to those that skops trusts."""
    ours: list[type] = [CalibratedRejector, *CalibratedRejector.stored_types]
    ours += [OpenSetPipeline, OpenSetSearchCV, TrafficClassifier]
    for _, cls in all_estimators():
        ours += [cls, *cls.stored_types]
    ours += [kernels.RBF, kernels.TStudent, kernels.RationalQuadratic]
    ours += [kernels.InverseMultiquadric, kernels.Linear]
    ours += [sparse.csr_matrix, sparse.csr_array]
    # A dtype, which an imputer holds, is data; skops leaves the decision to its callers.
    # The encoder of tables is named, not imported, since it needs pyarrow.
    return sorted(
        {"numpy.dtype", "openset.tables._encoder.TableEncoder"}
        | {f"{cls.__module__}.{cls.__qualname__}" for cls in ours}
    )


def save_model(
    model: BaseEstimator, path: str | os.PathLike, card: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write a fitted model to a file, atomically.

    Parameters
    ----------
    model : estimator
        An open-set estimator, or a Pipeline that ends in one, fitted.
    path : path-like
        File to be written or replaced.
    card : mapping, default=None
        What to record about the model, as JSON allows; the stamp (format, versions, time, method,
        classes, the unknown label) is added.

    Returns
    -------
    dict
        The card as written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from openset import OpenSetSVC
    >>> from openset.persistence import load_model, read_card, save_model
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.skops")
    ...     card = save_model(OpenSetSVC().fit(X, y), path, {"origin": "the iris data"})
    ...     print(load_model(path).predict(X[:3]), read_card(path)["origin"])
    [0 0 0] the iris data
    """
    sio = _skops()
    final = unwrap(model)
    check_is_fitted(final)
    stamp = _stamp(final)
    card = stamp | dict(card or {}) | stamp  # the stamp comes first and cannot be replaced
    try:
        text = json.dumps(card, indent=1)
    except TypeError as error:
        raise TypeError(
            f"card must hold what JSON allows: {error}. Convert arrays and numbers of NumPy, for "
            "example with tolist()."
        ) from None
    # What compresses well would look like a file that unpacks to far more than its size.
    for compression in (ZIP_DEFLATED, ZIP_STORED):
        try:
            content = sio.dumps(model, compression=compression)
        except Exception as error:
            raise ModelFileError(
                f"cannot save {type(final).__name__}: {error}. {_CONTENT}"
            ) from error
        archive = BytesIO(content)
        with ZipFile(archive, "a", compression=ZIP_DEFLATED) as members:
            members.writestr(_CARD, text)
        try:
            _checked_card(archive, "the card")
            _build(archive, archive.getbuffer().nbytes)
            break
        except ForeignTypesError as error:
            raise ModelFileError(
                f"cannot save a model with parts of type {error}: no reader would load it. "
                f"{_CONTENT}"
            ) from error
        except Exception as error:
            if not isinstance(error, TooLargeError) or compression == ZIP_STORED:
                raise ModelFileError(
                    f"cannot save the model, no reader would load it: {error}"
                ) from error
    with atomic_write(path) as temporary:
        temporary.write_bytes(archive.getbuffer())
    return card


def load_model(path: str | os.PathLike) -> BaseEstimator:
    """Load a model without running code; a file with foreign types is refused.

    Parameters
    ----------
    path : path-like
        File written by :func:`save_model`.

    Returns
    -------
    estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, no model, of a newer format, asks for other types, would unpack to
        far more than its size, or holds arrays that do not fit together.
    FileNotFoundError
    """
    return read_model(path)[0]


def read_model(path: str | os.PathLike) -> tuple[BaseEstimator, dict[str, Any]]:
    """Load a model as :func:`load_model` does, and its card; the file is opened once.

    Parameters
    ----------
    path : path-like
        File written by :func:`save_model`.

    Returns
    -------
    model : estimator
    card : dict
    """
    _skops()
    with _open(path) as file:
        card = _checked_card(file, path)
        _warn_of_versions(card, path)
        try:
            return _build(file, os.fstat(file.fileno()).st_size), card
        except ForeignTypesError as error:
            _check_renamed(path, str(error).split(", "))
            raise ModelFileError(
                f"{path} is refused: it asks for {error}, which is no part of a model of openset. "
                "Do not open it by other means unless you trust its origin."
            ) from error
        except Exception as error:  # a damaged description may raise anything
            raise ModelFileError(
                f"{path} cannot be loaded (written by openset {card.get('openset', '?')}): it is "
                f"damaged or incompatible ({type(error).__name__}: {error}). Fit and save it again."
            ) from error


def _build(file: IO[bytes], n_bytes: int) -> BaseEstimator:
    """Build the model in an archive and check it; raise anything if there is none."""
    sio, trusted = _skops(), trusted_types()
    archive = checked_copy(file, n_bytes, trusted)
    foreign = set(sio.get_untrusted_types(file=archive)) - set(trusted)
    if foreign:
        raise ForeignTypesError(", ".join(sorted(foreign)))
    with warnings.catch_warnings():
        # The card names the version that wrote the file; scikit-learn would warn per part.
        warnings.filterwarnings("ignore", message="Trying to unpickle")
        model = sio.load(archive, trusted=trusted)
    _complete(model)
    check_is_fitted(unwrap(model))
    check_model(model)
    return model


def read_card(path: str | os.PathLike) -> dict[str, Any]:
    """Read the card of a model file without building the model.

    Parameters
    ----------
    path : path-like
        File written by :func:`save_model`.

    Returns
    -------
    dict
    """
    with _open(path) as file:
        return _checked_card(file, path)


def _open(path: str | os.PathLike) -> IO[bytes]:
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no model file {path}")
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file")
    if not path.is_file():  # reading a device or a FIFO might never end
        raise ModelFileError(f"{path} is a device or a FIFO, not a model file; copy it to a file")
    try:
        return open(path, "rb")
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error


def _checked_card(file: IO[bytes], path: str | os.PathLike) -> dict[str, Any]:
    try:
        with ZipFile(file) as archive:
            if not {SCHEMA, _CARD} <= set(archive.namelist()):
                raise ModelFileError(
                    f"{path} is an archive, but not a model written by openset (no {_CARD})"
                )
            card = read_json(archive, _CARD, memory_limit(0))
    except ModelFileError:
        raise
    except TooLargeError as error:
        raise ModelFileError(f"{path} is refused: its card is too large ({error})") from error
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # damage may raise anything; also no zip at all, such as a pickle
        raise ModelFileError(
            f"{path} is damaged or no model file of openset ({error}). Models are written by "
            "`openset fit` or openset.persistence.save_model."
        ) from error
    if not isinstance(card, dict) or type(card.get("format")) is not int:
        raise ModelFileError(f"{path} has no version stamp: it was not written by openset")
    if card["format"] > FORMAT:
        raise ModelFileError(
            f"{path} was written by openset {card.get('openset', '?')} in format "
            f"{card['format']}; this is openset {__version__}, which reads up to format {FORMAT}. "
            "Update openset."
        )
    return card


def descent(path: str | os.PathLike, changes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Describe where a model that was made from a model file comes from, for its card.

    Parameters
    ----------
    path : path-like
        Model file of the parent.
    changes : mapping
        What was changed, as JSON allows.

    Returns
    -------
    list of dict
        The descent of the parent, and one more entry: ``parent`` (SHA-256 of its file),
        ``parent_created``, ``changes`` and ``when``.
    """
    card = read_card(path)
    entry = {
        "parent": hashlib.sha256(Path(path).read_bytes()).hexdigest(),
        "parent_created": card.get("created"),
        "changes": dict(changes),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return [*card.get("descent", []), entry]


def _warn_of_versions(card, path) -> None:
    """Warn, as scikit-learn does, if another version of it fitted the model."""
    written = card.get("versions")
    written = written.get("scikit-learn") if isinstance(written, dict) else None
    here = version("scikit-learn")
    if written is not None and written != here:
        warnings.warn(
            f"{path} was written with scikit-learn {written}, this is {here}: its scalers and "
            "classifiers may answer otherwise. Measure it with `openset evaluate`, or fit it again",
            stacklevel=3,
        )


def _check_renamed(path, foreign) -> None:
    for name in sorted(foreign):
        package, _, old = name.rpartition(".")
        if package.startswith("openset.") and old in RENAMED_METHODS:
            raise ModelFileError(
                f"{path} holds a model of class {old}, which is now {RENAMED_METHODS[old]}. Fit "
                f"{RENAMED_METHODS[old]} with the same parameters and save it again."
            )


def _complete(model) -> None:
    """Replace former parameters; set those that are newer than the file to their defaults."""
    for part in parts(model):
        if isinstance(part, CalibratedRejector):
            update_rejector(part)
        if isinstance(part, BaseEstimator):
            for parameter in signature(type(part)).parameters.values():
                if parameter.default is not parameter.empty and not hasattr(part, parameter.name):
                    setattr(part, parameter.name, parameter.default)


def _stamp(final) -> dict[str, Any]:
    packages = ("numpy", "scipy", "scikit-learn", "numba", "skops")
    return {
        "format": FORMAT,
        "openset": __version__,
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "method": type(final).__name__,
        "classes": final.classes_.tolist(),
        "unknown_label": np.asarray(final.unknown_label_).tolist(),  # numpy's numbers are no JSON
    }


def _skops():
    with needs("model files need skops", "cli"):
        import skops.io
    return skops.io
