"""What holds for every display: it draws where it is told, returns itself, and leaves no trace."""

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import openset.plots

sys.path.insert(0, str(Path(__file__).parent))
from _drawings import DRAWINGS


@pytest.fixture(params=DRAWINGS)
def draw(request, boat, svm, bounded):
    """A function of ax alone, and whether it wants three dimensions."""
    function = DRAWINGS[request.param]
    return lambda ax: function(boat, svm, bounded, ax), request.param == "surface"


@pytest.fixture
def given(draw, request):
    return request.getfixturevalue("ax3d" if draw[1] else "ax")


def _axes(display):
    return display.axes_[0] if hasattr(display, "axes_") else display.ax_


def test_every_public_display_is_drawn(boat, svm, bounded):
    drawn = {type(draw(boat, svm, bounded, None)).__name__ for draw in DRAWINGS.values()}
    assert drawn == {name for name in openset.plots.__all__ if name.endswith("Display")}


def test_draws_on_the_given_axes_and_touches_nothing_else(draw, given, monkeypatch):
    current = plt.figure()
    settings = mpl.rcParams.copy()
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("plt.show was called"))
    display = draw[0](given)
    assert _axes(display) is given
    assert display.figure_ is given.figure
    assert given.has_data()
    assert plt.get_fignums() == [current.number]
    assert current.axes == []
    assert mpl.rcParams == settings


def test_makes_one_figure_of_its_own(draw):
    display = draw[0](None)
    assert len(plt.get_fignums()) == 1
    assert plt.figure(plt.get_fignums()[0]) is display.figure_


def test_plots_again_elsewhere(draw, given):
    display = draw[0](None)
    first = _axes(display)
    again = display.plot(ax=given)
    assert again is display
    assert _axes(again) is given is not first


def test_nothing_leaves_a_figure_of_its_own(draw):
    figure = draw[0](None).figure_
    for _ in range(2):  # the layout of images of fixed aspect settles in the second pass
        figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    box = figure.get_tightbbox().transformed(figure.dpi_scale_trans)
    assert box.x0 >= -1 and box.y0 >= -1
    assert box.x1 <= width + 1 and box.y1 <= height + 1


def test_pyplot_is_not_loaded_before_it_is_needed():
    code = "import sys, openset.plots; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_missing_matplotlib_names_the_extra():
    code = "import sys; sys.modules['matplotlib'] = None; import openset.plots"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 1
    assert (
        'ModuleNotFoundError: openset.plots needs matplotlib; run: pip install "openset[plots]"'
        in (run.stderr)
    )
