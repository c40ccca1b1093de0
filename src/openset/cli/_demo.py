"""``openset demo``: digits of which the classifiers have learned only some."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from openset.cli._failures import reported

if TYPE_CHECKING:
    import numpy as np

    from openset.evaluation import MethodResult

N_KNOWN = 6
SEED = 0
PICTURE = Path("demo-digits.png")
OURS = "OpenSetSVC"
# Samples of each digit in the picture, and number of noise inputs.
_N_SHOWN, _N_NOISE = 3, 1000


class Shown(NamedTuple):
    """What one method achieved, and how many meaningless inputs it rejects."""

    result: MethodResult
    noise_rejected: int


@reported
def demo() -> None:
    """Compare three methods on digits: six are learned, four are unknown."""
    # Imported here, so that --version and --help do not load the estimators.
    from rich.console import Console
    from sklearn.datasets import load_digits

    from openset.evaluation import draw_split

    X, y = load_digits(return_X_y=True)
    X = X / 16  # grey levels to [0, 1]
    split = draw_split(y, N_KNOWN, random_state=SEED)
    console = Console(highlight=False)
    unknown = [digit for digit in range(10) if digit not in split.known]
    console.print(
        f"Digits {', '.join(map(str, split.known))} are learned from {len(split.train)} samples; "
        f"{', '.join(map(str, unknown))} are never shown, and should be answered 'unknown'.\n"
    )
    with console.status("Tuning ..."):
        found = run_methods(X, y, split)
    answers = found[OURS].result.evaluation.answers
    first = _first_of_each(y[split.test])
    console.print(f"The first test image of each digit, and what {OURS} answers:\n")
    console.print(_terminal(X[split.test][first[:, 0]], [_name(a) for a in answers[first[:, 0]]]))
    for sentence in verdict(found):
        console.print(f"- {sentence}")
    console.print()
    console.print(_table(found))
    console.print(
        "\nEvery method has its parameters and its threshold chosen by OpenSetSearchCV from the "
        "training samples alone, with digits withheld in turn. Noise: inputs far from all images. "
        "Bounded: digits whose accepted region is provably bounded. One split of one small "
        "dataset; `openset compare` does this with yours."
    )
    if _save_picture(X[split.test], y[split.test], answers, split.known):
        console.print(f"\nPicture of {10 * _N_SHOWN} test images and their answers: {PICTURE}")


def run_methods(X, y, split) -> dict[str, Shown]:
    """Results by method, ours last."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from openset.base.parameters import BOXES, SCALED_GAMMAS, unit_gamma
    from openset.evaluation import evaluate_method
    from openset.model_selection import OpenSetSearchCV
    from openset.svm import OneVsRestSVC, OpenSetSVC
    from openset.wrappers import ThresholdRejector

    unit = unit_gamma(X[split.train], np.ones(len(split.train)))
    widths = [unit * factor for factor in SCALED_GAMMAS]
    boxes = {"estimator__C": BOXES}
    probabilities = {"threshold": np.linspace(0, 1, 101)[:-1].tolist()}
    margins = {"threshold": np.linspace(-1, 1, 81).tolist(), "estimator__gamma": widths}
    logistic = ThresholdRejector(LogisticRegression(max_iter=5000))
    svm = ThresholdRejector(OneVsRestSVC(), response_method="decision_function")
    searches = {
        "logistic regression": OpenSetSearchCV(logistic, boxes | probabilities, random_state=SEED),
        "SVM": OpenSetSearchCV(svm, boxes | margins, random_state=SEED),
        OURS: OpenSetSearchCV(OpenSetSVC(), random_state=SEED),
    }
    directions = np.random.default_rng(SEED).normal(size=(_N_NOISE, X.shape[1]))
    noise = 100 * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    found = {}
    for name, search in searches.items():
        result = evaluate_method(search, X, y, split)
        rejected = result.fitted.model.predict(noise) == result.evaluation.unknown_label
        found[name] = Shown(result, int(rejected.sum()))
    return found


def verdict(found: dict[str, Shown]) -> list[str]:
    """What the user gains, in words that follow from the numbers."""
    evaluation = found[OURS].result.evaluation
    n_known = int(evaluation.is_known.sum())
    n_unknown = len(evaluation.truth) - n_known
    ours = found[OURS].result
    rejected, named = ours.measures["accuracy_unknown"], ours.measures["accuracy_known"]
    bounded = f"{ours.bounded.sum()} of {len(ours.bounded)}"
    sentences = [
        f"{OURS} rejects {rejected:.1%} of {n_unknown} images of digits it has never seen, names "
        f"{named:.1%} of {n_known} new images of learned digits correctly, and {bounded} regions "
        "are provably bounded."
    ]
    for name, (result, noise) in found.items():
        if name == OURS:
            continue
        fooled = [
            round((1 - m["accuracy_unknown"]) * n_unknown) for m in (result.measures, ours.measures)
        ]
        missed = [
            round((1 - m["accuracy_known"]) * n_known) for m in (result.measures, ours.measures)
        ]
        sentences.append(
            f"The {name} with a threshold takes {fooled[0]} unseen digits for known ones "
            f"({OURS} {fooled[1]}), misses {missed[0]} known ones ({missed[1]}), and accepts "
            f"{_N_NOISE - noise} of {_N_NOISE} meaningless inputs "
            f"({_N_NOISE - found[OURS].noise_rejected})."
        )
    return sentences


def _table(found):
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in ("unknown\nrejected", "known\nnamed", "mean\n(NA)", "noise\nrejected", "bounded"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, (result, noise) in found.items():
        names = ("accuracy_unknown", "accuracy_known", "normalized_accuracy")
        cells = [f"{result.measures[measure]:.3f}" for measure in names]
        bounded = f"{result.bounded.sum()} of {len(result.bounded)}"
        title = name if name == OURS else f"{name}, threshold"
        table.add_row(title, *cells, f"{noise / _N_NOISE:.3f}", bounded)
    return table


def _name(answer) -> str:
    return "unknown" if answer < 0 else str(answer)


def _first_of_each(y) -> np.ndarray:
    """Rows of the first samples of each digit, (10, _N_SHOWN)."""
    import numpy as np

    return np.stack([np.flatnonzero(y == digit)[:_N_SHOWN] for digit in range(10)])


def _terminal(images, names) -> str:
    """Images of 8 x 8 pixels as characters, two pixels on top of each other in each, with names."""
    import numpy as np

    lines, per_row = [], 5
    for start in range(0, len(images), per_row):
        row = [np.asarray(image).reshape(8, 8) > 0.4 for image in images[start : start + per_row]]
        for top in range(0, 8, 2):
            cells = [
                "".join(" ▄▀█"[2 * a + b] for a, b in zip(*im[top : top + 2], strict=True))
                for im in row
            ]
            lines.append("    ".join(cells).rstrip())
        lines.append("    ".join(f"{name:^8}" for name in names[start : start + per_row]).rstrip())
        lines.append("")
    return "\n".join(lines)


def _save_picture(X, y, answers, known) -> bool:
    """Draw test images with their answers; False without matplotlib."""
    from openset.utils import atomic_write

    try:
        from matplotlib.figure import Figure  # not pyplot, which needs a screen
    except ImportError:
        return False
    rows = _first_of_each(y)
    figure = Figure(figsize=(10, 1.25 * _N_SHOWN + 0.6), layout="constrained")
    axes = figure.subplots(_N_SHOWN, 10)
    for digit, column in zip(range(10), axes.T, strict=True):
        for row, ax in zip(rows[digit], column, strict=True):
            wanted = digit if digit in known else -1
            color = "tab:red" if answers[row] != wanted else "0.4" if wanted < 0 else "tab:blue"
            ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
            ax.set(xticks=[], yticks=[])
            ax.set_title(_name(answers[row]), color=color, fontsize=11, fontweight="bold")
    names = ", ".join(map(str, known))
    figure.suptitle(f"{OURS}, trained on {names}. Blue, grey: right; red: wrong")
    with atomic_write(PICTURE) as temporary:
        figure.savefig(temporary, dpi=100)
    return True
