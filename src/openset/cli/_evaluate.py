"""``openset evaluate``: a model, and a table whose classes are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._failures import reported

if TYPE_CHECKING:
    from openset.evaluation import Evaluation

# Points of a curve in the JSON: enough to draw it, whatever the number of rows.
_CURVE_POINTS = 200


@reported
def evaluate(
    model: options.Model,
    data: options.Data,
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", help="Column of the class; classes that were not learned are unknown."
        ),
    ],
    figures: Annotated[
        Path | None, typer.Option(help="Folder for figures: confusion matrix, curves, scores.")
    ] = None,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Measure a model on a table: known rows named, unknown rows rejected, and the curves."""
    from openset.cli._predict import TableScorer
    from openset.datasets.tables import open_table, require

    if figures is not None:  # fail before any work is done
        import openset.plots  # noqa: F401

        options.check_folder(figures / "figure.png")
    scorer = TableScorer(model, jobs)
    table = open_table(data, encoding)
    require(table, [target], "the target")
    evaluation, others = _score(scorer, table, target)
    drawn = _draw(evaluation, figures) if figures is not None else []
    if as_json:
        typer.echo(json.dumps(_as_json(evaluation, others), indent=1))
        return
    typer.echo("\n".join(_lines(evaluation, others, str(data))))
    for path in drawn:
        typer.echo(f"wrote {path}")


def _score(scorer, table, target) -> tuple[Evaluation, list[str]]:
    """Score the table; labels are compared as texts, so that 1, 1.0 and "1" are one class.

    Returns the evaluation, and the labels that count as unknown.
    """
    import numpy as np

    from openset.cli._training import label_text
    from openset.datasets.tables import TableError
    from openset.evaluation import Evaluation
    from openset.utils import answer_labels

    final = scorer.final
    codes = {label_text(label): code for code, label in enumerate(final.classes_.tolist())}
    unknown, others, n_rows = len(codes), {}, 0
    truth, scores = [], []
    for block in scorer.blocks(table, "evaluate"):
        labels = block.batch.column(target).dictionary_encode()
        texts = [label_text(value) for value in labels.dictionary.to_pylist()]
        indices = labels.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        blank = np.array([text is None for text in texts] + [True])[indices]
        if blank.any():
            raise TableError(
                f"{table.path} has no class in {target!r} in data row "
                f"{n_rows + np.argmax(blank) + 1}; fill it or drop the row"
            )
        others |= dict.fromkeys(text for text in texts if text not in codes)
        lookup = np.array([codes.get(text, unknown) for text in texts] + [unknown])
        truth.append(lookup[indices])
        scores.append(block.scores)
        n_rows += len(indices)
    answers = answer_labels(final.classes_, final.unknown_label_)[np.concatenate(truth)]
    evaluation = Evaluation(answers, np.concatenate(scores), final.classes_, final.unknown_label_)
    return evaluation, list(others)


def _as_json(evaluation: Evaluation, others: list[str]) -> dict[str, Any]:
    import numpy as np

    from openset.metrics import oscr_curve

    fpr, ccr, threshold = oscr_curve(evaluation.truth, evaluation.scores, known=evaluation.classes)
    shown = np.unique(np.linspace(1, len(fpr) - 1, _CURVE_POINTS).astype(int))
    curve = {
        "false_positive_rate": fpr[shown].tolist(),
        "correct_classification_rate": ccr[shown].tolist(),
        "threshold": threshold[shown].tolist(),
    }
    per_class = evaluation.report["per_class"]
    labels = [*evaluation.classes, evaluation.unknown_label]
    return {
        "rows": len(evaluation.truth),
        "unknown_rows": int((~evaluation.is_known).sum()),
        "unknown_labels": others,
        "measures": evaluation.measures,
        "per_class": {  # NaN is not valid JSON: what is not defined is null
            str(label): {k: v if np.isfinite(v) else None for k, v in row.items()}
            for label, row in per_class.items()
        },
        "confusion": {
            "labels": [str(label) for label in labels],
            "counts": evaluation.confusion_matrix.tolist(),
        },
        "oscr": curve if np.isfinite(fpr).all() and np.isfinite(ccr).all() else None,
    }


def _lines(evaluation: Evaluation, others: list[str], source: str) -> list[str]:
    from openset.cli._text import measure_lines, shortened

    n_unknown = int((~evaluation.is_known).sum())
    which = f" (classes the model has not learned: {shortened(others, 11)})" if n_unknown else ""
    return [
        f"{source}: {len(evaluation.truth):,} rows, {n_unknown:,} of them unknown{which}",
        *measure_lines(evaluation.measures),
        "",
        str(evaluation.report).partition("\n\n")[0],
        "",
        *_mistakes(evaluation),
    ]


def _mistakes(evaluation: Evaluation) -> list[str]:
    """The largest counts off the diagonal; the whole matrix is in the JSON and the figure."""
    import numpy as np

    counts = evaluation.confusion_matrix
    names = [*map(str, evaluation.classes), "unknown"]
    off = counts - np.diag(np.diag(counts))
    order = np.argsort(-off, axis=None, kind="stable")[:8]
    rows = [np.unravel_index(k, off.shape) for k in order if off.flat[k]]
    if not rows:
        return ["no row is answered wrongly"]
    return ["most frequent mistakes:"] + [
        f"  {names[i]} answered {names[j]}: {off[i, j]:,} of {counts[i].sum():,}" for i, j in rows
    ]


def _draw(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write the figures into a folder; return their paths."""
    from matplotlib.figure import Figure

    from openset import plots
    from openset.utils import atomic_write

    truth, scores, known = evaluation.truth, evaluation.scores, evaluation.classes
    best, is_known = scores.max(axis=1), evaluation.is_known
    side = max(6.0, 2 + 0.3 * len(known))
    figures = {
        "confusion_matrix.png": (
            side,
            lambda ax: plots.OpenSetConfusionMatrixDisplay.from_predictions(
                truth,
                evaluation.answers,
                known=known,
                unknown_label=evaluation.unknown_label,
                normalize="true",
                ax=ax,
            ),
        )
    }
    if is_known.any() and not is_known.all():
        for name, display, values in (
            ("oscr.png", plots.OSCRDisplay, scores),
            ("roc.png", plots.KnownROCDisplay, best),
            ("scores.png", plots.ScoreHistogramDisplay, best),
        ):
            figures[name] = (
                6.0,
                lambda ax, display=display, values=values: display.from_predictions(
                    truth, values, known=known, ax=ax
                ),
            )
    for name, (side, draw) in figures.items():
        figure = Figure(figsize=(side, side), layout="constrained")
        draw(figure.subplots())
        with atomic_write(folder / name) as temporary:
            figure.savefig(temporary, dpi=120)
    return [folder / name for name in figures]
