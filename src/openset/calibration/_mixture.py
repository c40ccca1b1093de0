"""How much of unlabelled traffic is unknown: mixtures of scores, with shares as the answer.

A(t) and B(t) are the shares of known and of all traffic rows that score t or more, and pi is the
share of known rows in the traffic. Then B(t) >= pi A(t) for every t, whatever the unknown rows
score: an upper limit of B / A at a few thresholds is one of pi. Where known rows score and unknown
ones do not, B / A is pi.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import betainc, ndtr
from scipy.stats import beta, chi2
from sklearn.utils import check_array, check_consistent_length

from ._criterion import check_fraction

# Shares of the calibration rows above the thresholds of the promise: fixed, so that no choice is
# made on the data.
_LEVELS = (1.0, 0.99, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.4, 0.2)
_NODES = 64  # of the quadrature over A(t)
_BISECTIONS = 32

# The estimate: shares of the calibration rows above its thresholds, their width in standard
# deviations of the calibration scores, and the shares of unknown rows that are compared.
_ABOVE, _WIDTH, _SHARES = np.linspace(1, 0.3, 8), 0.2, np.linspace(0, 1, 201)
# What unknown rows may be like: A ** power above a threshold, but for those below all known rows.
_POWER = np.repeat(np.geomspace(1.5, 100, 14), 7)[:, None]
_BELOW = np.tile([0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9], 14)[:, None]
_CONFUSED = 0.03  # share of known rows that are named wrongly, where it is not known
# Standard errors of limits of B / A: of the one that an estimate keeps, and of the one that chooses
# the score above which rows are taken for known ones.
_KEPT, _Z = 0.75, 2.0
_RESAMPLES, _EM_STEPS = 100, 50
_BINS, _ALIKE = 8, 0.01  # of the test that the upper tails are alike, and its level
_FEWEST = 10  # rows of calibration and of traffic


@dataclass(frozen=True, eq=False)
class Mixture:
    """Traffic as a mixture of known and unknown rows; what :func:`mixture` returns.

    Attributes
    ----------
    unknown_at_least : float or None
        Promise: with `confidence`, at least this share of the traffic is unknown, if its known rows
        are distributed as the calibration rows are. None where `reason` says why not.
    unknown_at_least_any_mix : float or None
        The same if the shares of the classes among the known rows may be any; weaker. None also
        without classes.
    unknown_share : float
        Estimate of the share of unknown rows, the median of a posterior. Too low if unknown rows
        score as high as known ones.
    unknown_interval : (float, float)
        The shares of highest posterior density, with this confidence.
    score : float
        The score above which rows are taken for known ones: unknown rows are rare there.
    class_shares : ndarray of shape (K,) or None
        Estimated shares of the classes among the known rows; None without classes.
    class_intervals : ndarray of shape (K, 2) or None
        Their bootstrap intervals.
    warning : str or None
        Why calibration rows and the known part of the traffic cannot be alike, if they cannot.
    reason : str or None
        Why there is no promise.
    confidence : float
    n_calibration, n_traffic : int
    calibration_scores, traffic_scores : ndarray of shape (n,), (N,)
        The highest score of each row, sorted.
    """

    unknown_at_least: float | None
    unknown_at_least_any_mix: float | None
    unknown_share: float
    unknown_interval: tuple[float, float]
    score: float
    class_shares: np.ndarray | None
    class_intervals: np.ndarray | None
    warning: str | None
    reason: str | None
    confidence: float
    n_calibration: int
    n_traffic: int
    calibration_scores: np.ndarray = field(repr=False)
    traffic_scores: np.ndarray = field(repr=False)

    def known_rejected(self, threshold: Any) -> Any:
        """Share of the calibration rows that score less than a threshold.

        Parameters
        ----------
        threshold : float or array-like of any shape

        Returns
        -------
        float or ndarray of the shape of `threshold`
        """
        return np.searchsorted(self.calibration_scores, threshold) / self.n_calibration

    def unknown_rejected(self, threshold: Any) -> Any:
        """Estimated share of the unknown rows that score less than a threshold.

        Parameters
        ----------
        threshold : float or array-like of any shape

        Returns
        -------
        float or ndarray of the shape of `threshold`
        """
        accepted = 1 - np.searchsorted(self.traffic_scores, threshold) / self.n_traffic
        known = (1 - self.unknown_share) * (1 - self.known_rejected(threshold))
        unknown = max(self.unknown_share, 1 / self.n_traffic)
        return np.clip(1 - (accepted - known) / unknown, 0.0, 1.0)

    @classmethod
    def from_rows(
        cls,
        calibration: np.ndarray,
        traffic: np.ndarray,
        n_classes: int = 1,
        *,
        confidence: float = 0.95,
        slack: float = 0.0,
        reason: str | None = None,
        confused: float = _CONFUSED,
        random_state: int = 0,
    ) -> Mixture:
        """Compute it from what a calibrated model keeps of each row.

        Parameters
        ----------
        calibration : ndarray of shape (n, 3) or (n, 1)
            For each calibration row its highest score, the class with that score and its own class
            (indices); without classes the highest score alone.
        traffic : ndarray of shape (N, 2) or (N, 1)
            For each row of the traffic the highest score and the class with that score.
        n_classes : int, default=1
            Number of known classes.
        confidence, slack
            As for :func:`mixture`.
        reason : str, default=None
            Why nothing can be promised, if so.
        confused : float in [0, 1], default=0.03
            Without classes: the share of known rows that get the name of another class.
        random_state : int, default=0
            Seed of the bootstrap.

        Returns
        -------
        Mixture
        """
        check_fraction("mixture", "confidence", confidence)
        for name, rows in (("calibration", calibration), ("traffic", traffic)):
            if len(rows) < _FEWEST:
                raise ValueError(
                    f"{name} has {len(rows)} rows; at least {_FEWEST} are needed to estimate a "
                    "share."
                )
        if not 0 <= slack < np.inf:
            raise ValueError(f"slack={slack!r} must be finite and not negative.")
        known, new = np.sort(calibration[:, 0]), np.sort(traffic[:, 0])
        rng = np.random.default_rng(random_state)
        error = 1 - confidence
        shares = intervals = at_least = any_mix = None
        if reason is None:
            at_least = _at_least(known, new, error, slack)
        score = _cleanest(known, new, slack)
        if calibration.shape[1] > 1:
            codes = calibration[:, 2].astype(np.intp)
            confused = float(np.mean(calibration[:, 1] != codes))
            if reason is None:
                any_mix = 0.0  # a class without rows may score anything
                if np.bincount(codes, minlength=n_classes).all():
                    any_mix = _at_least_any_mix(calibration[:, 0], codes, known, new, error, slack)
            cell, answer = (
                np.where(rows[:, 0] >= score - slack, rows[:, 1], n_classes).astype(np.intp)
                for rows in (calibration, traffic)
            )
            shares, intervals = _class_shares(codes, cell, answer, n_classes, error, rng)
        share, interval = _estimate(known, new, slack, error, confused)
        p = _tails_alike(known, new, score, slack)
        warning = None
        if p < _ALIKE:
            warning = (
                f"Above the score {score:.3g} calibration rows and traffic differ (p = {p:.2g}): "
                "the known rows have changed, or unknown rows score as high as known ones. Do not "
                "rely on the promise or the estimate; compare new rows with "
                "CalibratedRejector.check."
            )
        return cls(
            *(at_least, any_mix, share, interval, score, shares, intervals, warning, reason),
            *(confidence, len(known), len(new), known, new),
        )


def mixture(
    calibration: Any,
    traffic: Any,
    codes: Any = None,
    *,
    confidence: float = 0.95,
    slack: float = 0.0,
    random_state: int = 0,
) -> Mixture:
    """Tell how much of the traffic is unknown, from scores alone.

    Parameters
    ----------
    calibration : array-like of shape (n,) or (n, K)
        Scores of known rows that the model has not seen: the highest of each, or all.
    traffic : array-like of shape (N,) or (N, K)
        Scores of unlabelled rows by the same model; larger is more known.
    codes : array-like of shape (n,), default=None
        Class indices of the calibration rows, for the shares of the classes; scores are then of
        shapes (n, K) and (N, K).
    confidence : float in (0, 1), default=0.95
        Of the promise and of the intervals.
    slack : float, default=0.0
        Scores of the traffic that are lower than a threshold by no more than this count as equal:
        rounding must not separate copies of a row.
    random_state : int, default=0
        Seed of the bootstrap.

    Returns
    -------
    Mixture

    Notes
    -----
    The promise is about the share in the population that the traffic is drawn from. The rows of the
    traffic are independent, of each other and of the calibration rows; nothing is assumed of the
    unknown ones. Scores of fold models will do if each row of the traffic is scored by one of
    these, too, drawn at random. At each of M thresholds, fixed ranks of the calibration scores, the
    hypothesis "the share of known rows is pi" is tested with error (1 - confidence) / M: at the
    k-th smallest of n scores A(t) is at least a Beta(n - k + 1, k) variable, ties included, and the
    number of traffic rows at or above t at least a Bin(N, pi A(t)) one.

    The estimate compares shares of unknown rows by how well they explain B(t) at eight thresholds,
    blurred by a fifth of a standard deviation: a share of the unknown rows scores below all known
    ones, some score as known rows do (the more, the more known rows get the name of another class;
    without classes 3 %), and the others pass t with probability A(t) ** p. It is the median of the
    posterior, but never below what an upper limit of B / A says.

    References
    ----------
    M. Saerens, P. Latinne, C. Decaestecker, "Adjusting the outputs of a classifier to new a priori
    probabilities: a simple procedure", Neural Computation 14(1), 2002 (class shares).

    Examples
    --------
    >>> import numpy as np
    >>> from openset.calibration import mixture
    >>> rng = np.random.default_rng(0)
    >>> known, unknown = rng.normal(3, 1, 700), rng.normal(-1, 1, 300)
    >>> shares = mixture(rng.normal(3, 1, 1000), np.append(known, unknown))
    >>> print(f"at least {shares.unknown_at_least:.2f}, about {shares.unknown_share:.2f}")
    at least 0.25, about 0.30
    """
    calibration, traffic = _scores("calibration", calibration), _scores("traffic", traffic)
    if calibration.shape[1] != traffic.shape[1]:
        raise ValueError(
            f"calibration has {calibration.shape[1]} columns of scores and traffic has "
            f"{traffic.shape[1]}. Pass scores of the same model."
        )
    n_classes = calibration.shape[1]
    rows, new = calibration.max(axis=1, keepdims=True), traffic.max(axis=1, keepdims=True)
    if codes is not None:
        codes = _checked_codes(codes, calibration)
        rows = np.column_stack([rows, calibration.argmax(axis=1), codes])
        new = np.column_stack([new, traffic.argmax(axis=1)])
    return Mixture.from_rows(
        *(rows, new, n_classes), confidence=confidence, slack=slack, random_state=random_state
    )


def _scores(name: str, values: Any) -> np.ndarray:
    """Scores as a matrix (n, K) of finite numbers."""
    values = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    return values.reshape(len(values), -1)


def _checked_codes(codes: Any, calibration: np.ndarray) -> np.ndarray:
    """Class indices (n,) of calibration scores (n, K), each class at least once."""
    codes, n_classes = np.asarray(codes), calibration.shape[1]
    check_consistent_length(calibration, codes)
    absent = np.setdiff1d(np.arange(n_classes), codes)
    if absent.size or not np.isin(codes, np.arange(n_classes)).all():
        raise ValueError(
            f"codes must be the class indices 0 to {n_classes - 1} of the calibration rows, each "
            f"at least once; missing {absent.tolist()!r}, given {np.unique(codes)[:10].tolist()!r}."
        )
    return codes.astype(np.intp)


def lower_limit(k: Any, n: Any, error: float) -> np.ndarray:
    """Lower Clopper-Pearson limits of a share: k of n."""
    return np.where(k > 0, beta.ppf(error, np.maximum(k, 1), n - k + 1), 0.0)


def upper_limit(k: Any, n: Any, error: float) -> np.ndarray:
    """Upper Clopper-Pearson limits of a share: k of n."""
    return np.where(k < n, beta.ppf(1 - error, k + 1, np.maximum(n - k, 1)), 1.0)


def _ranks(n: int) -> np.ndarray:
    """Numbers of calibration rows at or above the thresholds of the promise."""
    return np.unique(np.ceil(np.array(_LEVELS) * n).astype(int))


def _at_least(known, new, error, slack) -> float:
    """Lower limit of the unknown share, from sorted scores (n,) and (N,)."""
    n, n_new = len(known), len(new)
    above = _ranks(n)
    x = n_new - np.searchsorted(new, known[n - above] - slack)
    # P(Bin(N, pi A) <= x) for A ~ Beta(above, n - above + 1), by Gauss-Legendre quadrature.
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    shape = above[:, None], n - above[:, None] + 1
    low, high = beta.ppf(1e-10, *shape), beta.ppf(1 - 1e-10, *shape)
    a = low + (high - low) * (nodes + 1) / 2
    weights = weights * beta.pdf(a, *shape)
    weights /= weights.sum(axis=1, keepdims=True)
    lower, upper = np.zeros(len(above)), np.ones(len(above))
    for _ in range(_BISECTIONS):
        pi = (lower + upper) / 2
        # P(Bin(N, pi A) <= x), as a share of the beta distribution.
        tail = betainc(np.maximum(n_new - x, 0.5)[:, None], x[:, None] + 1, 1 - pi[:, None] * a)
        p = (weights * np.where(x[:, None] < n_new, tail, 1.0)).sum(axis=1)
        possible = p > error / len(above)
        lower, upper = np.where(possible, pi, lower), np.where(possible, upper, pi)
    limit = float(1 - upper.min())
    return limit if limit > 1e-9 else 0.0


def _at_least_any_mix(scores, codes, known, new, error, slack) -> float:
    """Lower limit of the unknown share if the classes have any shares among the known rows."""
    # Limits of A_c hold at all ranks of a class together, so at any threshold the next higher rank
    # gives one: A_c does not increase.
    thresholds = known[len(known) - _ranks(len(known))]
    least = np.ones(len(thresholds))
    n_classes = codes.max() + 1
    for c in range(n_classes):
        mine = np.sort(scores[codes == c])
        above = _ranks(len(mine))[::-1]  # ranks from low scores to high
        limit = lower_limit(above, len(mine), error / (2 * len(above) * n_classes))
        at = np.searchsorted(mine[len(mine) - above], thresholds)
        least = np.minimum(least, np.append(limit, 0.0)[at])
    x = len(new) - np.searchsorted(new, thresholds - slack)
    upper = upper_limit(x, len(new), error / (2 * len(thresholds)))
    return float(max(0.0, 1 - np.min(upper / np.maximum(least, 1e-12))))


def _estimate(known, new, slack, error, confused):
    """Estimate of the unknown share, and its interval, from sorted scores (n,) and (N,)."""
    n, n_new = len(known), len(new)
    t = np.unique(known[n - np.ceil(_ABOVE * n).astype(int)])
    # Soft thresholds: models of different folds need not agree on the score of a row.
    width = _WIDTH * known.std() or 1.0
    a, b = (ndtr((s[:, None] - t) / width).mean(axis=0) for s in (known, new + slack))
    log_ratio, spread = _log_ratio(a * n, b * n_new, n, n_new)
    kept = 1 - np.exp((log_ratio + _KEPT * np.sqrt(spread)).min())
    a = np.hstack([1.0, a * (1 - 0.5 / (n + 1)), 0.0])
    # Where known rows take each other's names, unknown rows score like known ones, too.
    confused = (confused * n + 0.5) / (n + 1)
    alike = min(0.4 * np.sqrt(confused), 0.6)
    u = (1 - _BELOW) * ((1 - alike) * a**_POWER + alike * a)
    u[:, 0] = 1.0
    share = _SHARES[:, None, None]
    p = share * -np.diff(u) + (1 - share) * -np.diff(a)
    counts = n * n_new / (n + n_new) * -np.diff(np.hstack([1.0, b, 0.0]))
    prior = -2 * np.log(_POWER[:, 0] * np.sqrt(confused) / 2) ** 2
    fit = np.log(np.maximum(p, 1e-12)) @ counts + prior
    posterior = np.exp(fit - fit.max()).sum(axis=1)
    posterior /= posterior.sum()
    order = np.argsort(-posterior, kind="stable")
    inside = _SHARES[order[: np.searchsorted(posterior[order].cumsum(), 1 - error) + 1]]
    estimate = max(float(_SHARES[np.searchsorted(posterior.cumsum(), 0.5)]), float(kept))
    return estimate, (min(float(inside.min()), estimate), max(float(inside.max()), estimate))


def _cleanest(known, new, slack) -> float:
    """The score above which the upper limit of the share of known rows is least."""
    n, n_new = len(known), len(new)
    t = np.unique(known[np.round(np.linspace(0, 0.7 * n, 40)).astype(int)])
    above, x = n - np.searchsorted(known, t), n_new - np.searchsorted(new, t - slack)
    log_ratio, spread = _log_ratio(above, x, n, n_new)
    return float(t[(log_ratio + _Z * np.sqrt(spread)).argmin()])


def _log_ratio(above, x, n, n_new):
    """log(B / A) at thresholds (M,), from numbers of rows above them, and its variance."""
    above, x, n, n_new = above + 0.5, x + 0.5, n + 0.5, n_new + 0.5
    spread = 1 / x - 1 / n_new + 1 / above - 1 / n
    return np.log(x / n_new * n / above), np.maximum(spread, 0)


def _class_shares(codes, cell, new, n_classes, error, rng):
    """Shares (K,) of the classes among the known rows above a score, and intervals (K, 2)."""
    # `codes`, `cell` (n,) are classes and answers of the calibration rows, `new` (N,) those of the
    # traffic; the answer K is a row below the score.
    confusion = np.zeros((n_classes, n_classes + 1))
    np.add.at(confusion, (codes, cell), 1)
    counts = np.bincount(new, minlength=n_classes + 1)
    shares = _em(confusion[None], counts[None].astype(float))[0]
    sizes = confusion.sum(axis=1).astype(int)
    drawn = _em(
        np.stack(
            [
                rng.multinomial(size, row / max(1, size), _RESAMPLES)
                for size, row in zip(sizes, confusion, strict=True)
            ],
            axis=1,
        ).astype(float),
        rng.multinomial(len(new), counts / len(new), _RESAMPLES).astype(float),
    )
    return shares, np.quantile(drawn, [error / 2, 1 - error / 2], axis=0).T


def _em(confusion, counts):
    """Shares (R, K) from counts by class and answer (R, K, K + 1), and by answer (R, K + 1)."""
    # The answers of each class are smoothed by one row with the mean answers of all classes.
    n_classes = confusion.shape[1]
    right = np.trace(confusion[..., :-1], axis1=1, axis2=2) / confusion.sum(axis=(1, 2))
    kept = confusion[..., :-1].sum(axis=(1, 2)) / confusion.sum(axis=(1, 2))
    wrong = (kept - right) / max(1, n_classes - 1)
    typical = wrong[:, None, None] + np.eye(n_classes) * (right - wrong)[:, None, None]
    p = (confusion[..., :-1] + typical) / (confusion.sum(axis=2, keepdims=True) + 1)
    accepted = p.sum(axis=2)
    p = p / np.maximum(accepted, 1e-12)[..., None]
    counts = counts[:, :-1]
    w = np.full(counts.shape, 1 / n_classes)
    for _ in range(_EM_STEPS):
        expected = np.einsum("rk,rkc->rc", w, p)
        w = w * np.einsum("rkc,rc->rk", p, counts / np.maximum(expected, 1e-12))
        w /= np.maximum(w.sum(axis=1, keepdims=True), 1e-12)
    w = w / np.maximum(accepted, 1e-12)
    return w / np.maximum(w.sum(axis=1, keepdims=True), 1e-12)


def _tails_alike(known, new, score, slack) -> float:
    """p-value of the chi-squared test that scores above a score are distributed alike."""
    old, new = known[known >= score], new[new >= score - slack]
    n_bins = min(_BINS, min(len(old), len(new)) // 10)
    if n_bins < 2:
        return 1.0
    edges = np.unique(np.quantile(old, np.arange(1, n_bins) / n_bins))
    table = np.array(
        [
            np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
            for values in (old, new + slack)
        ]
    )
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = np.sum((table - expected) ** 2 / np.maximum(expected, 1e-12))
    return float(chi2.sf(statistic, len(edges)))
