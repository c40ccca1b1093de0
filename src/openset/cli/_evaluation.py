"""Measures, confusion matrix and curves of a model on a table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from openset import metrics
from openset.cli._card import measure_lines
from openset.cli._measures import answers_of, measures
from openset.cli._scoring import Scorer
from openset.cli._tables import Table, TableError, label_text
from openset.utils import answer_labels, atomic_write

# Points of a curve in the JSON: enough to draw it, whatever the number of rows.
_CURVE_POINTS = 200


@dataclass
class Evaluation:
    """True classes and acceptance scores of all rows of a table.

    Attributes
    ----------
    final : estimator
    truth : ndarray of shape (n,)
        Classes of the model, or its unknown label for all others.
    scores : ndarray of shape (n, K)
    others : list of str
        The labels that count as unknown.
    """

    final: BaseEstimator
    truth: np.ndarray
    scores: np.ndarray
    others: list[str]

    @classmethod
    def of(cls, scorer: Scorer, table: Table, target: str) -> Evaluation:
        """Score the table; labels are compared as texts, so that 1, 1.0 and "1" are one class."""
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
                    f"{n_rows + np.argmax(blank) + 1}; fill it, or leave the row out"
                )
            others |= dict.fromkeys(text for text in texts if text not in codes)
            lookup = np.array([codes.get(text, unknown) for text in texts] + [unknown])
            truth.append(lookup[indices])
            scores.append(block.scores)
            n_rows += len(indices)
        answers = answer_labels(final.classes_, final.unknown_label_)[np.concatenate(truth)]
        return cls(final, answers, np.concatenate(scores), list(others))

    @property
    def answers(self) -> np.ndarray:
        """What the model answers, (n,)."""
        return answers_of(self.final, self.scores)

    def confusion(self) -> np.ndarray:
        """The (K + 1, K + 1) counts, unknown last."""
        return metrics.open_set_confusion_matrix(
            self.truth,
            self.answers,
            known=self.final.classes_,
            unknown_label=self.final.unknown_label_,
        )

    def report(self) -> metrics.OpenSetReport:
        """Every measure of the answers, and precision, recall and F of each class."""
        return metrics.open_set_report(
            self.truth,
            self.answers,
            known=self.final.classes_,
            unknown_label=self.final.unknown_label_,
        )

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON allows."""
        per_class = {str(label): row for label, row in self.report()["per_class"].items()}
        fpr, ccr, thresholds = metrics.oscr_curve(
            self.truth, self.scores, known=self.final.classes_
        )
        shown = np.unique(np.linspace(1, len(fpr) - 1, _CURVE_POINTS).astype(int))
        has_curve = np.isfinite(fpr).all() and np.isfinite(ccr).all()
        curve = {
            "false_positive_rate": fpr[shown].tolist(),
            "correct_classification_rate": ccr[shown].tolist(),
            "threshold": thresholds[shown].tolist(),
        }
        return {
            "rows": len(self.truth),
            "unknown_rows": int(np.sum(self.truth == self.final.unknown_label_)),
            "unknown_labels": self.others,
            "measures": measures(self.truth, self.scores, self.final),
            "per_class": _without_nan(per_class),
            "confusion": {
                "labels": [*map(str, self.final.classes_), str(self.final.unknown_label_)],
                "counts": self.confusion().tolist(),
            },
            "oscr": curve if has_curve else None,
        }

    def lines(self, source: str) -> list[str]:
        """The report as text."""
        n_unknown = int(np.sum(self.truth == self.final.unknown_label_))
        others = f" (classes the model has not learned: {_some(self.others)})" if n_unknown else ""
        text = [
            f"{source}: {len(self.truth):,} rows, {n_unknown:,} of them unknown{others}",
            *measure_lines(measures(self.truth, self.scores, self.final)),
            "",
            str(self.report()).partition("\n\n")[0],
        ]
        return [*text, "", *self._confused()]

    def _confused(self):
        """The largest counts off the diagonal; the whole matrix is in the JSON and the figure."""
        counts = self.confusion()
        names = [*map(str, self.final.classes_), "unknown"]
        off = counts - np.diag(np.diag(counts))
        order = np.argsort(-off, axis=None, kind="stable")[:8]
        rows = [np.unravel_index(k, off.shape) for k in order if off.flat[k]]
        if not rows:
            return ["no row is answered wrongly"]
        return ["most frequent mistakes:"] + [
            f"  {names[i]} answered {names[j]}: {off[i, j]:,} of {counts[i].sum():,}"
            for i, j in rows
        ]

    def draw(self, folder: Path) -> list[Path]:
        """Write the figures into a folder; return their paths."""
        from matplotlib.figure import Figure

        from openset import plots

        known = self.final.classes_
        is_unknown = self.truth == self.final.unknown_label_
        labels = {"known": known, "unknown_label": self.final.unknown_label_}
        score = self.scores.max(axis=1)
        displays = {
            "confusion_matrix.png": lambda ax: plots.OpenSetConfusionMatrixDisplay.from_predictions(
                self.truth, self.answers, **labels, normalize="true", ax=ax
            ),
        }
        if is_unknown.any() and not is_unknown.all():
            displays |= {
                "oscr.png": lambda ax: plots.OSCRDisplay.from_predictions(
                    self.truth, self.scores, known=known, ax=ax
                ),
                "roc.png": lambda ax: plots.KnownROCDisplay.from_predictions(
                    self.truth, score, known=known, ax=ax
                ),
                "scores.png": lambda ax: plots.ScoreHistogramDisplay.from_predictions(
                    self.truth, score, known=known, ax=ax
                ),
            }
        paths = []
        for name, drawn in displays.items():
            side = max(6.0, 2 + 0.3 * len(known)) if name.startswith("confusion") else 6.0
            figure = Figure(figsize=(side, side), layout="constrained")
            drawn(figure.subplots())
            with atomic_write(folder / name) as temporary:
                figure.savefig(temporary, dpi=120)
            paths.append(folder / name)
        return paths


def _some(names):
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def _without_nan(per_class):
    """NaN is no JSON: what is not defined is null."""
    return {
        label: {k: v if np.isfinite(v) else None for k, v in row.items()}
        for label, row in per_class.items()
    }
