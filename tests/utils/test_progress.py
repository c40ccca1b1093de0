"""Progress on standard error."""

import time

from sklearn.base import clone

from openset.utils import Progress


def test_no_step_is_finished_yet(capsys, monkeypatch):
    # A search whose grid is a list of dicts reports widths at which it has no setting.
    clock = iter([0.0, 1.0, 2.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    progress = Progress(2, "search", show=True)
    progress.step(0)
    progress.step(2)
    assert capsys.readouterr().err.split("\r")[-1].startswith("search [####")


def test_one_bar_for_all_parts(capsys, monkeypatch):
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)
    whole = Progress(4, "search", show=True)
    part = Progress(1, "not shown", show=False, whole=clone(whole))
    part.expect(5)
    part.step(2)
    assert capsys.readouterr().err == "search [####....................] 2/10, 8 s left \r"
    part.expect(-2)  # did not have to be done
    part.finish()  # nor had the other two
    whole.stage("fit")
    whole.step(4)
    whole.finish()
    shown = capsys.readouterr().err.splitlines()
    *lines, last = [line for line in shown if line.strip()]
    assert [line.split()[-4] for line in lines] == ["2/6,", "2/6,"]
    assert last.startswith("fit [########################] 6/6, 0 s left ")


def test_a_shorter_text_leaves_nothing_of_a_longer_one(capsys, monkeypatch):
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)
    progress = Progress(2, "a long title", show=True)
    progress.step()
    progress.stage("short")
    first, cleared, second = capsys.readouterr().err.split("\r")[:3]
    assert cleared == " " * len(first) and second.startswith("short [")
