"""``openset learn``: a model and decisions in, a model that follows them out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._options import READS, UsageError, complain, reported
from openset.cli._text import describe_changes


@reported
def learn(
    shared: options.Working,
    model: options.ReplacedModel,
    output: options.NewModel,
    data: Annotated[tuple[Path, Path] | None, typer.Option(metavar="TRAIN NEW"), READS] = None,
    decisions: options.ReadFile = None,
    target: options.TrainTarget = None,
    unknown: options.Unknown = None,
    remove: list[str] | None = None,
    rename: list[str] | None = None,
    seed: options.Seed = 0,
) -> None:
    """Teach a model: new classes, corrected rows, rows of no class; remove or rename classes.

    data: Training table, and the new one, for --decisions and --unknown.
    decisions: CSV with row, decision (new, class, junk), label; from `openset review`.
    remove: Class to remove; may be given several times.
    rename: Rename a class: OLD=NEW; may be given several times.
    """
    import numpy as np

    from openset.discovery import Decisions, read_decisions
    from openset.evaluation import learn_decisions
    from openset.persistence import descent

    options.prepare_output(output)
    asked = options.given(decisions=decisions, unknown=unknown, remove=remove, rename=rename)
    if not asked:
        raise UsageError(
            "there is nothing to do: give --decisions, --unknown, --remove or --rename"
        )
    if data is None and (needing := [*asked.keys() - {"--remove", "--rename"}]):
        raise UsageError(
            f"{min(needing)} needs --data TRAIN NEW: the training table and the new one"
        )
    scorer = shared.model(model)
    final = scorer.final
    classes = {str(label): label for label in final.classes_.tolist()}
    removed = [_class_of(name, classes, f"--remove {name}") for name in asked.get("--remove", ())]
    renamed = dict(_renamed(pair, classes) for pair in asked.get("--rename", ()))
    X, y, X_unknown, X_new = 4 * [np.empty((0, 0))]  # to remove or rename needs no rows
    if data is not None:
        X, y, X_unknown, _ = scorer.read_training(shared.open(data[0]), target, unknown)
        X_new = shared.features(scorer, data[1])
    told = Decisions(np.empty(0, dtype=np.intp), [], [])
    if decisions is not None:
        told = read_decisions(decisions, len(X_new), final.classes_, final.unknown_label_)
    learned = learn_decisions(
        *(scorer.model, X, y, X_new, told),
        X_unknown=X_unknown,
        remove=removed,
        rename=renamed,
        random_state=seed,
    )
    for warning in learned.warnings:
        complain(f"warning: {warning}")
    more = {"learned": learned.report, "descent": descent(model, learned.changes)}
    lines = describe_changes(learned.changes, learned.report)
    save_taught(shared, learned.model, output, scorer.card, more, lines)


def save_taught(
    shared: options.Output, model: Any, output: Path, card: dict, more: dict, lines: list[str]
) -> None:
    """Save a model that learned, with `more` on its card, and tell it."""
    from openset.evaluation import certificate_card
    from openset.persistence import save_model
    from openset.utils import unwrap

    kept = {k: card[k] for k in ("data", "steps", "parameters", "search") if k in card}
    certificate = {"certificate": certificate_card(unwrap(model))}
    written = save_model(model, output, kept | more | certificate)
    shared.tell({"classes": written["classes"], **more}, [*lines, *options.saved(output)])


def _class_of(name: str, classes: dict[str, Any], option: str) -> Any:
    from openset.utils.text import shortened

    if name not in classes:
        raise ValueError(
            f"{option}: the model has no class {name!r}; it has {shortened(list(classes))}"
        )
    return classes[name]


def _renamed(pair: str, classes):
    old, equals, new = pair.partition("=")
    if not equals or not new:
        raise UsageError(f"--rename {pair}: write OLD=NEW")
    label = _class_of(old, classes, f"--rename {pair}")
    if new in classes:
        raise ValueError(f"--rename {pair}: there is a class {new!r}; to merge two, fit again")
    try:
        return label, new if isinstance(label, str) else type(label)(new)
    except ValueError:
        raise ValueError(f"--rename {pair}: the classes are numbers, but {new!r} is not") from None
