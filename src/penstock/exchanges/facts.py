"""Facts about requests to an exchange and its limits."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from penstock.telemetry import CountedFact, Fact, Level


class RequestSent(CountedFact, frozen=True, kw_only=True):
    """A request was sent to an exchange and answered, with any status."""

    level: ClassVar[Level] = "debug"

    path: str
    cost: int
    status: int
    took_ms: int

    def logged_at(self) -> Level:
        return "warning" if self.status >= 400 else self.level

    def counts(self) -> Mapping[str, int]:
        return {f"requests.{self.status}": 1, "cost": self.cost}


class RequestFailed(CountedFact, frozen=True, kw_only=True):
    """A request got no answer; ``sent`` is true if it may have reached the exchange."""

    level: ClassVar[Level] = "warning"

    path: str
    cost: int
    sent: bool
    reason: str

    def counts(self) -> Mapping[str, int]:
        return {f"failures.{str(self.sent).lower()}": 1}


class RequestsSigned(Fact, frozen=True, kw_only=True):
    """Requests to an exchange are signed with an API key, and these limits apply to them."""

    exchange: str
    limits: tuple[str, ...]


class SendingStopped(CountedFact, frozen=True, kw_only=True):
    """An exchange ordered a stop (429 or a ban): nothing is sent to it before ``until_ms``.

    ``asked_ms`` is the end that it asked for, which may exceed ``requests.longest_stop``.
    """

    level: ClassVar[Level] = "warning"

    path: str
    status: int
    until_ms: int
    asked_ms: int
    words: str = ""

    def counts(self) -> Mapping[str, int]:
        return {"rate_limit_errors": 1}


class CapacityLow(Fact, frozen=True, kw_only=True):
    """Half of a rate limit's window is used. Logged once per crossing."""

    exchange: str
    timeframe: str
    remaining: int


class ClockStepped(Fact, frozen=True, kw_only=True):
    """A clock used for rate limits was stepped; logged once two answers agree."""

    level: ClassVar[Level] = "warning"

    exchange: str
    clock: Literal["exchange", "store"]
    """Whose clock it is."""
    by_ms: int
    """How far it was set, ahead if above zero."""
