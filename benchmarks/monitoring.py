"""False alarms and detection delay of the monitor: ``python -m benchmarks.monitoring``.

It writes benchmarks/monitoring.md. Detection on CLINC150 and letter needs their files in the data
home; without them these rows are left out.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from openset import OpenSetSVC
from openset.monitoring import UnknownRateMonitor

from .data import Absent, _load, open_set_run
from .report import table

RATE0, RATE1 = 0.05, 0.15
ALPHAS = (0.01, 0.05)
LENGTH, CHANGE = 10_000, 2_000
N_REFERENCE = 500
DELTA = 0.02  # of Page-Hinkley: a rise that does not count
WINDOWS = (100, 200, 500)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    options = parser.parse_args()
    text = "\n\n".join(
        [
            "# Monitoring: false alarms and detection",
            "Written by `python -m benchmarks.monitoring`.",
            false_alarms(options.streams),
            detection(max(options.streams // 5, 20)),
        ]
    )
    options.output.write_text(text + "\n")
    print(text)


def false_alarms(n_streams):
    """Share of streams without a change that ever raise an alarm."""
    rows = []
    for alpha in ALPHAS:
        counts = np.zeros(3, dtype=int)
        for seed in range(n_streams):
            rng = np.random.default_rng([seed, 0])
            reference, stream = (rng.random(n) - RATE0 for n in (N_REFERENCE, LENGTH))
            counts += [
                UnknownRateMonitor(RATE0, alpha=alpha).update(stream),
                UnknownRateMonitor(reference=reference, alpha=alpha).update(stream),
                UnknownRateMonitor(
                    reference=reference, test="scores", alpha=alpha, random_state=seed
                ).update(stream),
            ]
        shares = [f"{count / n_streams:.2%}" for count in counts]
        error = np.sqrt(alpha * (1 - alpha) / n_streams)
        rows.append([f"{alpha:g}", *shares, f"{error:.2%}"])
        print("alpha", *rows[-1], flush=True)
    head = ["alpha", "rate, rate0 given", "rate, from a reference", "scores", "Monte Carlo error"]
    return (
        f"## False alarms\n\nShare of {n_streams:,} streams of {LENGTH:,} samples that ever raise "
        f"an alarm although nothing changes: {RATE0:.0%} of the answers are unknown, which is "
        f"rate0. Each stream has a fresh reference of {N_REFERENCE} scores of its own "
        f"distribution.\n\n{table([head, *rows])}"
    )


def detection(n_streams):
    """Median delay after a rise of the share of unknown answers, on scores of real models."""
    tuned = tune()
    names = ["rate, rate0 given", "rate, from a reference", "scores", *tuned]
    rows = [["", *names]]
    for name, pools in score_pools():
        delays = np.full((n_streams, len(names)), np.inf)
        early = np.zeros(len(names), dtype=int)
        for seed in range(n_streams):
            rng = np.random.default_rng([seed, 1])
            reference = draw(rng, *pools, RATE0, N_REFERENCE)
            stream = np.r_[
                draw(rng, *pools, RATE0, CHANGE), draw(rng, *pools, RATE1, LENGTH - CHANGE)
            ]
            alarms = [
                *(
                    first_alarm(monitor, stream)
                    for monitor in (
                        UnknownRateMonitor(RATE0),
                        UnknownRateMonitor(reference=reference),
                        UnknownRateMonitor(reference=reference, test="scores", random_state=seed),
                    )
                ),
                *(first(statistic(stream < 0) >= limit) for statistic, limit in tuned.values()),
            ]
            delays[seed] = np.array(alarms) - CHANGE
        early = np.sum(delays <= 0, axis=0)
        cells = []
        for j in range(len(names)):
            late = delays[delays[:, j] > 0, j]
            cells.append(f"{np.median(late):.0f} ({early[j] / n_streams:.0%} early)")
        rows.append([name, *cells])
        print(*rows[-1], flush=True)
    return (
        f"## Detection\n\nThe share of unknown answers rises from {RATE0:.0%} to {RATE1:.0%} at "
        f"sample {CHANGE:,}; scores are drawn from those of a fitted model for known and unknown "
        f"test samples, the threshold set so that 3 % of the known ones are rejected. Median delay "
        f"in samples over {n_streams} streams at alpha = 0.05, without the streams that raised an "
        "alarm before the change (their share in brackets). The windowed binomial test and "
        f"Page-Hinkley (delta {DELTA:g}) are tuned by simulation so that 5 % of streams of "
        f"{LENGTH:,} samples without a change raise an alarm. They know rate0 exactly and when the "
        'stream ends, and after that end their promise is void; ours is for ever. "From a '
        f'reference" has to allow for what {N_REFERENCE} scores leave open about the usual rate.'
        f"\n\n{table(rows)}"
    )


def tune():
    """Rivals as (statistic of a stream, limit), each with 5 % false alarms within LENGTH."""
    rivals = {f"binomial, window {w}": lambda x, w=w: window(x, w) for w in WINDOWS}
    rivals["Page-Hinkley"] = page_hinkley
    rng = np.random.default_rng(12345)
    streams = [rng.random(LENGTH) < RATE0 for _ in range(1000)]
    tuned = {}
    for name, statistic in rivals.items():
        highest = np.array([statistic(x).max() for x in streams])
        limit = np.quantile(highest, 0.95, method="higher")
        while np.mean(highest >= limit) > 0.05:  # whole counts
            limit = np.min(highest[highest > limit], initial=limit + 1)
        tuned[name] = (statistic, limit)
    return tuned


def window(x, width):
    """Number of unknown answers among the last `width`."""
    total = np.r_[np.zeros(width), np.cumsum(x)]
    return total[width:] - total[:-width]


def page_hinkley(x):
    """Cumulative excess over RATE0 + DELTA since its lowest point."""
    total = np.cumsum(x - RATE0 - DELTA)
    return total - np.minimum.accumulate(np.minimum(total, 0))


def first(alarm):
    """Number of the first sample with an alarm, counted from 1; infinite without one."""
    return float(alarm.argmax() + 1) if alarm.any() else np.inf


def first_alarm(monitor, stream):
    monitor.update(stream)
    return np.inf if monitor.alarm_at is None else float(monitor.alarm_at)


def draw(rng, known, unknown, rate, n):
    """Scores of n samples, known and unknown so mixed that a share `rate` is negative."""
    low, high = np.mean(known < 0), np.mean(unknown < 0)
    is_unknown = rng.random(n) < (rate - low) / (high - low)
    return np.where(is_unknown, rng.choice(unknown, n), rng.choice(known, n))


def score_pools():
    """Scores of known and unknown test samples of a model, by dataset."""
    X, y = load_digits(return_X_y=True)
    known = y < 6
    rows = np.flatnonzero(known)
    test = np.r_[rows[1::2], np.flatnonzero(~known)]
    yield "digits", pools(OpenSetSVC(gamma=0.5, lam=0.1), X / 16, y, rows[::2], test)
    try:
        run = open_set_run("letter", 15, 0)
        X, y = np.vstack([run.X_train, run.X_test]), np.concatenate([run.y_train, run.y_test])
        n = len(run.y_train)
        yield (
            "letter",
            pools(OpenSetSVC(gamma=8.0, C=8.0), X, y, np.arange(n), np.arange(n, len(y))),
        )
        bunch = _load("clinc150-minilm")
        split = bunch.split.astype(str)
        yield (
            "CLINC150",
            pools(
                OpenSetSVC(gamma=2.0, C=8.0, n_jobs=-1),
                bunch.data,
                bunch.target.astype(str),
                np.flatnonzero(split == "train"),
                np.flatnonzero(np.isin(split, ["test", "oos_test"])),
            ),
        )
    except Absent as reason:
        print(f"left out: {reason}")


def pools(model, X, y, train, test):
    scores = model.fit(X[train], y[train]).known_score(X[test])
    known = np.isin(y[test], y[train])
    scores -= np.quantile(scores[known], 0.03)
    return scores[known], scores[~known]


if __name__ == "__main__":
    main()
