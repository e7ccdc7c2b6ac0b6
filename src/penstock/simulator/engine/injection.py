"""Injects the faults of a plan and logs what each one replaced.

Faults are injected in three places: into frames between the feed and a connection's outbox, into
connections at a time drawn when they open, and into requests after admission, so that limits count
as usual. A connection without faults shares its bytes with all others.
"""

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from msgspec import Struct

from penstock.simulator.engine.exchange import Reply
from penstock.simulator.engine.facts import FaultInjected
from penstock.simulator.engine.faults import CONNECTION_KINDS, FRAME_KINDS, FaultPlan
from penstock.simulator.engine.history import History, PackedPage, Page, kept_text
from penstock.telemetry import Listener

_LONGEST_DELAY_MS = 500
_OLDEST_MS = 2000
_LATEST_MS = 1000
_SHOWN_BYTES = 300
_QUOTED_NUMBER = re.compile(rb'"-?[0-9]+(?:\.[0-9]+)?"')
# Of unquoted numbers only decimals: integers are more often ids and times than amounts.
_BARE_NUMBER = re.compile(rb"(?<=[:,\[])-?[0-9]+\.[0-9]+(?=[,\]}])")
_SPOILED = {"nan": b"NaN", "huge": b"1e999"}


class Injected(Struct, frozen=True):
    """One injected fault."""

    seq: int
    at_ms: int
    kind: str
    where: str
    connection: int
    """0 for requests."""
    number: int
    """The number of the frame in its stream on that connection, or of the request."""
    hid: str
    """What the client would have received without the fault, shortened."""


class FaultLog:
    """Counts and reports all injected faults, and keeps the latest."""

    def __init__(self, exchange: str, listener: Listener, remembered: int = 20_000) -> None:
        self.counts: Counter[str] = Counter()
        self._exchange, self._emit = exchange, listener
        self._log = History(Injected, remembered)

    def write(self, at_ms: int, kind: str, where: str, which: tuple[int, int], hid: bytes) -> None:
        """Log a fault; ``which`` is (connection, number)."""
        self.counts[kind] += 1
        shown, seq = hid[:_SHOWN_BYTES].decode(errors="replace"), self._log.written + 1
        self._log.append(Injected(seq, at_ms, kind, kept_text(where), *which, shown))
        self._emit(FaultInjected(exchange=self._exchange, kind=kind, where=where))

    def entries(self, after_seq: int = 0, most: int | None = None) -> Page[Injected]:
        """Up to ``most`` faults after a sequence number."""
        return self._log.page(after_seq, most)

    def packed(self, after_seq: int, most: int) -> PackedPage:
        """Up to ``most`` faults after a sequence number, as JSON."""
        return self._log.packed(after_seq, most)


class Due(NamedTuple):
    """A delayed frame, and the time at which to send it."""

    at_ms: int
    stream: str
    payload: bytes


class ConnectionFaults:
    """The faults of one connection."""

    def __init__(
        self, plan: FaultPlan, ordinal: int, path: str, since_ms: int, log: FaultLog
    ) -> None:
        self._plan, self._ordinal, self._path, self._log = plan, ordinal, path, log
        self._since_ms = since_ms
        self._numbers: Counter[str] = Counter()
        self._swapped: dict[str, bytes] = {}
        self._delayed: list[Due] = []
        self._muted: set[str] = set()
        self._acks = 0
        self.ends_ms = {
            kind: since_ms + after_ms
            for kind in CONNECTION_KINDS
            if (after_ms := self._after_ms(kind)) is not None
        }
        """Connection fault → time at which it is injected."""

    def grace_ms(self) -> int:
        """The time between a shutdown notice and the end of the connection."""
        return 2000 + self._plan.draw("grace", self._path, self._ordinal) % 3001

    def inject(self, stream: str, payload: bytes, now_ms: int) -> list[bytes]:
        """The payloads to send in place of a frame: unchanged, altered, none, or several."""
        self._numbers[stream] += 1
        number = self._numbers[stream]
        kind = self._fault_of(stream, number, now_ms)
        behind = self._swapped.pop(stream, None)
        sent = [payload] if kind is None else self._apply(kind, stream, payload, now_ms)
        return sent if behind is None else [*sent, behind]

    def due(self, now_ms: int) -> list[Due]:
        """The delayed frames that are due."""
        if not self._delayed:
            return []
        now_due = [due for due in self._delayed if due.at_ms <= now_ms]
        self._delayed = [due for due in self._delayed if due.at_ms > now_ms]
        return sorted(now_due, key=lambda due: due.at_ms)

    def release(self) -> list[Due]:
        """All frames still held back, to be sent before these faults are replaced."""
        held = [Due(0, stream, payload) for stream, payload in self._swapped.items()]
        held += sorted(self._delayed, key=lambda due: due.at_ms)
        self._swapped, self._delayed = {}, []
        return held

    def ack(self, text: bytes, now_ms: int) -> Literal["sent", "lost", "refused"]:
        """The outcome of an acknowledgement."""
        self._acks += 1
        which = (self._ordinal, self._acks)
        if self._plan.injects("lostack", self._path, *which):
            self._log.write(now_ms, "lostack", self._path, which, text)
            return "lost"
        if self._plan.injects("refusedack", self._path, *which):
            self._log.write(now_ms, "refusedack", self._path, which, text)
            return "refused"
        return "sent"

    def note(self, kind: str, now_ms: int, hid: bytes = b"") -> None:
        """Log a connection fault."""
        self._log.write(now_ms, kind, self._path, (self._ordinal, 0), hid)

    def _after_ms(self, kind: str) -> int | None:
        fault = self._plan.find(kind, self._path)
        if fault is None:
            return None
        if kind == "lifetime":
            return fault.low_ms
        draw = self._plan.draw(kind, self._path, self._ordinal)
        return fault.low_ms // 2 + draw % (fault.low_ms + 1)

    def _fault_of(self, stream: str, number: int, now_ms: int) -> str | None:
        mute = self._plan.find("mute", stream)
        if mute is not None and now_ms >= self._since_ms + mute.low_ms:
            return "mute"
        for kind in FRAME_KINDS:
            if self._plan.injects(kind, stream, self._ordinal, number):
                return kind
        return None

    def _apply(self, kind: str, stream: str, payload: bytes, now_ms: int) -> list[bytes]:
        number = self._numbers[stream]
        sent: list[bytes] = []
        if kind == "mute" and stream in self._muted:
            self._log.counts[kind] += 1  # logged once; every dropped frame is counted
            return sent
        if kind == "mute":
            self._muted.add(stream)
        elif kind == "duplicate":
            sent = [payload, payload]
        elif kind == "reorder":
            self._swapped[stream] = payload
        elif kind == "delay":
            draw = self._plan.draw("delay", "how long", self._ordinal, number)
            self._delayed.append(Due(now_ms + 1 + draw % _LONGEST_DELAY_MS, stream, payload))
        elif kind == "malformed":
            sent = [payload.decode()[: len(payload) // 2].encode()]
        elif kind in _SPOILED:
            spoiled = self._spoil(kind, payload, number)
            if spoiled is None:
                return [payload]
            sent = [spoiled]
        self._log.write(now_ms, kind, stream, (self._ordinal, number), payload)
        return sent

    def _spoil(self, kind: str, payload: bytes, number: int) -> bytes | None:
        quoted = list(_QUOTED_NUMBER.finditer(payload))
        places = quoted or list(_BARE_NUMBER.finditer(payload))
        if not places:
            return None
        place = places[self._plan.draw(kind, "which", self._ordinal, number) % len(places)]
        spoiled = b'"%b"' % _SPOILED[kind] if quoted else _SPOILED[kind]
        return payload[: place.start()] + spoiled + payload[place.end() :]


@dataclass(frozen=True)
class RequestFaults:
    """The faults of one request."""

    latency_ms: int | None = None
    status: int | None = None
    """The status to respond with instead: 500, 429, 418 or 404; with ``page``, that of the page."""
    retry_after_s: int = 0
    page: bool = False
    """Respond with a page of HTML and ``status``."""
    cut_body: bool = False
    shift_ms: int = 0
    """Respond with data of this much later; earlier if negative."""
    corrupt: bool = False
    """Change one bit of the body."""
    short: bool = False
    """Respond with half the body, as if it were all."""

    def altered(self, reply: Reply) -> Reply:
        """The response with a body that these faults have changed."""
        body, middle = reply.body, len(reply.body) // 2
        if self.corrupt and body:
            body = b"%b%c%b" % (body[:middle], body[middle] ^ 1, body[middle + 1 :])
        return replace(reply, body=body[:middle] if self.short else body)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the faults, without latency, which is not logged."""
        if self.page:
            return ("html",)
        if self.status is not None:
            return (f"http{self.status}",)
        shift = ("stale",) if self.shift_ms < 0 else ("early",) if self.shift_ms > 0 else ()
        bodies = {"cutbody": self.cut_body, "corrupt": self.corrupt, "short": self.short}
        return (*shift, *(kind for kind, injects in bodies.items() if injects))


def request_faults(plan: FaultPlan, path: str, seq: int) -> RequestFaults:
    """The faults that a plan has for a request."""
    latency_ms = None
    if fault := plan.find("latency", path):
        span_ms = fault.high_ms - fault.low_ms
        latency_ms = fault.low_ms + plan.draw("latency", path, seq) % (span_ms + 1)
    for status in (500, 429, 418, 404):
        if plan.injects(f"http{status}", path, seq):
            retry_after_s = 1 + plan.draw("retry", path, seq) % 3
            return RequestFaults(latency_ms, status, retry_after_s)
    if plan.injects("html", path, seq):
        status = (200, 403, 502)[plan.draw("page", path, seq) % 3]
        return RequestFaults(latency_ms, status, page=True)
    shift_ms = 0
    if plan.injects("stale", path, seq):
        shift_ms = -1 - plan.draw("older", path, seq) % _OLDEST_MS
    elif plan.injects("early", path, seq):
        shift_ms = 1 + plan.draw("newer", path, seq) % _LATEST_MS
    return RequestFaults(
        latency_ms,
        cut_body=plan.injects("cutbody", path, seq),
        shift_ms=shift_ms,
        corrupt=plan.injects("corrupt", path, seq),
        short=plan.injects("short", path, seq),
    )


class Injector:
    """Holds the plan in force and derives the faults of connections and requests."""

    def __init__(self, plan: FaultPlan, log: FaultLog) -> None:
        self.plan, self.log = plan, log
        self.since_ms = 0

    def install(self, plan: FaultPlan, now_ms: int) -> None:
        """Replace the plan; its times count from now."""
        self.plan, self.since_ms = plan, now_ms

    def for_connection(self, ordinal: int, path: str, opened_ms: int) -> ConnectionFaults | None:
        """The faults of a connection; None if the plan has none for connections."""
        if not self.plan.touches_connections():
            return None
        return ConnectionFaults(self.plan, ordinal, path, max(opened_ms, self.since_ms), self.log)

    def for_request(self, path: str, seq: int) -> RequestFaults:
        """The faults of a request."""
        return request_faults(self.plan, path, seq) if self.plan.faults else _NO_FAULTS

    def changed_limit(self, now_ms: int) -> int | None:
        """The value that the plan gives the first limit by now, if any."""
        for fault in self.plan.faults:
            if fault.kind == "limit" and now_ms >= self.since_ms + fault.low_ms:
                return fault.limit
        return None


_NO_FAULTS = RequestFaults()
