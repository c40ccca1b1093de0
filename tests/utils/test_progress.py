"""Progress on standard error."""

import time

from openset.utils import Progress


def test_no_step_is_finished_yet(capsys, monkeypatch):
    # A search whose grid is a list of dicts reports widths at which it has no setting.
    clock = iter([0.0, 1.0, 2.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    progress = Progress(2, "search", show=True)
    progress.step(0)
    progress.step(2)
    assert capsys.readouterr().err.split("\r")[-1].startswith("search [####")
