"""A throttler for threads: ``acquire`` blocks instead of being awaited.

The queues, their rules and their fairness are those of ``BaseThrottler``. A lock is held while
limits are checked and charged, never while waiting. One timer thread serves the next waiter, and
ends when no caller waits.
"""

import threading
from concurrent.futures import Future

from penstock.throttle.rules import FAR
from penstock.throttle.scheduler import Waiter
from penstock.throttle.throttler import Grant, Pipelines, ThrottlerCore, deadline_of, granted
from penstock.throttle.windows import SECOND_NS


class BlockingThrottler(ThrottlerCore):
    """Throttles the calls of many threads."""

    def __init__(self, pipelines: Pipelines, *, ageing_s: float = 10.0) -> None:
        """See ``ThrottlerCore``."""
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
        """Acquire a grant, blocking until there is capacity; see ``BaseThrottler.acquire``."""
        future: Future[int] = Future()
        with self._lock:
            queue = self._queue(category)
            at = self._scheduler.try_take(queue, cost)
            if at is not None:
                return granted(queue, cost, at)
            deadline = FAR if timeout is None else deadline_of(self._scheduler.clock, timeout)
            waiter = Waiter(queue, cost, deadline, future)
            self._scheduler.join(waiter, priority)
            self._check_again()
        try:
            return granted(queue, cost, future.result())
        except BaseException:
            # An interrupt while waiting: a grant that has arrived meanwhile is refunded.
            with self._lock:
                if future.done() and future.exception() is None:
                    granted(queue, cost, future.result()).refund()
                self._scheduler.leave(waiter)
                self._check_again()
            raise

    def try_acquire(self, cost: int = 1, category: str | None = None) -> Grant | None:
        """The grant that ``acquire`` would return without waiting, or None."""
        with self._lock:
            queue = self._queue(category)
            at = self._scheduler.try_take(queue, cost)
        return None if at is None else granted(queue, cost, at)

    def _check_again(self) -> None:
        with self._lock:
            at = self._scheduler.serve()
            self._news.notify()
            if at is not None and self._timer is None:
                name = "penstock-throttle"
                self._timer = threading.Thread(target=self._keep_time, name=name, daemon=True)
                self._timer.start()

    def _keep_time(self) -> None:
        with self._lock:
            while (at := self._scheduler.serve()) is not None:
                wait_s = (min(at, FAR) - self._scheduler.clock.monotonic_ns()) / SECOND_NS
                self._news.wait(min(max(wait_s, 0), threading.TIMEOUT_MAX))
            self._timer = None
