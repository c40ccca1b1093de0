"""Models as version 0.1.0 saved them, brought to the attributes of this version."""

from __future__ import annotations

from typing import Any

from ..calibration import (
    Accuracy,
    CalibratedRejector,
    Cost,
    KnownRejected,
    Precision,
    UnknownRejected,
)
from ..registry import FORMER_PARAMETERS

# Text of `criterion` -> the criterion, from the parameters that came with it.
_CRITERIA = {
    "fu": lambda old: KnownRejected(
        old["alpha"],
        within="class" if old["per_class"] else None,
        own_class=old["by"] != "highest",  # before there was `by`, the own class counted
    ),
    "precision": lambda old: Precision(old["precision"], old["confidence"], old["unknown_share"]),
    "cost": lambda old: Cost(**old["costs"], unknown_share=old["unknown_share"]),
    "aus": lambda old: UnknownRejected(1 - old["alpha"]),
    "hna": lambda old: Accuracy(),
}


def update_rejector(model: CalibratedRejector) -> None:
    """Replace the parameters of version 0.1.0 by a criterion; complete the attributes."""
    state = model.__dict__
    if "per_class" not in state:
        return
    old: dict[str, Any] = {
        **dict.fromkeys(FORMER_PARAMETERS),
        **state,
    }  # not all are there
    point, alpha = _CRITERIA[old["criterion"]](old), old["alpha"]
    plain = point == KnownRejected(alpha)
    for name in FORMER_PARAMETERS:
        state.pop(name, None)
    state |= {"criterion": None if plain else point, "alpha": alpha if plain else 0.05}
    if "thresholds_" in state:
        state |= {"criterion_": point, "within_": point.within, "categories_": None}
    if "_own_scores" in state:
        state |= {"_own_mass": None, "_known_mass": None, "_group_levels": None}
        state["_known_scores"] = [state["_known_scores"]]
