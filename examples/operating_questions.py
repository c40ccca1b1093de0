"""Four questions about a threshold
================================

A threshold is a point on a trade-off. Which one is right depends on the question: how many known
samples may be rejected, how often must an answer be right, what do mistakes cost, or how many false
alarms are allowed among the samples reported as unknown? Each question has an answer in
``openset.calibration``, and all four are marked on the same curves.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.calibration import Cost, KnownRejected, Precision, cost_curve, find_unknowns

COSTS = {"reject": 1, "wrong": 10, "accept_unknown": 20}
UNKNOWN_SHARE = 0.1


def main():
    """Fit on six digits, calibrate for every question, and draw what each threshold means."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rng = np.random.default_rng(0)
    known = rng.permutation(np.flatnonzero(y < 6))
    fit, calibration, test = np.split(known, [200, 700])
    # Promises that involve unknown samples hold for unknown samples like those of the calibration.
    seen, unseen = np.array_split(rng.permutation(np.flatnonzero(y > 5)), 2)
    svc = FrozenEstimator(OpenSetSVC(gamma=0.2, C=8).fit(X[fit], y[fit]))

    def calibrated(criterion, unknown=None):
        model = CalibratedRejector(svc, criterion=criterion)
        return model.fit(X[calibration], y[calibration], X_unknown=unknown)

    models = {
        "at most 5 % of known rejected": calibrated(KnownRejected(0.05)),
        "97 % of the answers right": calibrated(
            Precision(0.97, unknown_share=UNKNOWN_SHARE), X[seen]
        ),
        "least cost": calibrated(Cost(**COSTS, unknown_share=UNKNOWN_SHARE), X[seen]),
    }

    # The curves are those of the test set.
    rows = np.concatenate([test, unseen])
    curve = cost_curve(svc, X[rows], y[rows], costs=COSTS, unknown_share=UNKNOWN_SHARE)
    right = (1 - UNKNOWN_SHARE) * (1 - curve.rejected - curve.wrong)
    answers = (1 - UNKNOWN_SHARE) * (1 - curve.rejected) + UNKNOWN_SHARE * curve.accepted_unknown
    precision = np.divide(right, answers, out=np.ones_like(right), where=answers > 0)

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    panels = [
        (curve.rejected, "known samples rejected", "How many known samples are rejected?"),
        (precision, "answers that are right", "How often is an answer right?"),
        (curve.cost, "expected cost of a sample", "What do mistakes cost?"),
    ]
    for ax, (values, label, title) in zip(axes, panels, strict=True):
        ax.plot(curve.thresholds[1:], values[1:], color="0.5")
        for color, (name, model) in enumerate(models.items()):
            t = model.thresholds_[0]
            value = np.interp(-t, -curve.thresholds[1:], values[1:])
            ax.axvline(t, color=f"C{color}", linewidth=1, linestyle="--")
            ax.plot(t, value, "o", color=f"C{color}", label=f"{name}: {value:.3f}")
        ax.set(xlabel="threshold", ylabel=label, title=title)
        ax.legend(fontsize="small")
    axes[0].axhline(0.05, color="C0", linewidth=0.8)
    axes[1].axhline(0.97, color="C1", linewidth=0.8)

    batch = np.concatenate([test[:200], unseen[:60]])
    found = find_unknowns(models["at most 5 % of known rejected"], X[batch], q=0.1)
    print(
        f"of {len(batch)} samples {found.sum()} are reported as unknown, {found[:200].sum()} of "
        f"them known; {found[200:].sum()} of the 60 unknown samples are among them"
    )
    figure.savefig("operating-questions.png", dpi=100)
    print("wrote operating-questions.png")


if __name__ == "__main__":
    main()
