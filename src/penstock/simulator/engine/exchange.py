"""What one simulated exchange must supply: the port between protocol and server.

An exchange's file is pure: it turns queries into bodies and instants into frames, and opens no
socket. The server carries them, counts them against the limits, and spoils them with faults.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from penstock.simulator.engine.limits import ANY_TARGET, BanPolicy, LimitTarget, Rule, Verdict
from penstock.simulator.market.pieces import Work

Query = Mapping[str, str]
"""The parameters of one request, decoded."""


class Asked(NamedTuple):
    """What a client asked of an endpoint."""

    query: Query
    """Its parameters, and what its path names."""
    headers: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Reply:
    """What goes back over HTTP."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str | None = None
    """None for what the exchange's answers are as a rule."""


class Refused(Exception):
    """The exchange's own no to a request it understood: a bad parameter, an unknown symbol."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        super().__init__(reply.body.decode(errors="replace"))


def _any_target(_asked: Asked) -> LimitTarget:
    return ANY_TARGET


@dataclass(frozen=True)
class Route:
    """One REST endpoint."""

    path: str
    """As it is, or with names in braces: ``/products/{product}/book``."""
    cost: Callable[[Query], int]
    """The weight it is charged, from its parameters alone. Never raises."""
    answer: Callable[[Asked, int], bytes | Reply | Work[bytes]]
    """The body as of an instant (ms), or more than a body; in pieces where it takes long.

    Raises Refused.
    """
    target: Callable[[Asked], LimitTarget] = _any_target
    """Which group of limits counts it, and under which key. Never raises."""


@dataclass(frozen=True)
class StreamFeed:
    """One stream, as a pure function of time.

    Its name holds everything that shapes its frames: market, depth, interval, format. So clients
    that asked for the same share the bytes, and those with other options have another stream.
    """

    name: str
    frames: Callable[[int, int], list[bytes]]
    """Payloads that fall due in (after_ms, upto_ms], in order."""
    opening: Callable[[int], list[bytes] | Work[list[bytes]]] | None = None
    """What whoever joins at an instant (ms) hears first: the state that later frames change.

    In pieces where it takes long.
    """


class Opening(NamedTuple):
    """What a client asked for by the address it connected to."""

    streams: tuple[str, ...]
    wrapped: bool
    dialect: str = ""
    """How frames are to be worded, in the exchange's own terms; empty for the usual."""
    group: str = ""
    """The group of limits that counts the attempt to connect."""


@dataclass
class Subscriber:
    """The part of a connection that control messages read and change."""

    streams: dict[str, None] = field(default_factory=dict)
    """Stream names in the order of subscription."""
    wrapped: bool = False
    """Whether frames carry the stream's name round the payload."""
    dialect: str = ""
    """How they are worded, as long as the connection lives.

    Clients that share a stream share its bytes only in one dialect.
    """
    renewed: set[str] = field(default_factory=set)
    """Streams to be joined anew, opening and all, though they were there before."""


class ControlReply(NamedTuple):
    """An answer to a control message; faults may eat or refuse one that acknowledges."""

    text: bytes
    acknowledges: bool
    concerns: tuple[str, ...] | None = None
    """The streams it is about; all that the message changed if None."""


@dataclass(frozen=True)
class Upkeep:
    """What an exchange asks of connections, and when it ends them; None where it does not."""

    ping_every_ms: int | None = None
    pong_within_ms: int | None = None
    lifetime_ms: int | None = None
    """No connection lives longer."""
    subscribe_within_ms: int | None = None
    """A connection without a stream is ended after so long."""
    idle_ms: int | None = None
    """A connection on which nothing is sent, either way, is ended after so long."""
    most_streams: int | None = None


class SimulatedExchange(Protocol):
    """One exchange, as the server sees it. Implementations hold no socket and no clock."""

    name: str
    rules: Sequence[Rule]
    """Every limit the exchange counts; requests are judged by the first that counts them."""
    bans: BanPolicy | None
    """When it shuts out whoever goes on after refusals; None if it never does."""
    upkeep: Upkeep
    routes: Mapping[str, Route]
    headers: Mapping[str, str]
    """What every answer carries."""
    content_type: str
    """Of every answer that does not say otherwise."""
    binary: bool
    """Whether streams are sent, and messages taken, as binary frames; else as text."""

    def not_found(self, path: str) -> Reply:
        """The answer to a path the exchange does not have."""
        ...

    def failure(self) -> Reply:
        """The answer when something broke on the exchange's side."""
        ...

    def refusal(self, verdict: Verdict) -> Reply:
        """The answer to a request over the limit, or from somebody banned."""
        ...

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:
        """What every answer tells of the budget used."""
        ...

    def open(self, path: str, asked: Asked) -> Opening | None:
        """What a WebSocket address asks for; None if there is nothing at that path.

        Raises:
            Refused: there is something, but not as the client wants it.
        """
        ...

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:
        """What a client hears as soon as it is connected."""
        ...

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:
        """Carry out a client's message, changing ``subscriber``; the answers."""
        ...

    def overrun(self, text: str) -> bytes | None:
        """The answer to a message over the limit; None to end the connection instead."""
        ...

    def feed(self, stream: str, dialect: str) -> StreamFeed | None:
        """The stream of that name; None if there is none (accepted silently, as exchanges do)."""
        ...

    def wrap(self, stream: str, payload: bytes) -> bytes:
        """The payload inside the combined envelope; itself where there is none."""
        ...

    def shutdown_notice(self, at_ms: int, dialect: str) -> tuple[str, bytes] | None:
        """(stream name for the envelope, payload) of the warning before a planned stop, if any."""
        ...

    def refuse_ack(self, reply: bytes) -> bytes:
        """The refusal the exchange would have sent instead of this acknowledgement (a fault)."""
        ...
