"""Sums the requests of each window, and reports whether the count is reliable.

Clients are judged by the window in which the simulator admitted each request. A busy event loop
admits late, so a window is *sound* only if the loop never lagged by more than the guard in it. An
unsound window is no evidence against a client.
"""

from collections import deque
from dataclasses import dataclass, replace

from penstock.clock import Clock
from penstock.simulator.engine.limits import Verdict

GUARD_MS = 100
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class WindowReport:
    """One window of the first aligned limit."""

    window: int
    start_ms: int
    end_ms: int
    requests: int = 0
    weight: int = 0
    """The weight of all requests from all addresses, refused ones included."""
    max_used: int = 0
    """The highest usage of a single address."""
    refusals: int = 0
    lag_ms: int = 0
    sound: bool = True


class Windows:
    """Sums requests by window."""

    def __init__(self, period_ms: int, guard_ms: int = GUARD_MS, remembered: int = 5000) -> None:
        self._period_ms, self._guard_ms, self._remembered = period_ms, guard_ms, remembered
        self._reports: dict[int, WindowReport] = {}
        self.dropped = 0
        """How many older windows have been dropped."""

    def count(self, weight: int, verdict: Verdict) -> None:
        """Add one request."""
        report = self._at(verdict.at_ms)
        self._reports[report.window] = replace(
            report,
            requests=report.requests + 1,
            weight=report.weight + weight,
            max_used=max(report.max_used, next(iter(verdict.used.values()), 0)),
            refusals=report.refusals + (not verdict.admitted),
        )

    def lagged(self, lag_ms: int, at_ms: int) -> None:
        """Record a lag of the loop."""
        report = self._at(at_ms)
        if lag_ms > report.lag_ms:
            sound = lag_ms <= self._guard_ms
            self._reports[report.window] = replace(report, lag_ms=lag_ms, sound=sound)

    def closed(self, now_ms: int) -> list[WindowReport]:
        """All kept windows that have ended, oldest first."""
        return [report for report in self._reports.values() if report.end_ms <= now_ms]

    def _at(self, at_ms: int) -> WindowReport:
        window = at_ms // self._period_ms
        if window not in self._reports:
            start_ms = window * self._period_ms
            self._reports[window] = WindowReport(window, start_ms, start_ms + self._period_ms)
            if len(self._reports) > self._remembered:
                del self._reports[next(iter(self._reports))]
                self.dropped += 1
        return self._reports[window]


class LoopWatch:
    """Measures the lag of the event loop."""

    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock, self._windows = clock, windows
        self._recent: deque[int] = deque(maxlen=round(1 / _LOOK_S))

    @property
    def lag_ms(self) -> int:
        """The largest lag of about the last second."""
        return max(self._recent, default=0)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            asked_ns = self._clock.monotonic_ns()
            asked_ms = self._clock.now_ms()
            await self._clock.sleep(_LOOK_S)
            late_ns = self._clock.monotonic_ns() - asked_ns - round(_LOOK_S * 1e9)
            lag_ms = max(0, late_ns) // 1_000_000
            self._recent.append(lag_ms)
            # A lag across a boundary affects the windows on both sides.
            self._windows.lagged(lag_ms, asked_ms)
            self._windows.lagged(lag_ms, self._clock.now_ms())
