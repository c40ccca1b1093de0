"""The evidence of a monitor over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..monitoring import UnknownRateMonitor
from ._display import INK, Display, class_colors


@dataclass(kw_only=True, eq=False, repr=False)
class EvidenceDisplay(Display):
    """Evidence that a stream has changed, over the number of samples.

    The dashed line is the threshold of the alarm. Build it with :meth:`from_monitor`.

    Parameters
    ----------
    n_samples : ndarray of shape (n,)
    log_evidence : ndarray of shape (n,)
        Natural logarithms.
    log_threshold : float
    alarm_at : int or None
        Sample at which the alarm was raised.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_, threshold_ : Line2D
    alarm_ : Line2D or None
        A line at the sample of the alarm.
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from openset.monitoring import UnknownRateMonitor
    >>> from openset.plots import EvidenceDisplay
    >>> monitor = UnknownRateMonitor(rate0=0.1)
    >>> monitor.update([1, 1, -1, -1, -1, 1, -1])
    True
    >>> display = EvidenceDisplay.from_monitor(monitor)
    >>> display.alarm_at
    5
    """

    n_samples: np.ndarray
    log_evidence: np.ndarray
    log_threshold: float
    alarm_at: int | None = None

    @classmethod
    def from_monitor(
        cls, monitor: UnknownRateMonitor, *, ax: Axes | None = None
    ) -> EvidenceDisplay:
        """Draw the history of a monitor.

        Parameters
        ----------
        monitor : UnknownRateMonitor
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        EvidenceDisplay
        """
        n_samples, log_evidence = monitor.history
        return cls(
            n_samples=n_samples,
            log_evidence=log_evidence,
            log_threshold=monitor.log_threshold,
            alarm_at=monitor.alarm_at,
        ).plot(ax=ax)

    def _draw(self, ax: Any) -> None:
        red, _, blue = class_colors(3)
        ten = np.log(10)
        (self.line_,) = ax.plot(self.n_samples, self.log_evidence / ten, color=blue)
        self.threshold_ = ax.axhline(
            self.log_threshold / ten, color=INK, linestyle="--", label="alarm threshold"
        )
        self.alarm_ = None
        if self.alarm_at is not None:
            label = f"alarm at sample {self.alarm_at:,}"
            self.alarm_ = ax.axvline(self.alarm_at, color=red, linestyle=":", label=label)
        ax.set(xlabel="samples", ylabel="evidence of a change (log 10)")
        self.legend_ = ax.legend()
