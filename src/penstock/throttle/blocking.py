"""The same throttler for threads: ``acquire`` blocks instead of being awaited.

The line, its rules and its fairness are those of ``BaseThrottler``. A lock is held while looking
and charging, never while waiting; one thread keeps the time for whoever is next, and ends when
nobody waits.
"""

import threading
from concurrent.futures import Future

from penstock.throttle.line import Waiter
from penstock.throttle.rules import FAR
from penstock.throttle.throttler import Budget, Grant, Pipelines, deadline_of, granted
from penstock.throttle.windows import SECOND_NS


class BlockingThrottler(Budget):
    """Paces the calls of many threads."""

    def __init__(self, pipelines: Pipelines, *, ageing_s: float = 10.0) -> None:
        """See ``Budget``."""
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._timer: threading.Thread | None = None
        super().__init__(pipelines, ageing_s=ageing_s, lock=self._lock)

    def acquire(
        self,
        cost: int = 1,
        category: str | None = None,
        priority: int = 0,
        timeout: float | None = None,
    ) -> Grant:
        """Pay, blocking this thread until there is room; see ``BaseThrottler.acquire``."""
        turn: Future[int] = Future()
        with self._lock:
            lane = self._lane(category)
            at = self._line.try_take(lane, cost)
            if at is not None:
                return granted(lane, cost, at)
            deadline = FAR if timeout is None else deadline_of(self._line.clock, timeout)
            waiter = Waiter(lane, cost, deadline, turn)
            self._line.join(waiter, priority)
            self._look_again()
        try:
            return granted(lane, cost, turn.result())
        except BaseException:
            # An interrupt while waiting: whatever has come meanwhile is given back.
            with self._lock:
                if turn.done() and turn.exception() is None:
                    granted(lane, cost, turn.result()).refund()
                self._line.leave(waiter)
                self._look_again()
            raise

    def try_acquire(self, cost: int = 1, category: str | None = None) -> Grant | None:
        """What ``acquire`` would grant without waiting, or None."""
        with self._lock:
            lane = self._lane(category)
            at = self._line.try_take(lane, cost)
        return None if at is None else granted(lane, cost, at)

    def _look_again(self) -> None:
        with self._lock:
            at = self._line.serve()
            self._news.notify()
            if at is not None and self._timer is None:
                name = "penstock-throttle"
                self._timer = threading.Thread(target=self._keep_time, name=name, daemon=True)
                self._timer.start()

    def _keep_time(self) -> None:
        with self._lock:
            while (at := self._line.serve()) is not None:
                wait_s = (min(at, FAR) - self._line.clock.monotonic_ns()) / SECOND_NS
                self._news.wait(min(max(wait_s, 0), threading.TIMEOUT_MAX))
            self._timer = None
