"""What unlabelled rows tell
=========================

A model in use sees rows that nobody labels. Six of the ten digits are known; the others come as
unknown rows. The share of unknown rows is told by scores alone: a lower limit that holds with a
confidence of 95 %, and an estimate. The same rows then choose the threshold. From 300 rows that is
rough: over 16 splits it is right as often as a threshold for 5 % of rejected known rows (93.0 % of
other rows; 92.3 % as fitted, 94.5 % with the best threshold seen on them), better on some splits,
worse on others, such as this one.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.calibration import Accuracy
from openset.plots import TrafficDisplay
from openset.traffic import estimate_traffic


def main():
    """Estimate shares of 0 to 60 %; draw the scores of one traffic and the threshold it chooses."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    known, unknown = (rng.permutation(np.flatnonzero(part)) for part in (y < 6, y > 5))
    fit, calibration, rest = np.split(known, [300, 700])
    X = X / 16
    svc = FrozenEstimator(OpenSetSVC(gamma=0.1).fit(X[fit], y[fit]))
    model = CalibratedRejector(svc).fit(X[calibration], y[calibration])

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    shares = np.arange(0, 0.61, 0.1)
    reports = []
    for share in shares:
        n = round(300 * share)
        rows = np.append(rest[: 300 - n], unknown[:n])
        reports.append(estimate_traffic(model, X[rows]))
        print(f"{share:.0%} unknown\n{reports[-1]}\n")
    low, high = np.array([report.unknown_interval for report in reports]).T
    left.plot([0, 0.6], [0, 0.6], color="0.7", zorder=0)
    left.fill_between(shares, low, high, alpha=0.2)
    left.plot(shares, [r.unknown_share for r in reports], "o-", label="estimate")
    left.plot(shares, [r.unknown_at_least for r in reports], "s--", label="promise: at least")
    left.set(xlabel="true share of unknown rows", ylabel="told by 300 unlabelled rows")
    left.legend()

    rows = np.append(rest[:200], unknown[:100])
    best = CalibratedRejector(svc, criterion=Accuracy(balanced=False))
    best.fit(X[calibration], y[calibration], X_traffic=X[rows])
    display = TrafficDisplay.from_estimator(best, X[rows], ax=right)
    others = np.append(rest[200:], unknown[100:191])  # a third unknown, as in the traffic
    truth = np.where(y[others] < 6, y[others], -1)
    for name, each in (("as fitted", svc), ("alpha = 0.05", model), ("for the traffic", best)):
        print(f"{name}: {np.mean(each.predict(X[others]) == truth):.1%} of other rows right")
    display.ax_.set_title(display.ax_.get_title() + " (true: 33.3%)", fontsize="medium")
    return figure


if __name__ == "__main__":
    main()
    plt.show()
