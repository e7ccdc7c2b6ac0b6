"""Sums by window, and when a window is not to be trusted."""

import asyncio

from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.windows import GUARD_MS, LoopWatch, Windows


def _verdict(at_ms: int, used: int, *, admitted: bool = True) -> Verdict:
    return Verdict(admitted=admitted, at_ms=at_ms, window=at_ms // 1000, used={"weight": used})


def test_a_window_sums_all_arrivals_and_is_told_once_it_is_over() -> None:
    windows = Windows(period_ms=1000)
    windows.count(5, _verdict(1100, 5))
    windows.count(7, _verdict(1200, 7))
    windows.count(4, _verdict(1300, 9, admitted=False))
    windows.count(1, _verdict(2000, 1))

    (report,) = windows.closed(2999)

    assert (report.window, report.start_ms, report.end_ms) == (1, 1000, 2000)
    assert (report.requests, report.weight, report.max_used, report.refusals) == (3, 16, 9, 1)
    assert report.sound
    assert windows.closed(1999) == []


def test_a_lag_above_the_guard_makes_a_window_unsound_for_good() -> None:
    windows = Windows(period_ms=1000)
    windows.lagged(GUARD_MS, 500)
    windows.lagged(GUARD_MS + 1, 1500)
    windows.lagged(3, 1600)

    first, second = windows.closed(2000)

    assert (first.sound, first.lag_ms) == (True, GUARD_MS)
    assert (second.sound, second.lag_ms) == (False, GUARD_MS + 1)


def test_only_so_many_windows_are_remembered() -> None:
    windows = Windows(period_ms=1000, remembered=2)
    for second in range(5):
        windows.lagged(0, second * 1000)

    assert [report.window for report in windows.closed(99_999)] == [3, 4]


class HeldUp:
    """A clock whose first sleep takes half a second too long; the second never ends."""

    def __init__(self, now_ms: int) -> None:
        self.at_ms = now_ms
        self.slept = False

    def now_ns(self) -> int:
        return self.at_ms * 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ns(self) -> int:
        return self.at_ms * 1_000_000

    async def sleep(self, seconds: float) -> None:
        if self.slept:
            await asyncio.get_running_loop().create_future()
        self.slept = True
        self.at_ms += round(seconds * 1000) + 500


async def test_a_loop_that_was_held_up_spoils_the_windows_it_was_held_up_in() -> None:
    windows = Windows(period_ms=1000)
    watch = LoopWatch(HeldUp(now_ms=10_990), windows)

    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    task.cancel()

    assert watch.lag_ms == 500
    assert [(r.window, r.sound) for r in windows.closed(99_999)] == [(10, False), (11, False)]
