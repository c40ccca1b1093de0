"""A guaranteed operating point
============================

How often will a known sample be rejected? Six of the ten digits are known. Held-out samples set the
threshold: either known digits alone, so that at most 5 % of known digits are rejected; or also some
unknown digits (6 and 7), for the best harmonic mean of both accuracies. The test set contains the
digits 8 and 9, which were never used before. Finally, the reasons for some rejections are printed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.calibration import Accuracy, operating_curve
from openset.metrics import accuracy_known, accuracy_unknown, false_unknown_rate

ALPHA = 0.05


def main():
    """Draw the trade-off with three operating points, and test the bound on many calibrations."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    rng = np.random.default_rng(0)
    known = rng.permutation(np.flatnonzero(y < 6))
    fit, calibration, test = np.split(known, [400, 700])
    seen, unseen = np.flatnonzero((y == 6) | (y == 7)), np.flatnonzero(y > 7)
    test = np.concatenate([test, unseen])

    svc = FrozenEstimator(OpenSetSVC(gamma=0.2, C=8).fit(X[fit], y[fit]))
    promise = CalibratedRejector(svc, alpha=ALPHA)
    promise.fit(X[calibration], y[calibration], X_unknown=X[seen])  # these only tell the price
    for kind, share in promise.price_.items():
        print(f"{kind} rejected: {share['before']:.1%} before, {share['after']:.1%} now")
    best = CalibratedRejector(svc, criterion=Accuracy())
    best.fit(X[calibration], y[calibration], X_unknown=X[seen])

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    curve = operating_curve(svc, X[test], y[test])
    left.plot(curve.fu, curve.aus, color="0.6", zorder=0)
    models = {
        "threshold as fitted": (svc, "o"),
        f"guaranteed: at most {ALPHA:.0%}": (promise, "s"),
        "best HNA with digits 6 and 7": (best, "^"),
    }
    for name, (model, marker) in models.items():
        answers = model.predict(X[test])
        labels = {"known": model.classes_, "unknown_label": model.unknown_label_}
        fu = false_unknown_rate(y[test], answers, **labels)
        aks = accuracy_known(y[test], answers, **labels)
        aus = accuracy_unknown(y[test], answers, **labels)
        left.plot(fu, aus, marker, markersize=9, label=f"{name}: AKS {aks:.3f}, AUS {aus:.3f}")
        print(f"{name}: {fu:.1%} of known and {aus:.1%} of unknown digits rejected")
    left.axvline(ALPHA, color="0.8", linestyle="--", zorder=0)
    left.set(xlim=(-0.01, 0.3), ylim=(0.4, 1.02), xlabel="known samples rejected")
    left.set(ylabel="unknown samples rejected", title="Digits 8 and 9 rejected, all thresholds")
    left.legend(loc="lower right")

    pool = known[400:]
    shares = []
    for _ in range(200):
        one, other = np.array_split(rng.permutation(pool), 2)
        model = CalibratedRejector(svc, alpha=ALPHA).fit(X[one], y[one])
        shares.append(np.mean(model.predict(X[other]) == model.unknown_label_))
    right.hist(shares, bins=np.arange(0, 0.13, 0.01), color="0.7", edgecolor="white")
    right.axvline(ALPHA, color="0.3", linestyle="--", label=f"guaranteed: at most {ALPHA:.0%}")
    right.axvline(np.mean(shares), color="C1", label=f"mean: {np.mean(shares):.1%}")
    right.set(xlabel="known samples rejected", ylabel="number of calibrations, of 200")
    right.set(title=f"The bound, with {len(one)} calibration samples")
    right.legend()

    print("\nWhy were these samples rejected?")
    rejected = unseen[promise.predict(X[unseen]) == promise.unknown_label_][:5]
    print(promise.explain(X[rejected]).round(3).to_string(index=False))
    figure.savefig("operating-point.png", dpi=100)
    print("wrote operating-point.png")


if __name__ == "__main__":
    main()
