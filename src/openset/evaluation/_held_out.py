"""Draws of known classes, a report with classes withheld in turns, and the card of a model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..base import find_unknown_label, group_codes, known_classes
from ..metrics import encode_labels
from ..model_selection import OpenSetSplit, Simulation
from ..utils import unwrap
from ._harness import FittedMethod, evaluate_method

# Share of the rows of each class that is held out for testing, at least one row.
_TEST_SIZE = 0.2
# Measures of known rows, which depend on how many classes are known.
_OF_KNOWN = ("accuracy_known", "false_unknown_rate", "misclassification_rate")


class Split(NamedTuple):
    """Rows of one experiment.

    Attributes
    ----------
    known : ndarray of shape (n_known,)
        The known classes, sorted.
    train : ndarray of shape (n_train,)
        Sorted rows to tune and fit on, all of known classes or known unknowns.
    test : ndarray of shape (n_test,)
        Sorted rows to measure on; those of other classes are unknown.
    """

    known: np.ndarray
    train: np.ndarray
    test: np.ndarray


def draw_split(
    y: ArrayLike, n_known: int, *, random_state: int | Sequence[int] | np.ndarray | None = None
) -> Split:
    """Draw known classes and the training half of their samples; all other rows are for testing.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes of all rows.
    n_known : int
        Less than the number of classes.
    random_state : int, sequence of int or None, default=None
        The draw of a seed never changes, on any machine.

    Returns
    -------
    Split
        Trains on floor(n_c / 2) rows of each known class c.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import draw_split
    >>> split = draw_split(np.repeat([0, 1, 2], 5), n_known=2, random_state=0)
    >>> len(split.known), len(split.train), len(split.test)
    (2, 4, 11)
    """
    y = np.asarray(y)
    classes = np.unique(y)
    if not 1 <= n_known < len(classes):
        raise ValueError(
            f"n_known={n_known} must be from 1 to {len(classes) - 1}: there are {len(classes)} "
            "classes, and at least one must be unknown."
        )
    # RandomState, because NumPy promises that its numbers never change.
    rng = np.random.RandomState(random_state)
    known = np.sort(rng.permutation(len(classes))[:n_known])
    train = np.zeros(len(y), dtype=bool)
    for c in known:
        members = np.flatnonzero(y == classes[c])
        train[rng.permutation(members)[: len(members) // 2]] = True
    return Split(classes[known], np.flatnonzero(train), np.flatnonzero(~train))


def comparison_splits(
    y: ArrayLike,
    n_repeats: int = 10,
    *,
    random_state: int | None = None,
    unknown_label: Any = "auto",
) -> list[Simulation]:
    """Draw splits for a comparison of methods: half of the classes are known in each.

    Three are known where possible, so that a search can withhold one. Half of their samples train.

    Parameters
    ----------
    y : array-like of shape (n,)
        At least three classes.
    n_repeats : int, default=10
    random_state : int, default=None
    unknown_label : "auto" or label, default="auto"
        Rows that carry an explicit label are known unknowns: half of them train.

    Returns
    -------
    list of Simulation
    """
    classes, _ = known_classes(unknown_label, np.asarray(y))
    if len(classes) < 3:
        raise ValueError(
            "a comparison withholds classes and needs at least 3 with enough rows; there are "
            f"{len(classes)}: {', '.join(map(str, classes))}"
        )
    n_known = max((len(classes) + 1) // 2, min(3, len(classes) - 1))
    return OpenSetSplit(
        n_repeats, n_known=n_known, random_state=random_state, unknown_label=unknown_label
    ).simulate(y)


@dataclass(frozen=True)
class HeldOutReport:
    """Measures on rows that were not trained on, over turns in which classes were withheld.

    Attributes
    ----------
    turns : list of dict
        For each turn the withheld classes, the numbers of rows (known, unknown, and of the unknown
        those of withheld classes), the measures, and the shares of unknown rows that are rejected:
        ``rejected_withheld`` of withheld classes, ``rejected_others`` of classes that are never
        known. A share without rows is left out.
    classes : dict {label: dict}
        For each class ``named``, the share of its rows that are given their own name when it is
        known, and ``rejected``, the share answered unknown when it is withheld.
    all_known : dict {str: float}
        Means over the turns of the measures of known rows with no class withheld, as the final
        model will know them all: with more classes fewer rows are named correctly. Empty if no
        class could be withheld.
    known_rows : ndarray of shape (n, 3)
        The held-out rows of known classes in the turns with no class withheld: the highest score,
        the class with that score, and the own class, as indices of the known classes.
    """

    turns: list[dict[str, Any]] = field(default_factory=list)
    classes: dict[Any, dict[str, float]] = field(default_factory=dict)
    all_known: dict[str, float] = field(default_factory=dict)
    known_rows: np.ndarray = field(
        default_factory=lambda: np.empty((0, 3)), repr=False, compare=False
    )

    def means(self) -> dict[str, float]:
        """Return the mean of each measure over the turns.

        Returns
        -------
        dict {str: float}
        """
        return self._over_turns(lambda values: float(np.mean(values)))

    def spread(self) -> dict[str, tuple[float, float]]:
        """Return the lowest and the highest value of each measure over the turns.

        Returns
        -------
        dict {str: (float, float)}
        """
        return self._over_turns(lambda values: (min(values), max(values)))

    def _over_turns(self, reduce: Callable) -> dict[str, Any]:
        measures = [turn["measures"] for turn in self.turns]
        return {name: reduce([row[name] for row in measures]) for name in (measures or [{}])[0]}


def held_out_report(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    n_turns: int = 3,
    known: ArrayLike | None = None,
    max_tuning_rows: int | None = None,
    random_state: int | None = None,
    on_turn: Callable[[int, int, list], None] | None = None,
) -> HeldOutReport:
    """Fit in turns, each with some classes withheld, and measure on held-out rows.

    Each turn holds out a fifth of the rows of every class: consecutive rows, first the last ones.
    Neighbouring rows of a table are often alike (the same session, the same author). Held-out rows
    drawn at random would have such neighbours in the training rows, which new rows will not have,
    and the report would be too good. Where the order has no meaning, any fifth is as good.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, a Pipeline that ends in one, or a search of either. With fixed
        parameters the report is about just this setting; if the setting was chosen with the same
        rows, the report is a little optimistic. A search is tuned anew in each turn, so the
        withheld classes have no influence on the parameters, and these differ between turns.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Rows that carry the explicit unknown label of the estimator are known unknowns: most of
        them train in every turn, the others are unknown.
    groups : array-like of shape (n,), default=None
        The object of each row, if rows of one object are alike. An object is held out as a whole,
        in the order in which the objects begin; rows of withheld classes or of classes that are
        never known are left out if their object trains.
    n_turns : int, default=3
        At most one per class. Every class is withheld in exactly one turn, or in at most one where
        that many turns would leave fewer than three classes known; a single turn withholds a third.
    known : array-like, default=None
        The classes to take turns; rows of all others are unknown in every turn. None takes all.
    max_tuning_rows : int, default=None
        Rows that a search uses at most.
    random_state : int, default=None
        Seed of the draw of the classes that are withheld together.
    on_turn : callable, default=None
        Called before each turn with its number, the number of turns and the withheld classes.

    Returns
    -------
    HeldOutReport

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openset import OpenSetSVC
    >>> from openset.evaluation import held_out_report
    >>> X, y = load_digits(return_X_y=True)
    >>> report = held_out_report(OpenSetSVC(gamma=1e-3), X, y, n_turns=2, random_state=0)
    >>> len(report.turns), report.means()["accuracy_known"] > 0.8
    (2, True)
    """
    y = np.asarray(y)
    unknown_label = unwrap(estimator).unknown_label
    classes, _ = known_classes(unknown_label, y if known is None else np.asarray(known))
    if n_turns < 1:
        raise ValueError(f"n_turns={n_turns!r} must be at least 1.")
    if absent := [label for label in classes.tolist() if not np.any(y == label)]:
        raise ValueError(f"known has {absent}, of which y has no row. Leave them out.")
    members = None if groups is None else group_codes(groups, len(y))[1]
    splits = _turn_splits(y, classes, n_turns, random_state, unknown_label, members)
    options: dict[str, Any] = {"max_tuning_rows": max_tuning_rows, "groups": members}
    turns: list[dict[str, Any]] = []
    shares: dict[Any, dict[str, list[float]]] = {label: {} for label in classes.tolist()}
    whole: list[dict[str, float]] = []  # measures with no class withheld
    known_rows = []
    for k, split in enumerate(splits, start=1):
        withheld = np.setdiff1d(classes, split.known).tolist()
        if on_turn is not None:
            on_turn(k, len(splits), withheld)
        result = evaluate_method(estimator, X, y, split, **options)
        turns.append(_turn(result, withheld))
        answers, unknown = result.evaluation.answers, result.evaluation.unknown_label
        for label, parts in shares.items():
            kind, wanted = ("rejected", unknown) if label in withheld else ("named", label)
            share = np.mean(answers[result.evaluation.truth == label] == wanted)
            parts.setdefault(kind, []).append(float(share))
        if withheld:
            others = np.setdiff1d(np.arange(len(y)), split.test)
            if members is not None:
                fits = np.isin(y[others], [*np.unique(y[split.train]), *withheld])
                others = others[fits & ~np.isin(members[others], members[split.test])]
            everything = Split(classes, others, split.test)
            result = evaluate_method(estimator, X, y, everything, **options)
            whole.append(result.measures)
        known = result.evaluation.is_known
        scores, own = result.evaluation.scores[known], result.evaluation.truth[known]
        codes = encode_labels(own, result.evaluation.classes)
        known_rows.append(np.column_stack([scores.max(axis=1), scores.argmax(axis=1), codes]))
    by_class = {
        label: {kind: float(np.mean(parts[kind])) for kind in sorted(parts)}
        for label, parts in shares.items()
    }
    names = _OF_KNOWN if whole else ()
    all_known = {name: float(np.mean([row[name] for row in whole])) for name in names}
    return HeldOutReport(turns, by_class, all_known, np.vstack(known_rows))


def _turn(result, withheld) -> dict[str, Any]:
    """Withheld classes, numbers of rows and measures of a turn, see `HeldOutReport`."""
    evaluation = result.evaluation
    rejected = evaluation.answers == evaluation.unknown_label
    known, in_turn = evaluation.is_known, np.isin(evaluation.truth, withheld)
    rows_of = {"rejected_withheld": in_turn, "rejected_others": ~in_turn & ~known}
    shares = {name: float(np.mean(rejected[rows])) for name, rows in rows_of.items() if rows.any()}
    counts = {"n_known": known, "n_unknown": ~known, "n_withheld": in_turn}
    sizes = {name: int(rows.sum()) for name, rows in counts.items()}
    return {"withheld": withheld, **sizes, "measures": result.measures | shares}


def _turn_splits(y, classes, n_turns, random_state, unknown_label, members=None) -> list[Split]:
    """One split per turn; with fewer than three classes there is one turn."""
    present = np.unique(y)
    unknown = find_unknown_label(unknown_label, present)
    split = [*classes, *(present[[unknown]] if unknown >= 0 else [])]
    groups = [classes[:0]]
    if len(classes) >= 3:
        # Keep three classes known where possible: the search withholds some of them, too.
        fewest = 3 if n_turns == 1 else -(-len(classes) // max(1, len(classes) - 3))
        n_groups = min(max(n_turns, fewest), len(classes))
        shuffled = np.random.default_rng(random_state).permutation(classes)
        groups = np.array_split(shuffled, n_groups)[:n_turns]
    objects = np.arange(len(y)) if members is None else members
    first, trained = np.unique(objects, return_index=True)[1], np.isin(y, split)
    splits = []
    for group, position in zip(groups, np.linspace(1.0, 0.0, len(groups)), strict=True):
        known, chosen = np.setdiff1d(classes, group), np.zeros(len(y), dtype=bool)
        for label in split:
            rows = np.flatnonzero(y == label)
            rows = rows[np.argsort(first[objects[rows]], kind="stable")]  # as the objects begin
            n_test = max(1, int(_TEST_SIZE * len(rows)))
            start = round(position * (len(rows) - n_test))
            chosen[rows[start : start + n_test]] = True
        # Whole objects; what is never trained on is held out unless its object trains.
        held_out = trained & np.isin(objects, objects[chosen])
        fits = trained & ~held_out & ~np.isin(y, group)
        held_out |= ~trained & ~np.isin(objects, objects[fits])
        both = np.intersect1d(y[fits], y[held_out])
        for label in () if members is None else np.setdiff1d(known, both).tolist():
            raise ValueError(
                f"class {label!r} has rows of too few groups to hold some out and train on others: "
                "add groups, or leave the class out."
            )
        splits.append(Split(known, np.flatnonzero(fits), np.flatnonzero(held_out)))
    return splits


def model_card(
    fitted: FittedMethod, report: HeldOutReport, data: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe a tuned model and its held-out report, for ``openset.persistence.save_model``.

    Parameters
    ----------
    fitted : FittedMethod
        Tuned by an :class:`openset.OpenSetSearchCV`.
    report : HeldOutReport
    data : mapping
        Description of the training data.

    Returns
    -------
    dict
        As JSON allows: ``data``, ``steps``, ``parameters``, ``search``, ``held_out`` and
        ``certificate`` (which classes accept a bounded region, and its radius where known).
    """
    final, search = unwrap(fitted.model), fitted.search
    before = search.estimator.get_params()
    steps = getattr(fitted.model, "steps", [("", final)])
    return {
        "data": dict(data),
        "steps": [type(step).__name__ for _, step in steps],
        "parameters": final.get_params(deep=False),
        "search": {
            "chosen": {name.rpartition("__")[2]: v for name, v in fitted.params.items()},
            "defaults": fitted.params == {name: before[name] for name in fitted.params},
            "score": search.best_score_ if np.isfinite(search.best_score_) else None,
            "measure": search.scoring_,
            "scenario": search.scenario_,
            "rows": fitted.n_tuning_rows,
            "settings": len(search.cv_results_["params"]),
            "repeats": search.n_splits_,
        },
        "held_out": {
            "measures": report.means(),
            "spread": report.spread(),
            "all_known": report.all_known,
            "turns": report.turns,
            "by_class": {str(label): row for label, row in report.classes.items()},
        },
        "certificate": certificate_card(final),
    }


def certificate_card(final: BaseEstimator) -> dict[str, Any]:
    """Describe which classes of a fitted model accept a bounded region.

    Parameters
    ----------
    final : estimator
        The open-set estimator itself, unwrapped.

    Returns
    -------
    dict
        As JSON allows: ``bounded``, and ``radius`` where the method has a certificate.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.evaluation import certificate_card
    >>> model = OpenSetSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [0, 0, 1, 1])
    >>> certificate_card(model)["bounded"]
    [True, True]
    """
    card: dict[str, Any] = {"bounded": np.asarray(final.bounded_).tolist()}
    if hasattr(final, "known_radius_"):
        radius = final.known_radius_
        card["radius"] = [float(r) if np.isfinite(r) else None for r in radius]
    return card
