"""Has the stream changed? A test that may run for ever, with a bounded chance of a false alarm.

The evidence against "nothing has changed" is a bet that cannot be expected to win while nothing has
changed. Bet j multiplies its capital by ``exp(level[j] + slope[j] * x)`` at each sample x, a factor
whose mean is at most 1 under the hypothesis. A share 1 / (t (t + 1)) of the capital is reserved for
bets that start at sample t, so that a change after a long quiet time is detected about as fast as
an early one: capital that was lost before the change does not count. The total is a supermartingale
that starts at 1, so by Ville's inequality it ever reaches 1 / alpha with probability at most alpha.
"""

from __future__ import annotations

import json
import os
from io import BytesIO
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from .base import group_codes
from .base.fitted import require
from .utils import atomic_write, read_member, stored_array_size
from .utils.compiled import njit

__all__ = ["MonitorFileError", "UnknownRateMonitor"]

TESTS = ("rate", "scores")
# Points of the history: when there are twice as many, every second one is dropped.
_POINTS = 512
_FORMAT = 1
# Attributes that a file of a state holds as JSON, and as arrays.
_STATE = tuple("test alpha rate0 log_threshold n_samples n_unknown log_evidence alarm_at".split())
_ARRAYS = ("capital", "history", "earlier")


class MonitorFileError(ValueError):
    """A file is not the state of a monitor that this version can read."""


class UnknownRateMonitor:
    """Raise an alarm when a stream of samples has changed.

    The monitor is given the known score of every sample (negative scores are the unknown answers)
    and collects evidence against "nothing has changed". It raises an alarm when the evidence
    reaches a threshold. If nothing changes, the probability of ever raising an alarm is at most
    `alpha`, however long the monitor runs and however often one looks at it.

    Parameters
    ----------
    rate0 : float in (0, 1), default=None
        Share of unknown answers that is still normal, for test="rate". None computes it from
        `reference`: the upper confidence limit (Clopper-Pearson) at level alpha / 2. The evidence
        then has to reach 2 / alpha, so that both errors together stay below alpha.
    reference : array-like of shape (n,), default=None
        Known scores of a reference period of the same traffic, its usual unknowns included.
        Required for test="scores".
    reference_groups : array-like of shape (n,), default=None
        The object of each score of the reference; see :meth:`update`.
    test : {"rate", "scores"}, default="rate"
        "rate": has the share of unknown answers risen above `rate0`? The state has constant size.
        "scores": have the scores become lower than those of the reference and of the earlier
        stream? It also sees a change that moves scores without crossing 0. The state holds all
        scores, so that it grows by 8 bytes per sample.
    alpha : float in (0, 1), default=0.05
        Largest probability of ever raising a false alarm.
    random_state : int, default=0
        Seed of the random numbers that break ties, for test="scores".

    Attributes
    ----------
    rate0 : float or None
        As given, or computed from the reference; None for test="scores".
    n_samples, n_unknown : int
        Samples seen so far, and unknown answers among them.
    log_evidence : float
        Natural logarithm of the evidence after the last sample; 0 at the start.
    log_threshold : float
        The alarm is raised when `log_evidence` reaches it.
    alarm_at : int or None
        Number of the sample, counted from 1, at which the alarm was raised. An alarm stays.

    Notes
    -----
    The samples are assumed to be independent. If similar samples follow each other (one user asks
    ten times, one camera sends a burst), there are more false alarms, unless `groups` count them
    once.

    test="rate" is a mixture of bets, each with a fixed stake, over a grid of alternative rates and
    over the time of the change [1]_. test="scores" computes smoothed conformal p-values against the
    reference *and all earlier samples of the stream*, and bets that they are small [2]_. P-values
    against a fixed reference would share its error, and the bound would not hold.

    Batches, single samples and a state that was saved and loaded give the same evidence.

    References
    ----------
    .. [1] I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting",
       JRSS B 86(1), 2024.
    .. [2] V. Vovk, "Testing randomness online", Statistical Science 36(4), 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.monitoring import UnknownRateMonitor
    >>> rng = np.random.default_rng(2)
    >>> monitor = UnknownRateMonitor(rate0=0.05)
    >>> monitor.update(rng.random(500) - 0.05)  # 5 % of the scores are negative
    False
    >>> monitor.update(rng.random(500) - 0.15)  # 15 %
    True
    >>> monitor.alarm_at
    615
    """

    test: str
    alpha: float
    rate0: float | None
    log_threshold: float
    n_samples: int
    n_unknown: int
    log_evidence: float
    alarm_at: int | None
    _rng: np.random.Generator
    _capital: np.ndarray
    _history: np.ndarray
    _earlier: np.ndarray
    _stride: int

    def __init__(
        self,
        rate0: float | None = None,
        *,
        reference: ArrayLike | None = None,
        reference_groups: ArrayLike | None = None,
        test: str = "rate",
        alpha: float = 0.05,
        random_state: int = 0,
    ):
        if test not in TESTS:
            raise ValueError(f"test={test!r} must be one of {', '.join(map(repr, TESTS))}.")
        _check_fraction("alpha", alpha)
        if not isinstance(random_state, Integral) or isinstance(random_state, bool):
            raise ValueError(f"random_state={random_state!r} must be an integer.")
        scores = _reference_scores(reference, reference_groups)
        if test == "scores" and (scores is None or rate0 is not None):
            raise ValueError(
                "test='scores' compares with the scores of a reference period: give reference, "
                "and no rate0."
            )
        if test == "rate" and (rate0 is None) == (scores is None):
            raise ValueError("test='rate' needs either rate0 or reference, and not both.")
        split = 1
        if rate0 is not None:
            _check_fraction("rate0", rate0)
            rate0 = float(rate0)
        elif test == "rate":
            split = 2
            rate0 = _upper_limit(int(np.sum(scores < 0)), len(scores), alpha / 2)
        self.test = test
        self.alpha = float(alpha)
        self.rate0 = rate0
        self.log_threshold = float(np.log(split / alpha))
        self.n_samples = self.n_unknown = 0
        self.log_evidence = 0.0
        self.alarm_at = None
        self._rng = np.random.default_rng(int(random_state))
        self._earlier = np.sort(scores) if test == "scores" else np.empty(0)
        self._capital = np.full(len(self._bets()[0]), -np.inf)
        self._history = np.empty((0, 2))
        self._stride = 1

    @property
    def alarm(self) -> bool:
        """Whether the alarm was raised."""
        return self.alarm_at is not None

    @property
    def history(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of samples and the log evidence after them, at most 1,024 points of the past."""
        now = [[self.n_samples, self.log_evidence]]
        points = np.vstack([[[0, 0.0]], self._history, now])
        points = points[np.r_[True, np.diff(points[:, 0]) > 0]]
        return points[:, 0].astype(np.int64), points[:, 1]

    def update(self, scores: ArrayLike, *, groups: ArrayLike | None = None) -> bool:
        """Add samples in the order of the stream.

        Parameters
        ----------
        scores : float or array-like of shape (n,)
            Known scores, for example ``model.known_score(X)``; negative is unknown. If only the
            answers are known, give -1 for unknown and 1 for known ones (test="rate").
        groups : array-like of shape (n,), default=None
            The object of each score (a track, a session), if those of one object are alike. An
            object counts as one sample, with its mean score, in the order in which objects begin.
            All of its scores belong in one call; the reference needs its groups, too.

        Returns
        -------
        bool
            Whether the alarm was raised, now or earlier.
        """
        values = _check_scores("scores", scores)
        if groups is not None:
            values = _mean_scores(values, groups, "groups")
        if not len(values):
            return self.alarm
        unknown = values < 0
        x = unknown.astype(np.float64) if self.test == "rate" else -np.log(self._p_values(values))
        evidence = follow(self._capital, self.n_samples, x, *self._bets())
        number = self.n_samples + 1 + np.arange(len(values))
        above = ~(evidence < self.log_threshold)  # NaN, which should not happen, is an alarm
        if self.alarm_at is None and above.any():
            self.alarm_at = int(number[above.argmax()])
        self._remember(number, evidence)
        self.n_samples += len(values)
        self.n_unknown += int(unknown.sum())
        self.log_evidence = float(evidence[-1])
        return self.alarm

    def save(self, path: str | os.PathLike) -> None:
        """Write the state to one file, which is replaced atomically.

        Parameters
        ----------
        path : path-like
        """
        state = {"format": _FORMAT, **{name: getattr(self, name) for name in _STATE}}
        state |= {"stride": self._stride, "rng": self._rng.bit_generator.state}
        with atomic_write(path) as temporary, open(temporary, "wb") as file:
            np.savez(
                file,
                state=np.array(json.dumps(state)),
                capital=self._capital,
                history=self._history,
                earlier=self._earlier,
            )

    @classmethod
    def load(cls, path: str | os.PathLike) -> UnknownRateMonitor:
        """Read a state that :meth:`save` wrote.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        UnknownRateMonitor

        Raises
        ------
        MonitorFileError
            If the file is damaged or was not written by :meth:`save`.
        FileNotFoundError
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"there is no monitor file {path}")
        monitor = cls.__new__(cls)
        try:
            monitor._restore(*_read(path))
        except MonitorFileError:
            raise
        except Exception as error:  # damage may raise anything
            raise MonitorFileError(
                f"{path} is damaged or is not the state of a monitor ({error}); start a new one."
            ) from error
        return monitor

    def _restore(self, state: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Set the attributes from a file; raise ValueError if they do not fit together."""
        require(set(state) == {*_STATE, "format", "stride", "rng"}, "it has other values")
        vars(self).update({name: state[name] for name in _STATE})
        _check_fraction("alpha", self.alpha)
        if self.test == "rate":
            _check_fraction("rate0", self.rate0)
        else:
            require(self.test == "scores" and self.rate0 is None, f"test is {self.test!r}")
        splits = {float(np.log(split / self.alpha)) for split in (1, 2)}
        require(self.log_threshold in splits, f"log_threshold is {self.log_threshold!r}")
        n, unknown, stride = self.n_samples, self.n_unknown, state["stride"]
        require(all(type(v) is int for v in (n, unknown, stride)), "a number is no integer")
        require(0 <= unknown <= n < 2**53, f"n_samples is {n!r}, n_unknown {unknown!r}")
        doubled = stride > 1 and stride & (stride - 1) == 0 and stride * _POINTS <= n
        require(stride == 1 or doubled, f"stride is {stride!r} after {n} samples")
        at, last = self.alarm_at, self.log_evidence
        require(at is None or (type(at) is int and 0 < at <= n), f"alarm_at is {at!r}")
        require(type(last) is float and np.isfinite(last), f"log_evidence is {last!r}")
        require(at is not None or last < self.log_threshold, "the evidence says alarm")
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = state["rng"]
        self._stride = stride
        for name in _ARRAYS:
            require(arrays[name].dtype == np.float64, f"{name} has dtype {arrays[name].dtype}")
            setattr(self, f"_{name}", np.ascontiguousarray(arrays[name]))
        self._check_earlier()
        self._check_history()
        self._check_capital()

    def _check_earlier(self):
        n, n_earlier = self.n_samples, len(self._earlier)
        require(self._earlier.ndim == 1, "earlier is no vector")
        fits = n_earlier > n if self.test == "scores" else n_earlier == 0
        require(fits, f"earlier has {n_earlier} entries after {n} samples")
        fits = np.isfinite(self._earlier).all() and np.all(np.diff(self._earlier) >= 0)
        require(fits, "earlier is not sorted, or not finite")

    def _check_history(self):
        n, history = self.n_samples, self._history
        fits = history.ndim == 2 and history.shape[1] == 2 and len(history) < 2 * _POINTS
        require(fits, f"history has shape {history.shape}")
        at = history[:, 0]
        fits = np.isfinite(history).all() and np.all(np.diff(at) > 0) and np.all(at <= n)
        fits = fits and np.all(at > 0) and np.all(at % self._stride == 0)
        require(fits, "history is out of order or not finite")
        early = history[at < (self.alarm_at or np.inf), 1]
        require(np.all(early < self.log_threshold), "history has an earlier alarm")

    def _check_capital(self):
        n, capital = self.n_samples, self._capital
        require(capital.shape == self._bets()[0].shape, f"capital has shape {capital.shape}")
        # The capital at stake is a part of the evidence, and all of it before the first sample.
        require(np.all(capital < np.inf), "capital is not finite")
        require(n > 0 or np.all(capital == -np.inf), "capital is at stake without samples")
        # The evidence is the mean capital, with what is reserved for bets that start later.
        if n:
            mean = np.logaddexp.reduce(capital) - np.log(len(capital))
            total = np.logaddexp(mean, -np.log1p(n))
            fits = abs(total - self.log_evidence) <= 1e-6 * max(1.0, abs(total))
        else:
            fits = self.log_evidence == 0
        require(fits, "log_evidence does not follow from capital")

    def __str__(self) -> str:
        share = f" ({self.n_unknown / self.n_samples:.1%})" if self.n_samples else ""
        said = f"ALARM since sample {self.alarm_at:,}" if self.alarm_at is not None else "no alarm"
        base = "" if self.rate0 is None else f" against a rate of {self.rate0:.2%}"
        return (
            f"{self.n_samples:,} samples, {self.n_unknown:,}{share} unknown; evidence"
            f"{base} {_power(self.log_evidence)}, alarm at {_power(self.log_threshold)}: {said}"
        )

    def _bets(self):
        return score_bets() if self.rate0 is None else rate_bets(self.rate0)

    def _p_values(self, scores):
        """Smoothed p-values among the reference and the stream so far; then add the scores."""
        below, equal = ranks(self._earlier, scores)
        n = len(self._earlier) + 1 + np.arange(len(scores))
        u = 1 - self._rng.random(len(scores))  # in (0, 1], so that no p-value is 0
        where = np.searchsorted(self._earlier, np.sort(scores))
        self._earlier = np.insert(self._earlier, where, np.sort(scores))
        return (below + u * equal) / n

    def _remember(self, number, evidence):
        kept = number % self._stride == 0
        self._history = np.vstack([self._history, np.column_stack([number[kept], evidence[kept]])])
        while len(self._history) >= 2 * _POINTS:
            self._stride *= 2
            self._history = self._history[self._history[:, 0] % self._stride == 0]


def _check_scores(name, scores) -> np.ndarray:
    values = np.asarray(scores)
    if values.dtype.kind not in "fiu" or values.ndim > 1:
        raise ValueError(
            f"{name} must be a number or a one-dimensional array of numbers, the known scores; got "
            f"shape {values.shape} and dtype {values.dtype}."
        )
    values = np.atleast_1d(values).astype(np.float64)
    if not np.isfinite(values).all():
        where = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"{name}[{where}] is {values[where]}; scores must be finite.")
    if name == "reference" and not len(values):
        raise ValueError("reference is empty; give the scores of a reference period.")
    return values


def _reference_scores(reference, groups) -> Any:
    """Scores of the reference, (n,), or of its objects; None without a reference."""
    if reference is None and groups is not None:
        raise ValueError("reference_groups was passed without reference.")
    if reference is None:
        return None
    scores = _check_scores("reference", reference)
    return scores if groups is None else _mean_scores(scores, groups, "reference_groups")


def _mean_scores(scores, groups, name) -> np.ndarray:
    """(G,) mean score of each group, in the order in which the groups begin."""
    _, codes = group_codes(groups, len(scores), name)
    _, first = np.unique(codes, return_index=True)
    return (np.bincount(codes, scores) / np.bincount(codes))[np.argsort(first)]


def _read(path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The values and the arrays of a file; nothing in it unpacks to more than its size."""
    require(path.is_file(), "it is no regular file")
    with ZipFile(path) as archive:
        names = sorted(f"{name}.npy" for name in (*_ARRAYS, "state"))
        require(sorted(archive.namelist()) == names, "it has other members")
        stored = all(info.compress_type == ZIP_STORED for info in archive.infolist())
        require(stored, "it is compressed")
        arrays = {}
        for name in names:
            stored_array_size(archive, name)  # the header of an array may promise more
            content = BytesIO(read_member(archive, name))
            arrays[name.removesuffix(".npy")] = np.load(content, allow_pickle=False)
    state = json.loads(str(arrays.pop("state")))
    version = state["format"]
    require(type(version) is int, f"format is {version!r}")
    if version > _FORMAT:
        raise MonitorFileError(f"{path} was written by a newer version of openset; update openset.")
    return state, arrays


def _check_fraction(name, value) -> None:
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name}={value!r} must be a number strictly between 0 and 1.")


def _upper_limit(count, n, level) -> float:
    """Upper Clopper-Pearson limit of a rate."""
    limit = float(beta.ppf(1 - level, count + 1, n - count)) if count < n else 1.0
    if limit >= 1:
        raise ValueError(
            "every score of the reference is negative (unknown): no rate above that can be found."
        )
    return limit


def _power(log) -> str:
    """exp(log) as text; it may be larger than any float."""
    return f"{np.exp(log):.3g}" if log < 13 else f"1e{log / np.log(10):.1f}"


# Bets on the rate: the odds of an unknown answer are this many times those of rate0.
ODDS_RATIOS = 2.0 ** (np.arange(1, 13) / 2)
# Bets on p-values: the density e p^(e - 1).
EXPONENTS = np.arange(0.05, 1.0, 0.1)


def rate_bets(rate0: float) -> tuple[np.ndarray, np.ndarray]:
    """Level and slope (J,) of the bets on x = 1 (unknown) or 0: likelihood ratios q to rate0."""
    odds = rate0 / (1 - rate0) * ODDS_RATIOS
    level = np.log1p(-odds / (1 + odds)) - np.log1p(-rate0)  # x = 0: (1 - q) / (1 - rate0)
    return level, np.log(ODDS_RATIOS)


def score_bets() -> tuple[np.ndarray, np.ndarray]:
    """Level and slope of the bets on x = -log p: e p^(e - 1)."""
    return np.log(EXPONENTS), 1 - EXPONENTS


@njit(cache=True, nogil=True)
def follow(capital, n_before, x, level, slope):
    """Update the log capital (J,) of the bets in place; return log evidence after each x (n,)."""
    out = np.empty(len(x))
    for i in range(len(x)):
        t = n_before + i + 1.0
        fresh = -np.log(t * (t + 1.0))
        top = -np.log(t + 1.0)  # reserved for bets that start later
        for j in range(len(capital)):
            high, low = max(capital[j], fresh), min(capital[j], fresh)
            capital[j] = high + np.log1p(np.exp(low - high)) + level[j] + slope[j] * x[i]
            top = max(top, capital[j])
        total = 0.0
        for j in range(len(capital)):
            total += np.exp(capital[j] - top)
        total = total / len(capital) + np.exp(-np.log(t + 1.0) - top)
        out[i] = top + np.log(total)
    return out


def ranks(earlier: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (m,) of earlier scores, sorted (n,) and in the stream (m,), below and equal to each.

    Each score counts as equal to itself.
    """
    below = np.searchsorted(earlier, scores, side="left")
    equal = np.searchsorted(earlier, scores, side="right") - below + 1
    place = np.unique(scores, return_inverse=True)[1].reshape(-1)
    _count_before(place.astype(np.int64), below, equal)
    return below, equal


@njit(cache=True, nogil=True)
def _count_before(place, below, equal):
    """Add the earlier scores of the batch, with a Fenwick tree over their sorted places."""
    tree = np.zeros(len(place) + 1, dtype=np.int64)
    same = np.zeros(len(place), dtype=np.int64)
    for i in range(len(place)):
        k = place[i]  # places 0 to k - 1 are nodes 1 to k
        while k > 0:
            below[i] += tree[k]
            k -= k & -k
        equal[i] += same[place[i]]
        same[place[i]] += 1
        k = place[i] + 1
        while k <= len(place):
            tree[k] += 1
            k += k & -k
