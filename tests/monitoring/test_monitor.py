"""The monitor: its promise, its evidence against independent sums, its state, bad input."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from openset.monitoring import MonitorFileError, UnknownRateMonitor
from openset.plots import EvidenceDisplay


def monitors(alpha=0.05, seed=0):
    """One monitor of each kind."""
    reference = np.random.default_rng(seed).normal(1.645, size=400)
    return [
        UnknownRateMonitor(rate0=0.05, alpha=alpha),
        UnknownRateMonitor(reference=reference, alpha=alpha),
        UnknownRateMonitor(reference=reference, test="scores", alpha=alpha),
    ]


KINDS = pytest.mark.parametrize("kind", [0, 1, 2], ids=["rate", "reference", "scores"])


def stream(n=1500, shift=0.0, seed=1):
    """Rounded scores, so that there are ties."""
    return np.round(np.random.default_rng(seed).normal(1.645 - shift, size=n), 2)


def same_state(a, b):
    assert a.log_evidence == b.log_evidence
    assert (a.n_samples, a.n_unknown, a.alarm_at) == (b.n_samples, b.n_unknown, b.alarm_at)
    for one, other in zip(a.history, b.history, strict=True):
        np.testing.assert_array_equal(one, other)


@KINDS
def test_batches_singles_and_a_resumed_state_agree(kind, tmp_path):
    scores = stream(shift=0.2)
    whole, singles, resumed = (monitors()[kind] for _ in range(3))
    whole.update(scores)
    for score in scores:
        singles.update(score)
    for part in np.array_split(scores, [1, 2, 700, 701]):
        resumed.update(part)
        resumed.save(tmp_path / "state")
        resumed = UnknownRateMonitor.load(tmp_path / "state")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    same_state(whole, singles)
    same_state(whole, resumed)


def test_rate_evidence_is_the_sum_over_all_bets():
    # The same mixture, summed over start times and rates without any recursion.
    rate0, x = 0.2, np.array([0, 1, 1, 0, 1, 1, 1, 0])
    monitor = UnknownRateMonitor(rate0=rate0)
    monitor.update(np.where(x, -1.0, 1.0))
    odds = rate0 / (1 - rate0) * 2.0 ** (np.arange(1, 13) / 2)
    q = odds / (1 + odds)
    total = 1 / (len(x) + 1)
    for start in range(1, len(x) + 1):
        later = x[start - 1 :, None]
        ratio = np.where(later, q / rate0, (1 - q) / (1 - rate0)).prod(axis=0)
        total += ratio.mean() / (start * (start + 1))
    assert np.exp(monitor.log_evidence) == pytest.approx(total, rel=1e-12)


def test_score_evidence_from_p_values_by_hand():
    # P-values among the reference and all earlier samples, by comparing with each of them.
    reference, scores = stream(50, seed=3), stream(40, shift=1.0, seed=4)
    monitor = UnknownRateMonitor(reference=reference, test="scores", random_state=7)
    monitor.update(scores)
    u = 1 - np.random.default_rng(7).random(len(scores))
    seen, p = list(reference), []
    for score, tie in zip(scores, u, strict=True):
        seen.append(score)
        below, equal = np.sum(np.array(seen) < score), np.sum(np.array(seen) == score)
        p.append((below + tie * equal) / len(seen))
    e = np.arange(0.05, 1, 0.1)
    total = 1 / (len(p) + 1)
    for start in range(1, len(p) + 1):
        factors = e * np.array(p[start - 1 :])[:, None] ** (e - 1)
        total += factors.prod(axis=0).mean() / (start * (start + 1))
    assert np.exp(monitor.log_evidence) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("kind", ["rate", "scores"])
def test_every_bet_is_fair(kind):
    # The mean of each factor is 1 under the hypothesis: exactly, and by numerical integration.
    from openset.monitoring import rate_bets, score_bets

    if kind == "rate":
        level, slope = rate_bets(0.03)
        np.testing.assert_allclose(0.97 * np.exp(level) + 0.03 * np.exp(level + slope), 1)
    else:
        level, slope = score_bets()
        x = np.linspace(0, 800, 2_000_001)[:, None]  # -log p has the density exp(-x)
        np.testing.assert_allclose(
            np.trapezoid(np.exp(level + (slope - 1) * x), x, axis=0), 1, rtol=1e-4
        )


@KINDS
def test_false_alarms_are_rare(kind):
    # 300 streams of 1,000 samples; the benchmark has 2,000 of 10,000.
    alarms = 0
    for seed in range(300):
        monitor = monitors(seed=seed)[kind]
        alarms += monitor.update(np.random.default_rng([seed, 1]).normal(1.645, size=1000))
    assert alarms <= 300 * 0.05 + 3 * np.sqrt(300 * 0.05 * 0.95)


@KINDS
def test_a_change_is_found_late_in_the_stream(kind):
    monitor = monitors()[kind]
    assert not monitor.update(stream(20_000, shift=-0.2))
    assert monitor.update(stream(3_000, shift=1.0, seed=2))
    assert 20_000 < monitor.alarm_at < 20_500
    assert monitor.update(stream(50_000, shift=-1.0))  # an alarm stays


def test_the_rate_from_a_reference_is_an_upper_confidence_limit():
    monitor = UnknownRateMonitor(reference=np.r_[-np.ones(3), np.ones(97)], alpha=0.1)
    from scipy.stats import binom

    assert binom.cdf(3, 100, monitor.rate0) == pytest.approx(0.05)
    assert monitor.log_threshold == pytest.approx(np.log(20))


def test_the_state_of_the_rate_has_constant_size(tmp_path):
    monitor = UnknownRateMonitor(rate0=0.1)
    sizes = []
    for _ in range(6):
        monitor.update(stream(40_000))
        monitor.save(tmp_path / "state")
        sizes.append((tmp_path / "state").stat().st_size)
    assert max(sizes) < 20_000
    assert len(monitor.history[0]) <= 1026


def test_huge_evidence_is_finite():
    monitor = UnknownRateMonitor(rate0=0.01)
    monitor.update(-np.ones(5000))
    assert np.isfinite(monitor.log_evidence) and monitor.log_evidence > 5000
    assert "ALARM since sample 2" in str(monitor)
    assert "1e" in str(monitor)


def test_display():
    monitor = UnknownRateMonitor(rate0=0.1)
    monitor.update(np.tile([1.0, -1.0], 50))
    display = EvidenceDisplay.from_monitor(monitor)
    np.testing.assert_array_equal(display.line_.get_xdata(), np.arange(101))
    np.testing.assert_allclose(
        display.line_.get_ydata()[-1], monitor.log_evidence / np.log(10), rtol=1e-12
    )
    assert display.alarm_ is not None
    quiet = EvidenceDisplay.from_monitor(UnknownRateMonitor(rate0=0.1), ax=display.ax_)
    assert quiet.alarm_ is None


def _update_for_ever(path):
    monitor = UnknownRateMonitor.load(path)
    while True:
        monitor.update(stream(200))
        monitor.save(path)


def test_killed_while_saving(tmp_path):
    path = tmp_path / "state"
    monitors()[2].save(path)
    for k in range(5):
        process = multiprocessing.get_context("fork").Process(target=_update_for_ever, args=[path])
        process.start()
        time.sleep(0.05 + 0.03 * k)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert UnknownRateMonitor.load(path).n_samples % 200 == 0
    assert UnknownRateMonitor.load(path).n_samples > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either rate0 or reference"),
        ({"rate0": 0.1, "reference": [1.0]}, "not both"),
        ({"rate0": 0.0}, r"rate0=0.0 must be"),
        ({"rate0": "0.1"}, r"rate0='0.1' must be"),
        ({"rate0": 0.1, "alpha": 1}, r"alpha=1 must be"),
        ({"rate0": 0.1, "test": "both"}, r"test='both' must be one of 'rate', 'scores'"),
        ({"rate0": 0.1, "test": "scores"}, "give reference"),
        ({"reference": [], "test": "scores"}, "reference is empty"),
        ({"reference": [1.0, np.nan]}, r"reference\[1\] is nan"),
        ({"reference": [-1.0, -2.0]}, "every score of the reference"),
        ({"rate0": 0.1, "random_state": None}, "random_state=None"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        UnknownRateMonitor(**arguments)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.1, np.inf], r"scores\[1\] is inf"),
        ([[0.1]], r"shape \(1, 1\)"),
        (["unknown"], "dtype <U7"),
        ([True], "dtype bool"),
    ],
)
@KINDS
def test_bad_scores_change_nothing(kind, scores, message):
    monitor = monitors()[kind]
    with pytest.raises(ValueError, match=message):
        monitor.update(scores)
    assert monitor.n_samples == 0
    assert not monitor.update([])


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError, match="no monitor file"):
        UnknownRateMonitor.load(tmp_path / "absent")
    path = tmp_path / "state"
    UnknownRateMonitor(rate0=0.1).save(path)
    content = path.read_bytes()
    for damaged in (b"", content[: len(content) // 2], b"{}"):
        path.write_bytes(damaged)
        with pytest.raises(MonitorFileError, match="not the state of a monitor"):
            UnknownRateMonitor.load(path)
    np.savez(open(path, "wb"), capital=np.zeros(3))
    with pytest.raises(MonitorFileError, match="not the state"):
        UnknownRateMonitor.load(path)


def _bursts(rng, n_objects, rate):
    """Scores of objects that are wholly unknown or not, 20 samples each, and the objects."""
    unknown = rng.random(n_objects) < rate
    groups = np.repeat(np.arange(n_objects), 20)
    return np.where(unknown[groups], -1.0, 1.0) + 0.1 * rng.normal(size=len(groups)), groups


@pytest.mark.parametrize("test", ["rate", "scores"])
def test_objects_count_once(test):
    rng = np.random.default_rng(0)
    alarms = {"rows": 0, "objects": 0}
    for _ in range(60):
        scores, groups = _bursts(rng, 60, 0.2)
        reference = _bursts(rng, 60, 0.2)
        for kind in alarms:
            given = {"rate0": 0.2} if test == "rate" else {"reference": reference[0]}
            some = {}
            if kind == "objects":
                some = {"groups": groups}
                given |= {} if test == "rate" else {"reference_groups": reference[1]}
            alarms[kind] += UnknownRateMonitor(test=test, **given).update(scores, **some)
    assert alarms["objects"] <= 60 * 0.05 + 3 * np.sqrt(60 * 0.05 * 0.95)
    assert alarms["rows"] > 20
    scores, groups = _bursts(rng, 300, 0.6)
    assert UnknownRateMonitor(rate0=0.2).update(scores, groups=groups)  # and sees a change


def test_a_mean_per_object_in_the_order_of_the_stream():
    monitor, twin = (UnknownRateMonitor(rate0=0.1) for _ in range(2))
    monitor.update([3.0, -4.0, -1.0, 0.5, -3.0], groups=["c", "a", "c", "b", "a"])
    twin.update([1.0, -3.5, 0.5])
    assert monitor.n_samples == 3 and monitor.n_unknown == 1
    assert monitor.log_evidence == twin.log_evidence
    assert not monitor.update([], groups=[])
    with pytest.raises(ValueError, match=r"groups has shape \(1,\)"):
        monitor.update([1.0, 2.0], groups=["a"])
    with pytest.raises(ValueError, match="reference_groups was passed without reference"):
        UnknownRateMonitor(0.1, reference_groups=[1, 2])
    with pytest.raises(ValueError, match="reference_groups has shape"):
        UnknownRateMonitor(reference=[1.0, -1.0], reference_groups=[1])
