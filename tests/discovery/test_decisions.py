"""A file of decisions is read as a whole, or refused with the line and row that are wrong."""

import pytest

from openset.discovery import DecisionError, read_decisions

FILE = (
    'row,decision,label\r\n5,new,"two\nlines, ""quoted"""\r\n6,junk,\r\n12,class,car\r\n7,new,n\n'
)


def test_a_truncated_file(tmp_path):
    """Cut after any byte: only the last decision can change, to a shorter new name."""
    path = tmp_path / "decisions.csv"
    whole = [(4, "new", 'two\nlines, "quoted"'), (5, "junk", None), (11, "class", "car")]
    whole.append((6, "new", "n"))
    refused = []
    for size in range(len(FILE) + 1):
        path.write_bytes(FILE[:size].encode())
        try:
            found = read_decisions(path, 20, ["car"], "unknown")
        except DecisionError as error:
            refused.append(str(error))
            continue
        decisions = list(zip(found.rows.tolist(), found.kinds, found.labels, strict=True))
        if decisions and decisions[-1] != (last := whole[len(decisions) - 1]):
            assert decisions[-1][:2] == last[:2] and last[1] == "new"
            assert last[2].startswith(decisions.pop()[2])
        assert decisions == whole[: len(decisions)]
    assert decisions == whole  # of the whole file, which comes last
    assert any("line 5: there is no row ''" in told or "line 5, row 12" in told for told in refused)
    assert sum("is not CSV after line 0" in told for told in refused) > 5  # inside the quotes


def test_the_last_line_needs_no_line_break(tmp_path):
    """People edit the file by hand."""
    (tmp_path / "d.csv").write_text("row,decision,label\n5,new,a\n6,new,b")
    decisions = read_decisions(tmp_path / "d.csv", 20, ["car"], "unknown")
    assert decisions.labels == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"row,decision,label\n5,new,\xff\n", "not a file in UTF-8"),
        (b'row,decision,label\n5,new,a\n6,new,"a"b\n', "not CSV after line 2"),
        (b"row,decision,label\n5,new,a\n6", "line 3, row 6: the decision '' is none of"),
    ],
)
def test_not_csv(tmp_path, content, message):
    (tmp_path / "d.csv").write_bytes(content)
    with pytest.raises(DecisionError, match=message):
        read_decisions(tmp_path / "d.csv", 20, ["car"], "unknown")
