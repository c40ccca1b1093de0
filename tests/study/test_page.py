import base64
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from openset.study.page import Cell, Page, ReportTable, duration, p_value, with_error

VOID = {"meta", "img"}


class Parsed(HTMLParser):
    """Tags in order, texts by tag; complains of a tag that is closed out of order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.texts = [], [], {}
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)

    def attributes(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def test_structure_and_order():
    page = Page("A title")
    page.section("First")
    page.paragraph("one")
    page.section("Part", level=3)
    page.bullets(["a", "b"])
    page.section("Second")
    page.code("x = 1\ny = 2")
    parsed = Parsed(page.html())
    assert parsed.texts["title"] == parsed.texts["h1"] == ["A title"]
    assert parsed.texts["h2"] == parsed.texts["a"] == ["First", "Second"]
    assert [a["href"] for a in parsed.attributes("a")] == ["#first", "#second"]
    assert parsed.texts["li"] == ["a", "b"]
    assert parsed.texts["code"] == ["x = 1\ny = 2"]
    assert [t for t, _ in parsed.tags if t in "h2 p h3 ul pre".split()] == [
        "h2", "p", "h3", "ul", "h2", "pre"
    ]  # fmt: skip


def test_anchors_are_unique():
    page = Page("t")
    for heading in ("Ranks", "Ranks", "ranks!", "???", "ranks 2"):
        page.section(heading)
    anchors = [attrs["id"] for attrs in Parsed(page.html()).attributes("h2")]
    assert len(set(anchors)) == 5
    assert anchors[0] == "ranks"


def test_everything_is_escaped():
    evil = '<script>alert("x")</script> & more'
    page = Page(evil)
    page.section(evil)
    page.paragraph(evil)
    page.bullets([evil])
    page.code(evil)
    page.table([evil, evil], [[evil, Cell(evil, "flag")]], caption=evil)
    html = page.html()
    assert "<script" not in html
    parsed = Parsed(html)
    for tag in ("title", "h1", "h2", "p", "li", "code", "th", "td", "caption", "a"):
        assert evil in "".join(parsed.texts[tag])


def test_table():
    page = Page("t")
    page.table(
        ["dataset", "n", "NA"],
        [["yeast", 3, Cell("0.71", "best")], ["led7", 6, 0.5]],
        caption="means",
    )
    parsed = Parsed(page.html())
    assert parsed.texts["th"] == ["dataset", "n", "NA"]
    assert parsed.texts["td"] == ["yeast", "3", "0.71", "led7", "6", "0.5"]
    marks = [attrs.get("class") for attrs in parsed.attributes("td")]
    assert marks == [None, None, "best", None, None, None]
    assert parsed.attributes("div")[0]["class"] == "scroll"


def test_folded_table():
    page = Page("t")
    page.table(["a"], [[1]], caption="all <of> it", folded=True)
    parsed = Parsed(page.html())
    assert parsed.texts["summary"] == ["all <of> it"]
    assert "caption" not in parsed.texts
    tags = [tag for tag, _ in parsed.tags]
    assert tags.index("details") < tags.index("summary") < tags.index("table")


def test_table_of_ragged_rows():
    with pytest.raises(ValueError, match="1 cells, its header 2"):
        Page("t").table(["a", "b"], [[1, 2], [3]])


@pytest.mark.parametrize("format, magic", [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_figure(format, magic):
    plt = pytest.importorskip("matplotlib.pyplot")

    def html():
        figure, ax = plt.subplots()
        ax.plot([0, 1], [1, 0])
        page = Page("t")
        page.figure(figure, alt='a "falling" line', caption="It falls.", format=format, half=True)
        assert not plt.fignum_exists(figure.number)
        return page.html()

    image = Parsed(html()).attributes("img")[0]
    assert Parsed(html()).attributes("figure") == [{"class": "half"}]
    assert image["alt"] == 'a "falling" line'
    head, _, data = image["src"].partition(",")
    assert head == f"data:image/{'svg+xml' if format == 'svg' else 'png'};base64"
    assert base64.b64decode(data).startswith(magic)
    assert html() == html()


def test_nothing_is_fetched_and_no_script():
    page = Page("t")
    page.section("s")
    html = page.html()
    assert not re.search(r"(src|href)=\"(?!#|data:)|url\(|@import|<script|<link", html)


def test_write(tmp_path):
    path = tmp_path / "page.html"
    page = Page("Übersicht λ")
    page.write(path)
    assert path.read_text("utf-8") == page.html()
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    with pytest.raises(FileNotFoundError, match="no folder"):
        page.write(tmp_path / "nowhere" / "page.html")


def test_a_mark_that_a_whole_row_shares_is_written_once():
    page = Page("t")
    page.table(["a", "b"], [[Cell("x", "soft"), Cell("1", "soft")], ["y", Cell("2", "best")]])
    assert '<tr class="soft"><td>x</td><td>1</td></tr>' in page.html()
    assert '<tr><td>y</td><td class="best">2</td></tr>' in page.html()


def test_latex_of_a_table():
    table = ReportTable(
        "t", "50 % of it", ["data_set", "NA"],
        [["a&b", Cell("0.5±.1", "best")], ["c", Cell("<0.1", "flag")], ["d", Cell("x", "soft")]],
        pd.DataFrame(),
    )  # fmt: skip
    assert table.latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \% of it}",
        r"\label{tab:t}",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"data\_set & NA \\",
        r"\midrule",
        r"a\&b & \textbf{0.5$\pm$.1} \\",
        r"c & $<$0.1$^\ast$ \\",
        r"d & x \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
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
