"""Tables and numbers of the report as they are printed."""

import numpy as np
import pandas as pd
import pytest

from openset.study._report_tables import ReportTable, duration, p_value, with_error
from openset.utils.page import Cell, Page


def test_latex_of_a_table():
    table = ReportTable(
        "t", "50 % of it", ["data_set", "NA"],
        [["a&b", Cell("0.5±.1", "best")], ["c", Cell("<0.1", "flag")], ["d", Cell("x", "soft")]],
        pd.DataFrame(),
    )  # fmt: skip
    assert table.latex().splitlines() == [
        r"% 50 % of it",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"data\_set & NA \\",
        r"\midrule",
        r"a\&b & \textbf{0.5$\pm$.1} \\",
        r"c & $<$0.1$^\ast$ \\",
        r"d & x \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_table_is_written_in_all_three_shapes(tmp_path):
    page = Page("t")
    values = pd.DataFrame({"x": [1 / 3]})
    ReportTable("t", "c", ["x"], [["0.333"]], values).write(tmp_path, page)
    assert "0.333" in page.html()
    assert pd.read_csv(tmp_path / "t.csv")["x"][0] == 1 / 3
    assert "0.333" in (tmp_path / "t.tex").read_text()


@pytest.mark.parametrize(
    "shown, text",
    [
        (with_error(0.5, 0.0125), "0.500±.013"),
        (with_error(0.5, np.nan), "0.500"),
        (with_error(1.0, 0.0), "1.000±.000"),
        (p_value(0.0431), "0.043"),
        (p_value(3.2e-7), "3e-07"),
        (p_value(0.0), "<1e-16"),
        (duration(0.0123), "12.3 ms"),
        (duration(12.3), "12.30 s"),
        (duration(600), "10.0 min"),
        (duration(9000), "2.5 h"),
        (duration(np.nan), "–"),
    ],
)
def test_numbers_as_they_are_read(shown, text):
    assert shown == text
