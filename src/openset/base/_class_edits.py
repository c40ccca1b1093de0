"""Classes of a fitted model are added, removed or renamed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted


class ClassEdits:
    """Mixin with ``add_classes``; with a state per class, ``remove_classes``, ``rename_classes``.

    Attributes
    ----------
    class_attributes : tuple of str
        Class attribute: the fitted attributes with one entry per class along their first axis.
    """

    class_attributes: tuple[str, ...] = ()
    classes_: np.ndarray
    unknown_label_: Any

    def add_classes(self, X: Any, y: ArrayLike) -> Self:
        """Learn new classes in addition to the present ones: a fit to all data, old and new.

        The kernel width does not follow the new data: gamma="scale" and "auto" keep the value
        ``gamma_`` they had. Parameters given as a dict have to name the new classes, too; call
        ``set_params`` first.

        Parameters
        ----------
        X : array-like of shape (m, d)
            All samples, old and new, in any order.
        y : array-like of shape (m,)
            Their classes; none of the present classes may be missing.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset.neighbors import OSNN
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OSNN().fit(X, y)
        >>> X, y = [*X, [0, 9], [1, 9]], [*y, "above", "above"]
        >>> model.add_classes(X, y).predict([[0, 0.5], [0.5, 9]])
        array(['left', 'above'], dtype='<U7')
        """
        check_is_fitted(self)
        self.check_no_class_lost(y)
        if not isinstance(getattr(self, "gamma", None), str):
            return self.fit(X, y)  # type: ignore[attr-defined]
        gamma = float(self.gamma_[0])  # type: ignore[attr-defined]
        grown = clone(self).set_params(gamma=gamma).fit(X, y)  # type: ignore[type-var]
        self.__dict__.update(vars(grown) | self.get_params(deep=False))  # type: ignore[attr-defined]
        return self

    def check_no_class_lost(self, y: ArrayLike) -> None:
        """Raise ValueError if y has no samples of a class that the model knows.

        Parameters
        ----------
        y : array-like of shape (m,)
        """
        labels = set(np.asarray(y).ravel().tolist())
        if gone := [c for c in self.classes_.tolist() if c not in labels]:
            raise ValueError(
                f"y has no samples of {gone}, which the model knows: add_classes takes all data, "
                "old and new. Use fit to train without a class."
            )

    def remove_classes(self, labels: Iterable) -> Self:
        """Stop answering some classes.

        The other classes stay as they are: the samples of a removed class remain the negatives that
        they were in training, so that they are still rejected. To forget them, fit again without
        them. Entries of parameters given as a dict {class: value} go as well. Thresholds that were
        calibrated before have to be calibrated again.

        Parameters
        ----------
        labels : iterable of labels
            Classes of the model; at least one class must remain.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OpenSetSVC(gamma=0.5).fit(X, y).remove_classes(["right"])
        >>> model.predict([[0, 0.5], [5, 5.5]])
        array(['left', 'unknown'], dtype='<U7')
        """
        check_is_fitted(self)
        known = self.classes_.tolist()
        gone = self._check_known("labels", labels)
        if len(gone) == len(known):
            raise ValueError(f"labels={gone!r} are all classes of the model; one must remain.")
        kept = [k for k, label in enumerate(known) if label not in gone]
        self.take_classes(np.array(kept))
        self.classes_ = self.classes_[kept]
        for name, value in self._class_dicts():
            setattr(self, name, {c: v for c, v in value.items() if c not in gone})
        return self

    def rename_classes(self, names: Mapping) -> Self:
        """Give classes other names; columns of scores and dict parameters follow.

        Parameters
        ----------
        names : mapping {old: new}
            New names are of the type of the old ones, and neither the unknown label nor the name
            of another class; to merge two classes, fit again.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OpenSetSVC(gamma=0.5).fit(X, y).rename_classes({"left": "west"})
        >>> model.classes_
        array(['right', 'west'], dtype='<U5')
        """
        check_is_fitted(self)
        if not isinstance(names, Mapping):
            raise ValueError(f"names={names!r} must be a mapping {{old: new}}.")
        self._check_known("names", names)
        old = self.classes_.tolist()
        new = [names.get(label, label) for label in old]
        text = isinstance(old[0], str)
        for label in names.values():
            if isinstance(label, str) != text:
                raise ValueError(
                    f"names gives the new name {label!r}, but the classes of the model are "
                    f"{'texts' if text else 'numbers'}; a new name must be of the same type."
                )
            if label == self.unknown_label_:
                raise ValueError(f"names gives the new name {label!r}, which means unknown.")
        if len(set(new)) < len(new):
            twice = sorted({label for label in new if new.count(label) > 1})
            raise ValueError(
                f"names would make two classes {twice[0]!r}; to merge classes, fit again."
            )
        labels = np.array(new, dtype=object if self.classes_.dtype.kind == "O" else None)
        order = np.argsort(labels, kind="stable")
        self.take_classes(order)
        self.classes_ = labels[order]
        for name, value in self._class_dicts():
            setattr(self, name, {names.get(c, c): v for c, v in value.items()})
        return self

    def take_classes(self, index: np.ndarray) -> None:
        """Keep what was fitted for these classes, in this order; ``classes_`` is set afterwards.

        Parameters
        ----------
        index : ndarray of int
            Distinct indices in ``classes_``.
        """
        if not self.class_attributes:
            raise ValueError(
                f"{type(self).__name__} cannot change its classes after fitting; change those of "
                "the estimator inside, or fit again."
            )
        for name in self.class_attributes:
            if hasattr(self, name):
                setattr(self, name, getattr(self, name)[index])

    def _check_known(self, name, labels):
        labels = [labels] if np.isscalar(labels) else list(labels)
        known = self.classes_.tolist()
        for label in labels:
            if label not in known:
                raise ValueError(
                    f"{name} has {label!r}, which is not a class of the model; its classes are "
                    f"{known[:20]!r}{' ...' if len(known) > 20 else ''}."
                )
        return labels

    def _class_dicts(self):
        """Parameters that are dicts {class: value}."""
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        return [(name, value) for name, value in parameters.items() if isinstance(value, dict)]
