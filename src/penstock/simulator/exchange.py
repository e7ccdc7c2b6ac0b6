"""What one simulated exchange must supply: the port between protocol and server.

An exchange's file is pure: it turns queries into bodies and instants into frames, and opens no
socket. The server carries them, counts them against the limits, and spoils them with faults.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from penstock.simulator.limits import Rule, Verdict

Query = Mapping[str, str]
"""The parameters of one request, decoded."""


class Asked(NamedTuple):
    """What a client asked of an endpoint."""

    query: Query
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


@dataclass(frozen=True)
class Route:
    """One REST endpoint."""

    path: str
    cost: Callable[[Query], int]
    """The weight it is charged, from its parameters alone. Never raises."""
    answer: Callable[[Asked, int], bytes]
    """The body as of an instant (ms). Raises Refused."""


@dataclass(frozen=True)
class Feed:
    """One stream, as a pure function of time."""

    name: str
    frames: Callable[[int, int], list[bytes]]
    """Payloads that fall due in (after_ms, upto_ms], in order."""


class Opening(NamedTuple):
    """What a client asked for by the address it connected to."""

    streams: tuple[str, ...]
    wrapped: bool
    dialect: str = ""
    """How frames are to be worded, in the exchange's own terms; empty for the usual."""


@dataclass
class Subscriber:
    """The part of a connection that control messages read and change."""

    streams: dict[str, None] = field(default_factory=dict)
    """Stream names in the order of subscription."""
    wrapped: bool = False
    """Whether frames carry the stream's name round the payload."""
    dialect: str = ""
    """How they are worded: clients that share a stream share its bytes only in one dialect."""


class ControlReply(NamedTuple):
    """An answer to a control message; faults may eat or refuse one that acknowledges."""

    text: bytes
    acknowledges: bool


class SimulatedExchange(Protocol):
    """One exchange, as the server sees it. Implementations hold no socket and no clock."""

    name: str
    rules: Sequence[Rule]
    """Every limit the exchange counts."""
    routes: Mapping[str, Route]
    headers: Mapping[str, str]
    """What every answer carries."""
    content_type: str
    """Of every answer that does not say otherwise."""

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

    def open(self, path: str, query: Query) -> Opening | None:
        """What a WebSocket address asks for; None if there is nothing at that path.

        Raises:
            Refused: there is something, but not as the client wants it.
        """
        ...

    def control(self, text: str, subscriber: Subscriber) -> list[ControlReply]:
        """Carry out a client's message, changing ``subscriber``; the answers."""
        ...

    def feed(self, stream: str, dialect: str) -> Feed | None:
        """The stream of that name; None if there is none (accepted silently, as exchanges do)."""
        ...

    def wrap(self, stream: str, payload: bytes) -> bytes:
        """The payload inside the combined envelope."""
        ...

    def shutdown_notice(self, at_ms: int, dialect: str) -> tuple[str, bytes]:
        """(stream name for the envelope, payload) of the warning sent before a planned stop."""
        ...

    def refuse_ack(self, reply: bytes) -> bytes:
        """The refusal the exchange would have sent instead of this acknowledgement (a fault)."""
        ...
