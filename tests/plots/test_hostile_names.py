"""Names of classes, columns and methods are drawn as they are, whatever they hold."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.cbook import is_math_text
from matplotlib.text import Text

from openset import OneVsRestSVC, OpenSetSVC
from openset import plots as p
from openset.svm import lambda_path

NAMES = [
    "$_$",
    "$5 to $10",
    r"\$x$",
    r"$\frac{",
    "_hidden",
    "a_b^c",
    "tab\tline\nend",
    "<b>&</b>",
    "",
]


def _shown(figure):
    """The texts as they are drawn, and whether each is a formula."""
    figure.canvas.draw()
    texts = [text.get_text() for text in figure.findobj(Text)]
    return [(text.replace(r"\$", "$"), is_math_text(text)) for text in texts]


def _data(names):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)) + 6 * k for k in range(3)])
    return pd.DataFrame(X, columns=names[:2]), np.repeat(names, 20)


@pytest.fixture(params=range(len(NAMES)))
def names(request):
    return [NAMES[request.param], "$", "plain"]


def _escaped(name):
    return name.replace("\t", "\\t").replace("\n", "\\n")


def _drawings(X, y, names):
    model = OpenSetSVC(gamma=0.5).fit(X, y)
    svm = OneVsRestSVC(gamma=0.5).fit(X, y)
    confusion = p.OpenSetConfusionMatrixDisplay.from_estimator(model, X, y)
    yield confusion.figure_, names
    yield p.DecisionRegionsDisplay.from_estimator(model, X, y, grid_resolution=9).figure_, names
    surface = p.DecisionSurfaceDisplay.from_estimator(svm, X, names[0], grid_resolution=9)
    yield surface.figure_, names[:2]
    strange = np.append(y[1:], "strange")
    yield p.OSCRDisplay.from_estimator(model, X, strange, name=names[0]).figure_, names[:1]
    path = p.LambdaPathDisplay.from_path(lambda_path(X.to_numpy(), y, gamma=1.0))
    yield path.axes_[0].figure, names
    ranks = dict(zip(names, (1.0, 2.0, 3.0), strict=True))
    ranked = p.CriticalDifferenceDisplay.from_ranks(ranks, control=names[0], n_datasets=5)
    yield ranked.figure_, names


def test_names_are_drawn_as_they_are(names):
    X, y = _data(names)
    for figure, expected in _drawings(X, y, names):
        shown = _shown(figure)
        for name in expected:
            texts = [text for text, _ in shown if _escaped(name).lower() in text.lower()]
            assert texts, (name, shown)
        ours = [text for text, formula in shown if formula]
        assert all("$b" in text or "$f$" in text or "lambda" in text for text in ours), ours
        plt.close(figure)
