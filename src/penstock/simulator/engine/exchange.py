"""The port between server and protocol, which each simulated exchange implements.

An exchange's code is pure: it turns queries into bodies and times into frames, and opens no socket.
The server transports them, counts requests against the limits, and injects faults.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import ANY_TARGET, BanPolicy, LimitTarget, Rule
from penstock.simulator.market.pieces import Work

Query = Mapping[str, str]
"""The parameters of one request, decoded."""


class Asked(NamedTuple):
    """A client's request to an endpoint."""

    query: Query
    """The query parameters and the path parameters."""
    headers: Mapping[str, str] = MappingProxyType({})
    target: str = ""
    """The path and the query as they were sent."""


@dataclass(frozen=True)
class Reply:
    """An HTTP response."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None
    """None for the exchange's usual content type."""


class Refused(Exception):
    """The exchange rejects a request: a bad parameter, an unknown symbol."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__(reply.body.decode(errors="replace"))


def _any_target(_asked: Asked) -> LimitTarget:
    return ANY_TARGET


@dataclass(frozen=True)
class Route:
    """One REST endpoint."""

    path: str
    """A literal path, or one with parameters in braces: ``/products/{product}/book``."""
    cost: Callable[[Query], int]
    """The weight of a request, from its parameters alone. Never raises."""
    answer: Callable[[Asked, int], bytes | Reply | Work[bytes]]
    """The body as of a time (ms), or a whole reply; a generator if it takes long.

    Raises Refused.
    """
    target: Callable[[Asked], LimitTarget] = _any_target
    """The group of limits that counts a request, and the key it is counted under. Never raises."""
    is_counted: bool = True
    """Whether limits count its requests and the log lists them; not those of files, which the
    exchange serves from another host."""


@dataclass(frozen=True)
class StreamFeed:
    """One stream, as a pure function of time.

    The name contains everything that determines the frames: market, depth, interval, format. So
    clients with the same options share the bytes, and other options make another stream.
    """

    name: str
    frames: Callable[[int, int], list[bytes]]
    """The payloads that are due in (after_ms, upto_ms], in order."""
    opening: Callable[[int], list[bytes] | Work[list[bytes]]] | None = None
    """The first payloads for a client that joins at a time (ms), which later frames change.

    A generator if it takes long.
    """


class Opening(NamedTuple):
    """What a client requests with the address it connects to."""

    streams: tuple[str, ...]
    wrapped: bool
    dialect: str = ""
    """The format of the frames, in the exchange's terms; empty for the default."""
    group: str = ""
    """The group of limits that counts the attempt to connect."""


@dataclass
class Subscriber:
    """The state of a connection that control messages read and change."""

    streams: dict[str, None] = field(default_factory=dict)
    """Stream names, in the order of subscription."""
    wrapped: bool = False
    """Whether payloads are sent in an envelope with the stream's name."""
    dialect: str = ""
    """The format of the frames, fixed for the life of the connection.

    Clients of a stream share its bytes only within one dialect.
    """
    renewed: set[str] = field(default_factory=set)
    """Streams subscribed before that are to be joined again, with their opening payloads."""


class ControlReply(NamedTuple):
    """A reply to a control message; faults may drop or refuse an acknowledgement."""

    text: bytes
    acknowledges: bool
    concerns: tuple[str, ...] | None = None
    """The streams that the reply concerns; None for all that the message changed."""


@dataclass(frozen=True)
class Upkeep:
    """When an exchange pings and closes connections; None where it does not."""

    ping_every_ms: int | None = None
    pong_within_ms: int | None = None
    lifetime_ms: int | None = None
    """The longest life of a connection."""
    subscribe_within_ms: int | None = None
    """A connection without a stream is closed after this time."""
    idle_ms: int | None = None
    """A connection on which nothing is sent or received is closed after this time."""
    most_streams: int | None = None


class SimulatedExchange(Protocol):
    """One exchange, as the server uses it. Implementations have no socket and no clock."""

    name: str
    rules: Sequence[Rule]
    """All limits of the exchange; clients are judged by the first one that counts requests."""
    bans: BanPolicy | None
    """When clients that continue after refusals are banned; None if never."""
    upkeep: Upkeep
    routes: Mapping[str, Route]
    headers: Mapping[str, str]
    """Headers of every response."""
    content_type: str
    """The content type of responses that set no other."""
    binary: bool
    """Whether payloads are sent, and messages accepted, as binary frames; otherwise as text."""

    def not_found(self, path: str) -> Reply:
        """The response to an unknown path."""
        ...

    def failure(self) -> Reply:
        """The response to a request that failed with an internal error."""
        ...

    def refusal(self, verdict: Verdict) -> Reply:
        """The response to a request over the limit or from a banned address."""
        ...

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:
        """The headers that report usage, sent with every response."""
        ...

    def open(self, path: str, asked: Asked) -> Opening | None:
        """What a WebSocket address requests; None if there is no such path.

        Raises:
            Refused: the path exists, but the request is not valid.
        """
        ...

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:
        """The payloads sent to a client when it has connected."""
        ...

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:
        """Apply a client's message to ``subscriber`` and return the replies."""
        ...

    def overrun(self, text: str) -> bytes | None:
        """The reply to a message over the limit; None to close the connection instead."""
        ...

    def feed(self, stream: str, dialect: str) -> StreamFeed | None:
        """The stream of that name; None if unknown (accepted without error, as exchanges do)."""
        ...

    def wrap(self, stream: str, payload: bytes) -> bytes:
        """The payload in the envelope of combined streams; unchanged if the exchange has none."""
        ...

    def shutdown_notice(self, at_ms: int, dialect: str) -> tuple[str, bytes] | None:
        """(stream name for the envelope, payload) of the notice before a planned stop, if any."""
        ...

    def refuse_ack(self, reply: bytes) -> bytes:
        """The refusal that a fault sends instead of this acknowledgement."""
        ...
