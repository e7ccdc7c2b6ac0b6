"""Windows: what arrived in each window, and whether the count can be trusted.

The simulator judges its clients by the window in which it admitted each request. A loop that was
busy admits late, so a window is only *sound* if the loop never lagged by more than the guard in
it. An unsound window proves nothing against anybody.
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
    """Of all arrivals from all addresses, refused ones too."""
    max_used: int = 0
    """The most that any one address had used."""
    refusals: int = 0
    lag_ms: int = 0
    sound: bool = True


class Windows:
    """Sums arrivals by window."""

    def __init__(self, period_ms: int, guard_ms: int = GUARD_MS, remembered: int = 5000) -> None:
        self._period_ms, self._guard_ms, self._remembered = period_ms, guard_ms, remembered
        self._reports: dict[int, WindowReport] = {}
        self.dropped = 0
        """Older windows that are not kept any more."""

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
        """Note by how much the loop was late."""
        report = self._at(at_ms)
        if lag_ms > report.lag_ms:
            sound = lag_ms <= self._guard_ms
            self._reports[report.window] = replace(report, lag_ms=lag_ms, sound=sound)

    def closed(self, now_ms: int) -> list[WindowReport]:
        """Every remembered window that is over, oldest first."""
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
    """Measures how late the loop runs what is due."""

    def __init__(self, clock: Clock, windows: Windows) -> None:
        self._clock, self._windows = clock, windows
        self._recent: deque[int] = deque(maxlen=round(1 / _LOOK_S))

    @property
    def lag_ms(self) -> int:
        """The worst lag of about the last second."""
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
            # A lag that spans a boundary spoils the windows on both sides of it.
            self._windows.lagged(lag_ms, asked_ms)
            self._windows.lagged(lag_ms, self._clock.now_ms())
