"""The k-th nearest neighbour of each class."""

from __future__ import annotations

from numbers import Integral
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.utils._param_validation import Interval

from ..base import DistanceClassifier, SearchSpec, Traits
from ..base.fitted import require
from ..base.parameters import QUANTILES, SOLVER_CONSTRAINTS
from ._kth import KthDistances

# The engine of each live model; no attribute, so that it is in no pickle and no model file.
_PREPARED: WeakKeyDictionary = WeakKeyDictionary()

_GRID: dict[str, list] = {"n_neighbors": [1, 2, 5, 10, 20, 50], "quantile": QUANTILES}


class OpenSetKNN(DistanceClassifier):
    """Distance to the k-th nearest training sample of each class.

    Class c accepts x if the distance from x to the k-th nearest training sample of the class is at
    most ``radius_``. The answer is the class with the smallest such distance. Distances are exact.

    Parameters
    ----------
    n_neighbors : int, default=2
        k. In a class with fewer samples the farthest one counts. With 1, a single mislabelled
        sample extends its class.
    quantile : float in [0, 1], default=0.95
        The radius is this quantile of the distances of training samples to the k-th nearest other
        sample of their class, over all classes. So about this share of new samples of known
        classes is accepted. Changing it needs no new fit.
    normalize : bool, default=False
        Divide each sample by its norm first. A sample of zeros is an error.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 all cores. Results do not depend on it.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where distances are computed; "auto" takes a GPU if there is one. A GPU needs the extra
        ``openset[cuda]``.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts. Training rows that carry an explicit label are
        known unknowns: they can lower the radius, see :class:`openset.base.DistanceClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    n_known_unknowns_ : int
        Number of training rows that carry an explicit unknown label.
    radius_ : ndarray of shape (K,)
        The largest distance that is accepted, the same for all classes.
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: always, except with ``normalize=True``, which
        accepts cones.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only if X has names of columns.

    References
    ----------
    Y. Sun, Y. Ming, X. Zhu, Y. Li, "Out-of-distribution detection with deep nearest neighbors",
    ICML 2022, where the neighbours are those of all classes together.

    Examples
    --------
    >>> from openset.neighbors import OpenSetKNN
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [4.0, 0.0], [4.0, 1.0], [5.0, 0.0]]
    >>> model = OpenSetKNN().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[0.5, 0.5], [4.2, 0.5], [2.5, 3.0], [50.0, 0.5]])
    array([ 1,  2, -1, -1])
    """

    _parameter_constraints: dict = {
        **DistanceClassifier._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "normalize": ["boolean"],
        "n_jobs": SOLVER_CONSTRAINTS["n_jobs"],
        "device": SOLVER_CONSTRAINTS["device"],
    }

    fitted_attributes = {"_rows": "n int", "_X": "n d", "_starts": "groups int"}
    traits = Traits(
        "k-NN",
        bounded=True,
        condition="normalize=False",
        known_unknowns="they can lower the radius",
    )
    search_spec = SearchSpec({"default": _GRID}, after_fit=("quantile",))

    def __init__(
        self,
        n_neighbors: int = 2,
        quantile: float = 0.95,
        normalize: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        unknown_label: Any = "auto",
    ):
        self.n_neighbors = n_neighbors
        self.quantile = quantile
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.device = device
        self.unknown_label = unknown_label

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        order = np.argsort(codes, kind="stable")
        self._X, self._rows = X[order], rows[order]
        self._starts = np.r_[0, np.cumsum(np.bincount(codes))]
        own = np.empty(len(X))
        own[order] = self._engine().within(self.n_neighbors)
        return own

    def distances(self, X: np.ndarray) -> np.ndarray:
        return self._engine()(X, self.n_neighbors)

    def take_classes(self, index):
        rows = np.concatenate([np.arange(*self._starts[k : k + 2]) for k in index])
        self._starts = np.r_[0, np.cumsum(np.diff(self._starts)[index])]
        self._X, self._rows = self._X[rows], self._rows[rows]
        self.take_distances(index)

    def check_fitted(self):
        sizes = super().check_fitted()
        require(isinstance(self._X, np.ndarray), "_X is not an array")
        require(len(self._starts) == sizes["K"] + 1, "_starts has not one group per class")
        fits = self._starts[0] == 0 and np.all(np.diff(self._starts) > 0)
        require(fits and self._starts[-1] == sizes["n"], "_starts does not divide the samples")
        return sizes

    def class_starts(self) -> np.ndarray:
        """Return where the samples of each class start among :meth:`kept_samples`.

        Returns
        -------
        ndarray of shape (K + 1,)
            The last entry is the number of samples.
        """
        return self._starts

    def _engine(self):
        """Distances to the training samples, prepared once per fitted model."""
        key = (id(self._X), self.n_jobs, self.device)
        found = _PREPARED.get(self)
        if found is None or found[0] != key:
            found = key, KthDistances(self._X, self._starts, self.n_jobs, self.device)
            _PREPARED[self] = found
        return found[1]

    def far_scores(self) -> np.ndarray:
        return np.full(len(self.classes_), np.inf if self.normalize else -np.inf)

    def kept_samples(self):
        return self._X, self._rows, "cosine" if self.normalize else "euclidean"
