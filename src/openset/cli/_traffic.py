"""``openset traffic``: how much of a table without labels is unknown."""

from typing import Any

import typer

from openset.cli import _options as options
from openset.cli._options import reported, say_wrapped


@reported
def traffic(shared: options.Working, model: options.Model, data: options.Data) -> None:
    """Tell how much of a table without labels is unknown: a promise, and an estimate."""
    from openset.traffic import estimate_traffic

    scorer = shared.model(model)
    if not _has_scores(scorer.final):
        raise ValueError(
            f"{model} holds no scores of rows that it was not fitted to; use `openset calibrate` "
            "on other rows of known classes first, or fit it with --calibration or --turns"
        )
    X = shared.features(scorer, data)
    report = estimate_traffic(scorer.final, scorer.transform(X))
    if shared.as_json:
        typer.echo(report.to_json())
    else:
        say_wrapped(str(report))


def _has_scores(model: Any) -> bool:
    return hasattr(model, "mixture") or hasattr(model, "fold_rows_")


def estimated_share(model: Any, Z: Any) -> dict[str, Any] | None:
    """How much of rows Z is unknown; None without held-out scores or with fewer than 10 rows."""
    from openset.traffic import estimate_traffic

    if not _has_scores(model):
        return None
    try:
        told = estimate_traffic(model, Z).as_dict()
    except ValueError:  # too few rows, or classes that were learned since
        return None
    names = ("unknown_share", "unknown_interval", "unknown_at_least", "confidence", "rows")
    return {name: told[name] for name in names} | {"warning": told["warning"]}
