"""Whether an exchange can be asked at the moment.

A paused connector, or a state store that is away, stops every request of the process for as long as
it lasts, and no stream. Whoever was refused for such a reason waits here until it is over, so that
nothing is asked in vain meanwhile, and the reason is told once.
"""

from collections.abc import Awaitable, Callable

from penstock.clock import Clock
from penstock.collect.facts import RequestsResumed, RequestsSuspended
from penstock.errors import SUSPENDED
from penstock.telemetry import Listener, quiet

_CHECK_S = 1.0


async def _always() -> None:
    """Where nothing is shared, nobody can pause anything."""


class RestAvailability:
    """Knows whether requests are possible, for one exchange and one process."""

    def __init__(
        self,
        exchange: str,
        clock: Clock,
        check: Callable[[], Awaitable[None]] = _always,
        *,
        note: Callable[[str], None] = lambda _: None,
        tell: Listener = quiet,
    ) -> None:
        """``check`` raises one of ``SUSPENDED``; ``note`` is told the reason, and "" after it."""
        self._exchange, self._clock, self._check = exchange, clock, check
        self._note, self._tell = note, tell
        self._reason = ""

    @property
    def suspended(self) -> bool:
        """Whether nothing can be asked."""
        return bool(self._reason)

    def failed(self, error: Exception) -> bool:
        """Note that something could not be asked; whether nothing else can be either."""
        if not isinstance(error, SUSPENDED):
            return False
        reason = str(error)
        if reason != self._reason:
            self._reason = reason
            self._note(reason)
            self._tell(RequestsSuspended(exchange=self._exchange, reason=reason))
        return True

    async def resumed(self, wanted: Callable[[], bool] = lambda: True) -> None:
        """Wait until requests are possible again, or nobody wants that any more."""
        while self.suspended and wanted():
            await self._clock.sleep(_CHECK_S)

    async def run(self) -> None:
        """Check now and then, for ever."""
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
            self._tell(RequestsResumed(exchange=self._exchange))
