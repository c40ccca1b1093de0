"""``openset learn``: a model and decisions in, a model that follows them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openset.cli import _options as options
from openset.cli._failures import complain, reported, say
from openset.cli._paths import READS
from openset.cli._text import data_of, describe_changes, shortened


@reported
def learn(
    model: options.ReplacedModel,
    data: Annotated[
        tuple[Path, Path],
        typer.Option("--data", metavar="TRAIN NEW", help="Training table, and the new one."),
        READS,
    ],
    output: options.NewModel,
    decisions: Annotated[
        Path | None,
        typer.Option(
            help="CSV with row, decision (new, class, junk), label; from `openset review`."
        ),
        READS,
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", "-t", help="Column of the class in TRAIN; default: as fitted."),
    ] = None,
    unknown: options.Unknown = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Class to remove; may be given several times.")
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(help="Rename a class: OLD=NEW; may be given several times.")
    ] = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Teach a model: new classes, corrected rows, rows of no class; remove or rename classes."""
    import numpy as np

    from openset.cli._labels import labels_by_text
    from openset.cli._scoring import TableScorer
    from openset.datasets.tables import TableError, open_table
    from openset.discovery import Decisions, read_decisions
    from openset.evaluation import certificate_card, learn_decisions
    from openset.persistence import descent, load_model, read_card, save_model
    from openset.utils import unwrap

    options.prepare_output(output)
    if not (decisions or unknown or remove or rename):
        raise ValueError(
            "there is nothing to do: give --decisions, --unknown, --remove or --rename"
        )
    card = read_card(model)
    target = data_of(card).get("target") if target is None else target
    if target is None:
        raise TableError(f"{model} does not say which column the class is; give --target")
    scorer = TableScorer(model, jobs)
    classes = {str(label): label for label in scorer.final.classes_.tolist()}
    for name in remove or ():
        _check_class(name, classes, f"--remove {name}")
    training = scorer.read_training(open_table(data[0], encoding), target)
    labels = labels_by_text(classes.values())
    if getattr(scorer.final, "n_known_unknowns_", 0):
        labels[str(scorer.final.unknown_label_)] = scorer.final.unknown_label_
    used = np.isin(training.y, list(labels))
    if not used.any():
        raise TableError(
            f"{data[0]} has no row of a class that the model has learned in {target!r}; the "
            f"classes are {shortened(list(classes))}"
        )
    y = np.array([labels[label] for label in training.y[used].tolist()])
    X_new = scorer.read(open_table(data[1], encoding), raw=True)
    told = Decisions(np.empty(0, dtype=np.intp), [], [])
    if decisions is not None:
        told = read_decisions(
            decisions, len(X_new), scorer.final.classes_, scorer.final.unknown_label_
        )
    if unknown in classes:
        raise TableError(
            f"--unknown: the model has learned {unknown!r} as a class; take it out with --remove"
        )
    if unknown is not None and unknown not in labels:  # as if they were new, and junk
        junk = training.X[training.y == training.unknown_label(unknown, data[0])]
        n = len(junk)
        rows = np.append(told.rows, np.arange(len(X_new), len(X_new) + n))
        told = Decisions(rows, [*told.kinds, *["junk"] * n], [*told.labels, *[None] * n])
        X_new = np.concatenate([X_new, junk])
    learned = learn_decisions(
        load_model(model),
        training.X[used],
        y,
        X_new,
        told,
        remove=[classes[name] for name in remove or ()],
        rename=dict(_renamed(pair, classes) for pair in rename or ()),
        random_state=seed,
    )
    for warning in learned.warnings:
        complain(f"warning: {warning}")
    kept = {k: card[k] for k in ("data", "steps", "parameters", "search") if k in card}
    more = {"learned": learned.report, "descent": descent(model, learned.changes)}
    certificate = certificate_card(unwrap(learned.model))
    written = save_model(learned.model, output, kept | more | {"certificate": certificate})
    if as_json:
        typer.echo(json.dumps({"classes": written["classes"], **more}, indent=1))
        return
    say(*describe_changes(learned.changes, learned.report), f"saved {output}")


def _check_class(name: str, classes, option: str) -> None:
    if name not in classes:
        raise ValueError(
            f"{option}: the model has no class {name!r}; it has {shortened(list(classes))}"
        )


def _renamed(pair: str, classes):
    old, equals, new = pair.partition("=")
    if not equals or not new:
        raise ValueError(f"--rename {pair}: write OLD=NEW")
    _check_class(old, classes, f"--rename {pair}")
    if new in classes:
        raise ValueError(f"--rename {pair}: there is a class {new!r}; to merge two, fit again")
    label = classes[old]
    try:
        return label, new if isinstance(label, str) else type(label)(new)
    except ValueError:
        raise ValueError(f"--rename {pair}: the classes are numbers, but {new!r} is not") from None
