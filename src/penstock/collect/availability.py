"""Tracks whether requests to an exchange are possible.

A paused connector, or an unreachable state store, stops every request of the process for as long as
it lasts, but no stream. A task whose request failed for such a reason waits here until it is over,
so that no request is attempted in vain, and the reason is logged once.
"""

from collections.abc import Awaitable, Callable

from penstock.clock import Clock
from penstock.collect.facts import RequestsResumed, RequestsSuspended
from penstock.errors import SUSPENDED
from penstock.telemetry import Listener, quiet

_CHECK_S = 1.0


async def _always() -> None:
    """Do nothing: without a shared state, requests cannot be paused."""


class RestAvailability:
    """Whether requests are possible, for one exchange and one process."""

    def __init__(
        self,
        exchange: str,
        clock: Clock,
        check: Callable[[], Awaitable[None]] = _always,
        *,
        note: Callable[[str], None] = lambda _: None,
        emit: Listener = quiet,
    ) -> None:
        """``check`` raises one of ``SUSPENDED``; ``note`` receives the reason, and "" after it."""
        self._exchange, self._clock, self._check = exchange, clock, check
        self._note, self._emit = note, emit
        self._reason = ""

    @property
    def suspended(self) -> bool:
        """Whether no request is possible."""
        return bool(self._reason)

    def failed(self, error: Exception) -> bool:
        """Note a failed request; return whether all requests are impossible."""
        if not isinstance(error, SUSPENDED):
            return False
        reason = str(error)
        if reason != self._reason:
            self._reason = reason
            self._note(reason)
            self._emit(RequestsSuspended(exchange=self._exchange, reason=reason))
        return True

    async def resumed(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Wait until requests are possible again, or ``wanted`` returns False."""
        while self.suspended and wanted():
            await self._clock.sleep(_CHECK_S)

    async def run(self) -> None:
        """Check every second, for ever."""
        while True:
            await self.check()
            await self._clock.sleep(_CHECK_S)

    async def check(self) -> None:
        """Check once."""
        try:
            await self._check()
        except SUSPENDED as error:
            self.failed(error)
            return
        if self._reason:
            self._reason = ""
            self._note("")
            self._emit(RequestsResumed(exchange=self._exchange))
