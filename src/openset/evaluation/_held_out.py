"""Draws of known classes, a report with classes withheld in turns, and the card of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedGroupKFold

from ..base import find_unknown_label, group_codes, known_classes
from ..calibration import CalibratedRejector, calibrate
from ..metrics import encode_labels
from ..model_selection import OpenSetSplit, Simulation
from ..utils import unwrap
from ._harness import Evaluation, FittedMethod, evaluate_method, stratified_rows

if TYPE_CHECKING:  # which needs pyarrow
    from ..tables import Choice, TrainingData

# Share of the rows of each class that is held out for testing, at least one row.
_TEST_SIZE = 0.2
# Measures of known rows, which depend on how many classes are known.
_OF_KNOWN = ("accuracy_known", "false_unknown_rate", "misclassification_rate")
# Known rows with which 5 % of rejected ones can be promised.
_FEWEST_CALIBRATION = 19


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
        return _over_rows([turn["measures"] for turn in self.turns], _mean)

    def spread(self) -> dict[str, tuple[float, float]]:
        """Return the lowest and the highest value of each measure over the turns.

        Returns
        -------
        dict {str: (float, float)}
        """
        measures = [turn["measures"] for turn in self.turns]
        return _over_rows(measures, lambda values: (min(values), max(values)))


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
    if absent := classes[~np.isin(classes, y)].tolist():
        raise ValueError(f"known has {absent}, of which y has no row. Leave them out.")
    members = None if groups is None else group_codes(groups, len(y))[1]
    splits = _turn_splits(y, classes, n_turns, random_state, unknown_label, members)
    options: dict[str, Any] = {"max_tuning_rows": max_tuning_rows, "groups": members}
    turns: list[dict[str, Any]] = []
    answered: list[dict[Any, tuple[str, float]]] = []
    whole: list[dict[str, float]] = []  # measures with no class withheld
    known_rows = []
    for k, split in enumerate(splits, start=1):
        withheld = np.setdiff1d(classes, split.known).tolist()
        if on_turn is not None:
            on_turn(k, len(splits), withheld)
        result = evaluate_method(estimator, X, y, split, **options)
        turns.append(_turn(result, withheld))
        answered.append(_answered(result.evaluation, classes.tolist(), withheld))
        if withheld:
            everything = _with_all(split, y, classes, members)
            result = evaluate_method(estimator, X, y, everything, **options)
            whole.append({name: result.measures[name] for name in _OF_KNOWN})
        known_rows.append(_best_scores(result.evaluation))
    by_class = _over_rows(answered, _by_kind)
    return HeldOutReport(turns, by_class, _over_rows(whole, _mean), np.vstack(known_rows))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _over_rows(rows: Sequence[Mapping[Any, Any]], reduce: Callable) -> dict[Any, Any]:
    """One value per key from those of all rows, which have the keys of the first."""
    return {name: reduce([row[name] for row in rows]) for name in (rows or [{}])[0]}


def _answered(evaluation: Evaluation, classes: list, withheld: list) -> dict[Any, tuple]:
    """By class: the share of its rows that are rejected, if it is withheld, or else named."""
    shares = {}
    for label in classes:
        wanted = evaluation.unknown_label if label in withheld else label
        share = _mean(evaluation.answers[evaluation.truth == label] == wanted)
        shares[label] = "rejected" if label in withheld else "named", share
    return shares


def _by_kind(shares: Sequence[tuple[str, float]]) -> dict[str, float]:
    kinds = sorted({kind for kind, _ in shares})
    return {k: _mean([share for kind, share in shares if kind == k]) for k in kinds}


def _with_all(split: Split, y: np.ndarray, classes: np.ndarray, members: Any) -> Split:
    """The split with no class withheld: all rows but the held-out ones and their objects train."""
    train = np.setdiff1d(np.arange(len(y)), split.test)
    if members is not None:
        fits = np.isin(y[train], [*np.unique(y[split.train]), *classes])
        train = train[fits & ~np.isin(members[train], members[split.test])]
    return Split(classes, train, split.test)


def _best_scores(evaluation: Evaluation) -> np.ndarray:
    """``known_rows`` of a turn, see `HeldOutReport`."""
    known = evaluation.is_known
    scores, codes = evaluation.scores[known], encode_labels(evaluation.truth, evaluation.classes)
    return np.column_stack([scores.max(axis=1), scores.argmax(axis=1), codes[known]])


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


def operating_point_card(
    rejector: CalibratedRejector, recorded: Mapping[str, Any]
) -> dict[str, Any]:
    """What the card of a calibrated model says, in addition to what was asked for."""
    point = {
        "rows": rejector.n_calibration_,
        "promise": rejector.promise_,
        "price": rejector.price_,
        "thresholds": rejector.thresholds_.tolist(),
    }
    return {"operating_point": {**recorded, **point}, "certificate": certificate_card(rejector)}


def hold_back(
    training: TrainingData, choice: Choice, share: float, fewest: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit, and a share of each class, or whole objects, to calibrate on."""
    rows = np.flatnonzero(choice.used)
    if not share:
        return rows, rows[:0]
    _, y, groups = training.take(rows)
    if groups is None:
        n_fit = round((1 - share) * len(y))
        fit = stratified_rows(y, n_fit, min_per_class=fewest, random_state=seed)
    else:
        n_parts = min(max(2, round(1 / share)), len(np.unique(groups)))
        parts = StratifiedGroupKFold(n_parts, shuffle=True, random_state=seed)
        fit = next(parts.split(y, y, groups))[0]
    kept = np.setdiff1d(np.arange(len(y)), fit)
    lost = np.setdiff1d(choice.classes, y[fit])
    n_known = int(np.isin(y[kept], choice.classes).sum())
    problem = ""
    if n_known < _FEWEST_CALIBRATION:
        problem = f"{n_known} rows to calibrate on; at least {_FEWEST_CALIBRATION} are needed"
    if lost.size:
        problem = f"no row of {lost[0]!r} to fit"
    if problem:
        raise ValueError(f"--calibration {share:g} leaves {problem}: add rows, or change the share")
    return rows[fit], rows[kept]


def complete_model(
    fitted: FittedMethod,
    training: TrainingData,
    choice: Choice,
    unfitted: np.ndarray,
    data: Mapping[str, Any],
    *,
    n_turns: int,
    seed: int,
    on_turn: Callable[[int, int, list], None],
) -> tuple[BaseEstimator, dict[str, Any]]:
    """The model that takes tables, calibrated on the rows `unfitted` if any, and its card."""
    model, report = fitted.model, HeldOutReport()
    if n_turns:
        report = held_out_report(
            *(clone(model), training.X, training.y),  # the setting that is saved
            groups=training.groups,
            n_turns=n_turns,
            known=choice.classes,
            random_state=seed,
            on_turn=on_turn,
        )
    if len(report.known_rows):
        unwrap(model).fold_rows_ = report.known_rows
    card = model_card(fitted, report, data)
    if len(unfitted):
        X, y, groups = training.take(unfitted)
        n_unknown = int(np.sum(y == unwrap(model).unknown_label_))
        recorded: dict[str, Any] = {"alpha": 0.05, "per_class": False, "by": None}
        recorded |= {"source": data["source"], "unknown_rows": n_unknown}
        recorded |= {} if groups is None else {"group": training.group}
        model = calibrate(model, X, y, groups=groups)
        card |= operating_point_card(unwrap(model), recorded)
    steps = [("table", training.encoder), *model.steps]
    card["steps"] = [type(step).__name__ for _, step in steps]
    return type(model)(steps), card
