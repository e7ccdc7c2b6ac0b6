"""Facts about clients and injected faults."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class RequestRefused(Fact, frozen=True, kw_only=True):
    """A simulated exchange rejected a request because of its rate limit."""

    level: ClassVar[Level] = "warning"

    exchange: str
    path: str
    status: int
    used: int
    limit: int


class ClientConnected(Fact, frozen=True, kw_only=True):
    """A client opened a stream connection to the simulator."""

    exchange: str
    connection: int
    path: str


class ClientGone(Fact, frozen=True, kw_only=True):
    """A stream connection to the simulator ended, and why."""

    exchange: str
    connection: int
    reason: str


class FaultInjected(Fact, frozen=True, kw_only=True):
    """The simulator injected a fault."""

    level: ClassVar[Level] = "debug"

    exchange: str
    kind: str
    where: str
