"""The demonstration: digits of which three methods have learned only some."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from ..base.parameters import BOXES, SCALED_GAMMAS, unit_gamma
from ..evaluation import MethodResult, compare_methods, draw_split
from ..model_selection import OpenSetSearchCV
from ..svm import OneVsRestSVC, OpenSetSVC
from ..utils import atomic_write
from ..utils.text import text_table
from ..wrappers import ThresholdRejector

_CONTROL = "OpenSetSVC"
_N_NOISE = 1000
_N_SHOWN = 3  # samples of each digit in the picture


@dataclass
class Demonstration:
    """Three methods learn six digits; `results`, their text and a picture say how they do."""

    seed: int = 0

    def __post_init__(self):
        X, self.y = load_digits(return_X_y=True)
        self.X = X / 16  # grey levels to [0, 1]
        self.split = draw_split(self.y, 6, random_state=self.seed)
        # Rows of the first test samples of each digit, (10, _N_SHOWN).
        digits = self.y[self.split.test]
        self.shown = np.stack([np.flatnonzero(digits == k)[:_N_SHOWN] for k in range(10)])

    @property
    def introduction(self) -> str:
        """Which digits are learned."""
        known = self.split.known
        unknown = [digit for digit in range(10) if digit not in known]
        return (
            f"Digits {', '.join(map(str, known))} are learned from {len(self.split.train)} "
            f"samples; {', '.join(map(str, unknown))} are never shown, and should be answered "
            "'unknown'."
        )

    @cached_property
    def results(self) -> dict[str, tuple[MethodResult, int]]:
        """By method, ours last: its result, and how many noise inputs it rejects."""
        unit = unit_gamma(self.X[self.split.train], np.ones(len(self.split.train)))
        boxes = {"estimator__C": BOXES}
        probabilities = {"threshold": np.linspace(0, 1, 101)[:-1].tolist()}
        margins = {"threshold": np.linspace(-1, 1, 81).tolist()}
        margins["estimator__gamma"] = [unit * factor for factor in SCALED_GAMMAS]
        logistic = ThresholdRejector(LogisticRegression(max_iter=5000))
        svm = ThresholdRejector(OneVsRestSVC(), response_method="decision_function")
        searches = {
            "logistic regression": OpenSetSearchCV(logistic, boxes | probabilities),
            "SVM": OpenSetSearchCV(svm, boxes | margins),
            _CONTROL: OpenSetSearchCV(OpenSetSVC()),
        }
        compared = compare_methods(searches, self.X, self.y, [self.split], random_state=self.seed)
        results = {method.name: method.results[0] for method in compared}
        directions = np.random.default_rng(self.seed).normal(size=(_N_NOISE, self.X.shape[1]))
        noise = 100 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        rejected = {n: np.sum(r.fitted.model.predict(noise) == -1) for n, r in results.items()}
        return {name: (results[name], int(rejected[name])) for name in searches}

    @property
    def answers(self) -> list[str]:
        """What our method answers to the test images."""
        answers = self.results[_CONTROL][0].evaluation.answers
        return ["unknown" if answer < 0 else str(answer) for answer in answers]

    def verdict(self) -> list[str]:
        """What the user gains, in words that follow from the numbers."""
        ours, our_noise = self.results[_CONTROL]
        n_known = int(ours.evaluation.is_known.sum())
        n_unknown = len(self.split.test) - n_known
        rejected, named = (ours.measures[f"accuracy_{kind}"] for kind in ("unknown", "known"))
        sentences = [
            f"{_CONTROL} rejects {rejected:.1%} of {n_unknown} images of digits it has never seen, "
            f"names {named:.1%} of {n_known} new images of learned digits correctly, and "
            f"{_bounded(ours)} regions are provably bounded."
        ]
        for name, (result, noise) in list(self.results.items())[:-1]:
            both = [result.measures, ours.measures]
            fooled = [round((1 - m["accuracy_unknown"]) * n_unknown) for m in both]
            missed = [round((1 - m["accuracy_known"]) * n_known) for m in both]
            sentences.append(
                f"The {name} with a threshold takes {fooled[0]} unseen digits for known ones "
                f"({_CONTROL} {fooled[1]}), misses {missed[0]} known ones ({missed[1]}), and "
                f"accepts {_N_NOISE - noise} of {_N_NOISE} meaningless inputs "
                f"({_N_NOISE - our_noise})."
            )
        return sentences

    def table(self) -> str:
        """The measures of all methods."""
        names = ("accuracy_unknown", "accuracy_known", "normalized_accuracy")
        rows = []
        for name, (result, noise) in self.results.items():
            values = *(result.measures[measure] for measure in names), noise / _N_NOISE
            title = name if name == _CONTROL else f"{name}, threshold"
            rows.append([title, *map("{:.3f}".format, values), _bounded(result)])
        titles = ("unknown\nrejected", "known\nnamed", "mean\n(NA)", "noise\nrejected", "bounded")
        return text_table(["method", *titles], rows)

    def pictures(self) -> str:
        """The first test image of each digit, and the answers, as characters."""
        first = self.shown[:, 0]
        return images_as_text(self.X[self.split.test][first], [self.answers[k] for k in first])

    def save_picture(self, path: str | os.PathLike) -> bool:
        """Draw test images with their answers; False without matplotlib."""
        try:
            from matplotlib.figure import Figure  # not pyplot, which needs a screen
        except ImportError:
            return False
        figure = Figure(figsize=(10, 1.25 * _N_SHOWN + 0.6), layout="constrained")
        images = self.X[self.split.test].reshape(-1, 8, 8)
        for (row, digit), ax in np.ndenumerate(figure.subplots(_N_SHOWN, 10)):
            shown = self.shown[digit, row]
            right = str(digit) if digit in self.split.known else "unknown"
            color = "0.4" if right == "unknown" else "tab:blue"
            style = {"color": color if self.answers[shown] == right else "tab:red"}
            ax.imshow(images[shown], cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            ax.set_title(self.answers[shown], fontsize=11, fontweight="bold", **style)
        names = ", ".join(map(str, self.split.known))
        figure.suptitle(f"{_CONTROL}, trained on {names}. Blue, grey: right; red: wrong")
        with atomic_write(path) as temporary:
            figure.savefig(temporary, dpi=100)
        return True


def _bounded(result: MethodResult) -> str:
    return f"{result.bounded.sum()} of {len(result.bounded)}"


def images_as_text(images: np.ndarray, names: list[str]) -> str:
    """Images of 8 x 8 pixels as characters, two pixels on top of each other in each, with names."""
    lines, per_row = [], 5
    for start in range(0, len(images), per_row):
        row = np.reshape(images[start : start + per_row], (-1, 4, 2, 8)) > 0.4
        for pairs in row.transpose(1, 0, 3, 2):  # of all images, two rows of pixels
            cells = ["".join(" ▄▀█"[2 * a + b] for a, b in image) for image in pairs]
            lines.append("    ".join(cells).rstrip())
        lines.append("    ".join(f"{name:^8}" for name in names[start : start + per_row]).rstrip())
        lines.append("")
    return "\n".join(lines)
