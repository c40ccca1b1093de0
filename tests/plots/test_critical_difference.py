import json

import numpy as np
import pytest

from openset.evaluation.stats import compare_all
from openset.plots import CriticalDifferenceDisplay

RANKS = {"SVM": 3.9, "EVM": 2.2, "OSSVM": 1.6, "DBC": 4.1, "OSNN": 3.2}

# Methods that do not differ from OSSVM at the tabulated critical difference 1.2264, by the names
# of the published files, in which OSFM and FM are exchanged.
NOT_DIFFERENT = {
    "NA": {"evm", "pisvm"},
    "HNA": {"evm", "pisvm"},
    "FMmacro": {"evm", "pisvm", "wsvm", "svmdbc"},
    "FMmicro": {"evm", "pisvm"},
    "OSFMmacro": {"evm", "pisvm", "wsvm"},
    "OSFMmicro": {"evm"},
}


@pytest.fixture
def display(ax):
    return CriticalDifferenceDisplay.from_ranks(RANKS, control="OSSVM", n_datasets=20, ax=ax)


@pytest.mark.parametrize(("n_datasets", "expected"), [(74, 1.2311), (88, 1.1289)])
def test_critical_difference_of_nine_methods(n_datasets, expected, ax):
    ranks = {str(rank): float(rank) for rank in range(1, 10)}
    display = CriticalDifferenceDisplay.from_ranks(ranks, control="1", n_datasets=n_datasets, ax=ax)
    assert display.critical_difference == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("measure", NOT_DIFFERENT)
def test_published_results(measure, golden_dir, ax):
    ranks = json.loads((golden_dir / "paper_ranks.json").read_text())["ranks"]
    result = ranks["open_set_grid_search_O"][measure]
    display = CriticalDifferenceDisplay(
        ranks=result["average_ranks"], control="ssvm", critical_difference=result["CD"]
    ).plot(ax=ax)
    assert set(display.not_different) == NOT_DIFFERENT[measure]
    exact = CriticalDifferenceDisplay.from_ranks(
        result["average_ranks"], control="ssvm", n_datasets=result["N"], ax=ax
    )
    assert exact.critical_difference == pytest.approx(result["CD_with_exact_normal_quantile"])


def test_best_is_at_the_right(display):
    left, right = display.ax_.get_xlim()
    assert left > 5 > 1 > right


def test_bar_spans_the_critical_difference_within_the_axis(display):
    (bar,) = display.bars_
    x = bar.get_xdata()
    assert x[0] == 1  # 1.6 - 1.25 would leave the axis
    assert x[1] == pytest.approx(1.6 + display.critical_difference)
    np.testing.assert_array_equal(bar.get_ydata(), 0)


def test_worse_half_is_named_at_the_left(display):
    side = {name: text.get_position()[0] > 5 for name, text in display.names_.items()}
    assert side == {"DBC": True, "SVM": True, "OSNN": True, "EVM": False, "OSSVM": False}


def test_lines_start_at_the_ranks_and_do_not_cross(display):
    for name, line in display.lines_.items():
        assert line.get_xdata()[0] == RANKS[name]
        assert line.get_ydata()[0] == 0
    depth = {name: line.get_ydata()[-1] for name, line in display.lines_.items()}
    # The nearer to its side, the higher.
    assert depth["DBC"] > depth["SVM"] > depth["OSNN"]
    assert depth["OSSVM"] > depth["EVM"]


def test_names_do_not_overlap(display):
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.names_.values()]
    assert sum(a.overlaps(b) for a in boxes for b in boxes) == len(boxes)


def test_cliques_are_the_largest_groups_without_a_significant_pair(ax):
    rng = np.random.default_rng(0)
    for k, n in [(2, 5), (5, 20), (9, 74), (12, 400)]:
        average = rng.permuted(np.tile(np.arange(1.0, k + 1), (n, 1)), axis=1).mean(axis=0)
        ranks = {str(i): float(rank) for i, rank in enumerate(average)}
        display = CriticalDifferenceDisplay.from_ranks(ranks, n_datasets=n, ax=ax)
        alike = {frozenset((c.method, c.other)) for c in compare_all(ranks, n) if not c.differs}
        cliques = list(map(set, display.cliques))
        for a in ranks:  # every pair that does not differ is in a clique, and no other pair
            for b in ranks:
                joined = any({a, b} <= clique for clique in cliques)
                assert a == b or joined == (frozenset((a, b)) in alike)
        assert not any(a < b for a in cliques for b in cliques)
        assert len(display.bars_) == len(cliques)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "LDA"}, "control='LDA' must be one of the methods"),
        ({"n_datasets": 0}, "n_datasets=0"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"ranks": {"OSSVM": 1.0}}, "needs at least 2"),
        ({"ranks": {"OSSVM": 0.5, "SVM": 2.0}}, r"ranks\['OSSVM'\] = 0.5 is not an average rank"),
    ],
)
def test_bad_input(options, message, ax):
    arguments = {"ranks": RANKS, "control": "OSSVM", "n_datasets": 20, **options}
    with pytest.raises(ValueError, match=message):
        CriticalDifferenceDisplay.from_ranks(**arguments, ax=ax)
