"""``openset evaluate``: a model, and a table whose classes are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from openset.cli import _options as options
from openset.cli._options import Role, reported

if TYPE_CHECKING:
    from openset.evaluation import Evaluation

# Points of a curve in the JSON: enough to draw it, whatever the number of rows.
_CURVE_POINTS = 200


@reported
def evaluate(
    shared: options.Working,
    model: options.Model,
    data: options.Data,
    target: options.Target,
    unknown: options.Unknown = None,
    group: options.Column = None,
    figures: Annotated[Path | None, Role("writes", ("*.png",))] = None,
) -> None:
    """Measure a model on a table: known rows named, unknown rows rejected, and the curves.

    target: Column of the class; classes that were not learned are unknown.
    group: Measure one answer per object, the rows that are alike in this column.
    figures: Folder for figures: confusion matrix, curves, scores.
    """
    import numpy as np

    from openset.evaluation import Evaluation

    if figures is not None:  # fail before any work is done
        import openset.plots  # noqa: F401

        options.prepare_output(figures / "figure.png")
    scorer = shared.model(model)
    final, within = scorer.final, scorer.category_column
    rows = scorer.labelled(shared.open(data), target, unknown, (within, group))
    batches = [
        (y, scorer.scores(scorer.transform(X), rows.texts(within, len(X))))
        for X, y in rows.batches("evaluate")
    ]
    truth, scores = map(np.concatenate, zip(*batches, strict=True))
    kind = "rows" if group is None else "objects"
    if group is not None:
        truth, scores = _of_objects(truth, scores, rows.texts(group), group, scorer.aggregate)
    evaluation = Evaluation(truth, scores, final.classes_, final.unknown_label_)
    drawn = _draw(evaluation, figures) if figures is not None else []
    lines = _lines(evaluation, rows.others, str(data), kind)
    told = _as_json(evaluation, rows.others, kind) if shared.as_json else {}
    shared.tell(told, lines + [f"wrote {path}" for path in drawn])


def _of_objects(truth, scores, groups, column: str, aggregate: str):
    """The class and the scores of each object."""
    import numpy as np

    from openset.base import group_scores

    names, of_objects = group_scores(scores, groups, aggregate=aggregate)
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    mixed = truth != truth[first][codes]
    if mixed.any():
        name = names[codes[mixed.argmax()]]
        raise ValueError(
            f"the rows of {column} {name!r} are of more than one class, but an object has one "
            "answer; name another column, or leave --group out"
        )
    return truth[first], of_objects


def _as_json(evaluation: Evaluation, others: list[str], kind: str) -> dict[str, Any]:
    import numpy as np

    from openset.metrics import oscr_curve

    curve = oscr_curve(evaluation.truth, evaluation.scores, known=evaluation.classes)
    shown = np.unique(np.linspace(1, len(curve[0]) - 1, _CURVE_POINTS).astype(int))
    names = ("false_positive_rate", "correct_classification_rate", "threshold")
    oscr = {name: values[shown].tolist() for name, values in zip(names, curve, strict=True)}
    labels = [*evaluation.classes, evaluation.unknown_label]
    return {
        kind: len(evaluation.truth),
        f"unknown_{kind}": int((~evaluation.is_known).sum()),
        "unknown_labels": others,
        "measures": evaluation.measures,
        "per_class": {  # NaN is not valid JSON: what is not defined is null
            str(label): {k: v if np.isfinite(v) else None for k, v in row.items()}
            for label, row in evaluation.report["per_class"].items()
        },
        "confusion": {
            "labels": [str(label) for label in labels],
            "counts": evaluation.confusion_matrix.tolist(),
        },
        "oscr": oscr if np.isfinite(curve[:2]).all() else None,
    }


def _lines(evaluation: Evaluation, others: list[str], source: str, kind: str) -> list[str]:
    import numpy as np

    from openset.cli._text import measure_lines
    from openset.utils.text import shortened

    n_unknown = int((~evaluation.is_known).sum())
    which = f" (classes the model has not learned: {shortened(others, 11)})" if n_unknown else ""
    lines = [
        f"{source}: {len(evaluation.truth):,} {kind}, {n_unknown:,} of them unknown{which}",
        *measure_lines(evaluation.measures),
        "",
        *evaluation.report.class_table().split("\n"),
        "",
    ]
    # The largest counts off the diagonal; the whole matrix is in the JSON and the figure.
    counts = evaluation.confusion_matrix
    names = [*map(str, evaluation.classes), "unknown"]
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:8]
    mistakes = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    lines.append("most frequent mistakes:" if mistakes else "no row is answered wrongly")
    return lines + [
        f"  {names[i]} answered {names[j]}: {wrong[i, j]:,} of {counts[i].sum():,}"
        for i, j in mistakes
    ]


def _draw(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write the figures into a folder; return their paths."""
    from matplotlib.figure import Figure

    from openset import plots
    from openset.utils import atomic_write

    truth, known, is_known = evaluation.truth, evaluation.classes, evaluation.is_known
    best = evaluation.scores.max(axis=1)
    options = {"unknown_label": evaluation.unknown_label, "normalize": "true"}
    figures: dict[str, tuple] = {
        "confusion_matrix": (
            *(plots.OpenSetConfusionMatrixDisplay, evaluation.answers, options),
            max(6.0, 2 + 0.3 * len(known)),
        )
    }
    if is_known.any() and not is_known.all():
        figures["oscr"] = plots.OSCRDisplay, evaluation.scores, {}, 6.0
        figures["roc"] = plots.KnownROCDisplay, best, {}, 6.0
        figures["scores"] = plots.ScoreHistogramDisplay, best, {}, 6.0
    paths = [folder / f"{name}.png" for name in figures]
    for path, (display, values, options, side) in zip(paths, figures.values(), strict=True):
        figure = Figure(figsize=(side, side), layout="constrained")
        display.from_predictions(truth, values, known=known, **options, ax=figure.subplots())
        with atomic_write(path) as temporary:
            figure.savefig(temporary, dpi=120)
    return paths
