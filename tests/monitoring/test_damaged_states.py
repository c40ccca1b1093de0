"""Damaged states of monitors are refused: none ends the process or switches the alarm off."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pytest

from openset.monitoring import MonitorFileError, UnknownRateMonitor


@pytest.fixture(params=["rate", "scores"])
def state(request, tmp_path):
    rng = np.random.default_rng(0)
    test = request.param
    monitor = (
        UnknownRateMonitor(0.05)
        if test == "rate"
        else UnknownRateMonitor(reference=rng.normal(size=80) + 2, test=test)
    )
    monitor.update(rng.normal(size=100) + 2)
    monitor.save(tmp_path / "state")
    return tmp_path / "state"


def _rewritten(path, name, change):
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    value = np.load(BytesIO(members[name]))
    file = BytesIO()
    np.save(file, change(value))
    members[name] = file.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("capital.npy", lambda a: a[:-1]),  # once read out of bounds
        ("capital.npy", lambda a: a * np.nan),
        ("capital.npy", lambda a: a.astype(np.float32)),
        ("capital.npy", lambda a: a - 1000),
        ("history.npy", lambda a: a[::-1]),
        ("history.npy", lambda a: a.ravel()),
        ("earlier.npy", lambda a: np.r_[a, np.nan]),
        ("earlier.npy", lambda a: a[None]),
    ],
)
def test_damaged_arrays(state, name, change):
    _rewritten(state, name, change)
    with pytest.raises(MonitorFileError, match="is damaged"):
        UnknownRateMonitor.load(state)


@pytest.mark.parametrize("value", [None, "x", float("nan"), -1, True, 2**70, [], 1e300])
@pytest.mark.parametrize(
    "key", ["alpha", "log_threshold", "n_samples", "n_unknown", "log_evidence", "stride", "rng"]
)
def test_damaged_values(state, key, value):
    def change(array):
        return np.array(json.dumps(json.loads(str(array)) | {key: value}))

    _rewritten(state, "state.npy", change)
    with pytest.raises(MonitorFileError, match="is damaged"):
        UnknownRateMonitor.load(state)


def test_evidence_that_is_no_number_is_an_alarm(monkeypatch):
    monitor = UnknownRateMonitor(0.05)
    monitor._capital[:] = np.nan
    assert monitor.update([1.0])
