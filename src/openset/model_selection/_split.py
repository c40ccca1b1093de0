"""Hold-out splits of a training set: with classes withheld from fitting, or with all of them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import KW_ONLY
from math import gcd
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseShuffleSplit, StratifiedGroupKFold, train_test_split
from sklearn.utils import check_random_state, indexable
from sklearn.utils._param_validation import Interval, validate_parameter_constraints
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..base import check_labels, group_codes, known_classes
from ..base.parameters import COUNT, param, with_parameters

_FRACTION = Interval(Real, 0, 1, closed="neither")
# Draws of groups that are tried until every known class is on both sides.
_TRIES = 100


class Simulation(NamedTuple):
    """One simulated open-set problem inside a training set.

    Parameters
    ----------
    known : ndarray of shape (n_known,)
        The classes that act as known, sorted; all others act as unknown.
    fit : ndarray of shape (n_fit,)
        Sorted indices of the samples to fit on, all of classes in `known` or known unknowns.
    validation : ndarray of shape (n - n_fit,)
        Sorted indices of all other samples; with groups, without those of withheld classes that
        belong to a group in `fit`.
    """

    known: np.ndarray
    fit: NDArray[np.intp]
    validation: NDArray[np.intp]


class _HoldOut(BaseShuffleSplit):
    """Base of both splitters: the parameters, the labels, the halves of each known class."""

    _parameter_constraints: dict
    # scikit-learn passes `groups` of a search or a cross-validation on to `split`.
    __metadata_request__split = {"groups": True}

    unknown_label: Any

    def simulate(
        self, y: ArrayLike, positive: Hashable = None, *, groups: ArrayLike | None = None
    ) -> list[Simulation]:
        """Return the splits of :meth:`split` together with the classes that act as known.

        Parameters
        ----------
        y : array-like of shape (n,)
            The classes.
        positive : label, default=None
            A class that acts as known in every repeat, for tuning the machine of that class against
            the rest; `n_known` counts it. The draws of different classes are independent. It
            changes nothing for :class:`ClosedSetSplit`, where every class is known.
        groups : array-like of shape (n,), default=None
            As for :meth:`split`.

        Returns
        -------
        list of Simulation
            One per repeat.

        Examples
        --------
        >>> from openset.model_selection import OpenSetSplit
        >>> splitter = OpenSetSplit(n_repeats=3, random_state=2)
        >>> [s.known.tolist() for s in splitter.simulate(list("aabbccdd"), positive="a")]
        [['a', 'd'], ['a', 'c'], ['a', 'b']]
        """
        return self.simulate_each(y, [positive], groups=groups)[0]

    def simulate_each(
        self, y: ArrayLike, positives: Sequence[Hashable], *, groups: ArrayLike | None = None
    ) -> list[list[Simulation]]:
        """Draw the repeats of :meth:`simulate` for each of several positive classes.

        Parameters
        ----------
        y : array-like of shape (n,)
            The classes, which are checked once.
        positives : sequence of label or None
        groups : array-like of shape (n,), default=None
            As for :meth:`split`.

        Returns
        -------
        list of lists of Simulation

        Examples
        --------
        >>> from openset.model_selection import OpenSetSplit
        >>> splitter = OpenSetSplit(n_repeats=1, random_state=2)
        >>> [[s.known.tolist() for s in own] for own in splitter.simulate_each([*"aabbcc"], "ab")]
        [[['a', 'b']], [['a', 'b']]]
        """
        classes, codes = self._encode(y)
        members = None if groups is None else group_codes(groups, len(codes))[1]
        return self._draw_each(classes, codes, positives, members)

    def _draw_each(self, classes, codes, positives, groups=None) -> list[list[Simulation]]:
        """The repeats for each positive class, from encoded labels and groups."""
        validate_parameter_constraints(self._parameter_constraints, vars(self), type(self).__name__)
        counts = np.bincount(codes)[: len(classes)]
        if counts.min() < 2:
            lonely = classes[counts.argmin()].tolist()
            raise ValueError(
                f"{type(self).__name__} puts samples of a class on both sides; y has 1 sample of "
                f"class {lonely!r}. Every class needs at least 2: add samples or leave the class "
                "out."
            )
        for c, label in enumerate(classes.tolist() if groups is not None else ()):
            if len(np.unique(groups[codes == c])) < 2:
                raise ValueError(
                    f"{type(self).__name__} keeps a group on one side; all {counts[c]} samples of "
                    f"class {label!r} are of one group. Every class needs at least 2: add groups "
                    "or leave the class out."
                )
        return [self._draw(classes, codes, positive, groups) for positive in positives]

    @abstractmethod
    def _draw(self, classes, codes, positive, groups) -> list[Simulation]:
        """The repeats for one positive class."""

    def split(
        self, X, y: ArrayLike, groups=None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the indices of the fitting and of the validation part of each repeat.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Only its length is used; it may be None.
        y : array-like of shape (n,)
            The classes.
        groups : array-like of shape (n,), default=None
            The object of each sample (a track, a speaker, a session), if samples of one object are
            alike. An object is never on both sides: samples of withheld classes that belong to an
            object of the fitting part are left out.

        Yields
        ------
        train : ndarray of shape (n_fit,)
            Sorted indices.
        test : ndarray of shape (n - n_fit,)
            Sorted indices of all other samples.
        """
        _, y = indexable(X, y)
        for simulation in self.simulate(y, groups=groups):
            yield simulation.fit, simulation.validation

    def get_n_splits(self, X=None, y=None, groups=None) -> int:
        return self.n_repeats

    def _encode(self, y):
        """Check labels; return the classes and the codes (n,)."""
        name = type(self).__name__
        if y is None:
            raise ValueError(f"{name} splits by class; y is None. Pass the labels.")
        check_labels(y)
        y = column_or_1d(y)
        if len(y) == 0:
            raise ValueError(f"{name} has nothing to split: y is empty.")
        check_classification_targets(y)
        return known_classes(self.unknown_label, y)

    def _generators(self):
        """One generator per repeat."""
        # Each is spawned from the seed by its number: repeat k does not depend on how many there
        # are.
        entropy = check_random_state(self.random_state).randint(2**32, size=4, dtype=np.uint32)
        seeds = np.random.SeedSequence(entropy).spawn(self.n_repeats)
        return [np.random.default_rng(seed) for seed in seeds]

    def _hold_out(self, classes, codes, known, rng, groups) -> Simulation:
        """Draw the fitting part from the classes with codes `known`, sorted; keep the rest out."""
        # Known unknowns are split as a class is: they are available in every simulation.
        every = [*known, *([len(classes)] if codes.max() == len(classes) else [])]
        if groups is not None:
            return self._hold_out_groups(classes, codes, known, every, rng, groups)
        fitting = np.zeros(len(codes), dtype=bool)
        for c in every:
            members = np.flatnonzero(codes == c)
            fitting[rng.permutation(members)[: self._n_fit(len(members))]] = True
        return Simulation(classes[known], np.flatnonzero(fitting), np.flatnonzero(~fitting))

    def _hold_out_groups(self, classes, codes, known, every, rng, groups) -> Simulation:
        """As `_hold_out`, by groups, of which one may have samples of several classes."""
        # Class by class, its groups that have no side yet are dealt out: as many to the fitting
        # part as come nearest to the number of its samples that belong there.
        n_groups, withheld = groups.max() + 1, len(known) < len(classes)
        for _ in range(_TRIES):
            side = np.full(n_groups, -1)
            for c in every:
                sizes = np.bincount(groups[codes == c], minlength=n_groups)
                free = rng.permutation(np.flatnonzero((sizes > 0) & (side < 0)))
                n_before = sizes[side == 1].sum()
                totals = np.cumsum(np.append(n_before, sizes[free]))
                n_first = int(np.abs(totals - self._n_fit(sizes.sum())).argmin())
                # At least one group on each side, where that is possible.
                n_first = max(n_first, int(n_before == 0))
                n_first = min(n_first, len(free) - (not np.any(sizes[side == 0])))
                side[free] = np.arange(len(free)) < n_first
            fitting = np.isin(codes, every) & (side[groups] == 1)
            validation = ~fitting & (side[groups] != 1)
            fitted, judged = (
                np.bincount(codes[r], minlength=len(classes)) for r in (fitting, validation)
            )
            unknown = np.delete(judged[: len(classes)], known)
            if fitted[known].all() and judged[known].all() and (not withheld or unknown.any()):
                return Simulation(
                    classes[known], np.flatnonzero(fitting), np.flatnonzero(validation)
                )
        raise ValueError(
            f"{type(self).__name__} found no way in {_TRIES} draws to have samples of each of the "
            f"classes {classes[known].tolist()!r} on both sides and each group on one. Add groups, "
            "or leave classes of few groups out."
        )

    def _n_fit(self, n: int) -> int:
        """How many of n samples of a class are for fitting."""
        # Rounded up, but not by rounding errors: 0.07 * 100 is above 7 in floating point.
        held_out = max(1, np.ceil(self.test_size * n - 1e-9))
        return max(1, n - int(held_out))


@with_parameters
class OpenSetSplit(_HoldOut):
    """Splits that simulate unknowns: some classes are withheld from fitting.

    In each repeat half of the classes, rounded up, are drawn to act as known, so that over the
    repeats all classes are withheld equally often, as far as possible. Half of their samples
    are for fitting; the other half **and all samples of the other classes** are for validation. A
    model fitted on the one and scored on the other shows whether it recognises what it knows and
    rejects what it has never seen. The labels stay as they are: to the scorers of
    :func:`get_scorer` a label outside the classes a model was fitted on is unknown.

    Parameters
    ----------
    n_repeats : int, default=6
        Number of simulations, each with its own draw of classes and samples.
    test_size : float, default=0.5
        Share of the samples of a known class that is for validation, in (0, 1), rounded up; at
        least one sample is left for fitting.
    n_known : int, default=None
        Number of classes that act as known, at most all but one; None is half of them, rounded up.
    random_state : int, RandomState instance or None, default=None
        Pass an int to get the same splits in every call. Repeat k does not depend on `n_repeats`.
    unknown_label : "auto" or label, default="auto"
        Rows of y that carry an explicit label are known unknowns. They are split as the samples of
        a known class are: one part for fitting, the other to be judged as unknown.

    See Also
    --------
    ClosedSetSplit : Withholds samples of all classes, and no class.

    Notes
    -----
    At least three classes are needed, with two samples each. The proportions are those of OSNN's
    parameter optimisation [1]_, of which the search of [2]_ is the general case.

    References
    ----------
    .. [1] P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier",
       Machine Learning 106, 2017.
    .. [2] P. R. Mendes Júnior, T. E. Boult, J. Wainer, A. Rocha, "Open-Set Support Vector
       Machines", IEEE Transactions on Systems, Man, and Cybernetics: Systems 52(6), 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.model_selection import OpenSetSplit
    >>> y = np.array(["a", "a", "b", "b", "c", "c"])
    >>> for train, test in OpenSetSplit(n_repeats=2, random_state=2).split(None, y):
    ...     print(y[train], y[test])
    ['a' 'b'] ['a' 'b' 'c' 'c']
    ['a' 'c'] ['a' 'b' 'b' 'c']

    With scikit-learn's search, and a scorer of ours:

    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from openset import OpenSetSVC
    >>> from openset.model_selection import get_scorer
    >>> search = GridSearchCV(
    ...     make_pipeline(MinMaxScaler(), OpenSetSVC()),
    ...     {"opensetsvc__gamma": [1, 4, 16, 64]},
    ...     scoring=get_scorer("normalized_accuracy"),
    ...     cv=OpenSetSplit(random_state=0),
    ... )
    >>> search.fit(*load_wine(return_X_y=True)).best_params_
    {'opensetsvc__gamma': 16}
    """

    n_repeats: int = param(6, COUNT)
    _: KW_ONLY
    test_size: float = param(0.5, _FRACTION)
    n_known: int | None = param(None, COUNT, None)
    random_state: int | np.random.RandomState | None = None
    unknown_label: Any = "auto"

    def _draw(self, classes, codes, positive, groups):
        generators = self._generators()
        n_classes = len(classes)
        if n_classes < 3:
            raise ValueError(
                f"OpenSetSplit needs at least 3 classes to withhold some; y has {n_classes}: "
                f"{classes.tolist()!r}. Use ClosedSetSplit, which withholds none."
            )
        if positive is None:
            required = []
        elif positive in classes.tolist():
            required = [classes.tolist().index(positive)]
            generators = [rng.spawn(n_classes)[required[0]] for rng in generators]
        else:
            raise ValueError(f"positive={positive!r} is not a class of y: {classes.tolist()!r}.")
        # Half of the classes, rounded up; a machine has a known negative class at least.
        n_known = (n_classes + 1) // 2 if self.n_known is None else self.n_known
        fewest = 1 + len(required)
        if not fewest <= n_known < n_classes:
            raise ValueError(
                f"n_known={n_known} must be from {fewest} to {n_classes - 1}: y has {n_classes} "
                "classes, and one at least has to act as unknown."
            )
        others = np.delete(np.arange(n_classes), required)
        n_drawn = n_known - len(required)
        # After a round of simulations every class has been withheld equally often.
        round_length = len(others) // gcd(len(others), n_drawn)
        simulations = []
        for repeat, rng in enumerate(generators):
            place = repeat % round_length
            if place == 0:
                order = rng.permutation(others)
            drawn = np.roll(order, -n_drawn * place)[:n_drawn]
            known = np.sort([*required, *drawn])
            simulations.append(self._hold_out(classes, codes, known, rng, groups))
        return simulations


@with_parameters
class ClosedSetSplit(_HoldOut):
    """Splits in which every class is known: a share of the samples of each is held out.

    The closed-set counterpart of :class:`OpenSetSplit`, for the closed-set search and for fewer
    than three classes. Validation has no unknowns, so nothing is learnt about rejecting them.

    Parameters
    ----------
    n_repeats : int, default=1
        Number of splits.
    test_size : float, default=0.5
        Share of the samples of a class that is for validation; as for :class:`OpenSetSplit`.
    random_state : int, RandomState instance or None, default=None
        As for :class:`OpenSetSplit`.
    unknown_label : "auto" or label, default="auto"
        As for :class:`OpenSetSplit`.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.model_selection import ClosedSetSplit
    >>> y = np.array(["a", "a", "a", "b", "b"])
    >>> for train, test in ClosedSetSplit(random_state=0).split(None, y):
    ...     print(y[train], y[test])
    ['a' 'b'] ['a' 'a' 'b']
    """

    n_repeats: int = param(1, COUNT)
    _: KW_ONLY
    test_size: float = param(0.5, _FRACTION)
    random_state: int | np.random.RandomState | None = None
    unknown_label: Any = "auto"

    def _draw(self, classes, codes, positive, groups):
        known = np.arange(len(classes))
        return [self._hold_out(classes, codes, known, rng, groups) for rng in self._generators()]


def calibration_split(
    y: np.ndarray,
    known: np.ndarray,
    groups: np.ndarray | None,
    size: float,
    random_state: Any,
    stratify: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows to calibrate, a share `size` of all; every known class is fitted."""
    # `known` (n,) are rows of known classes; `stratify` is what needs each class on both sides.
    labels, first, inverse = np.unique(y, return_index=True, return_inverse=True)
    of_class, n_rest = first[inverse], int(np.ceil(size * len(y)))  # whatever the names are
    if stratify and (single := np.bincount(inverse) < 2).any():
        raise ValueError(
            f"{stratify} needs samples of each class both to fit and to calibrate; y has 1 sample "
            f"of {labels[single].tolist()!r}. Give more, or leave these classes out."
        )
    if stratify and not len(labels) <= n_rest <= len(y) - len(labels):
        raise ValueError(
            f"{stratify} needs samples of each of the {len(labels)} classes both to fit and to "
            f"calibrate; calibration_size={size!r} takes {n_rest} of {len(y)} samples to "
            "calibrate. Choose another size, or give more samples."
        )
    if groups is None:
        shares = {"test_size": size, "stratify": of_class if stratify else None}
        fit, rest = train_test_split(np.arange(len(y)), random_state=random_state, **shares)
    else:  # a group is never on both sides
        n_parts = min(max(2, round(1 / size)), len(np.unique(groups)))
        if n_parts < 2:
            raise ValueError(
                "groups has one group, which can be used either to fit or to calibrate. Give "
                "samples of more groups, or calibrate a fitted estimator: FrozenEstimator."
            )
        parts = StratifiedGroupKFold(n_parts, shuffle=True, random_state=random_state)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            fit, rest = next(parts.split(of_class, of_class, groups))
    if lost := np.setdiff1d(y[known], y[fit]).tolist():
        raise ValueError(
            f"All samples of {lost!r} were drawn for calibration and none is left to fit. Give "
            f"more samples, or lower calibration_size={size!r}."
        )
    return fit, rest
