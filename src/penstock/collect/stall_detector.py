"""Detects stalled streams: those that deliver nothing though their markets change.

The liveness model selects streams that are silent for longer than usual. A probe, one cheap REST
request, then shows whether the market changed meanwhile. If it did not, the silence is genuine. If
it did, and the stream does not deliver the change within the grace time, the stream has stalled. It
is resubscribed; if that does not help, its connection is replaced, once. A stream that never
delivered anything may have a wrong name, so no connection is replaced for it; it is resubscribed
with growing delays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock.clock import Clock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import StreamProbed, StreamRecovered, StreamStalled, StreamSuspected
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import MarketProgress, Request, Rest
from penstock.market.channels import BY_EVENT, find
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.streaming.latest_events import latest_events
from penstock.streaming.liveness import (
    FIRST_S,
    LEAST_S,
    ONE_ARRIVAL_NS,
    SECOND_NS,
    Liveness,
    Silence,
)
from penstock.streaming.wanted import StreamKey
from penstock.telemetry import Listener, quiet

GRACE_S = 2.0
"""How long the stream may take to deliver what REST already returns."""
_NOTES = 20
"""Within the shortest silence, how often it is noted what streams have delivered …"""
_NOTE_LATEST_NS = SECOND_NS // 2
"""… but no less often than this."""
_PROBES_AT_ONCE = 2
_ROTATES_EVERY_NS = 3600 * SECOND_NS
"""A stream that stalls repeatedly has its connection, which others share, replaced so often."""

Found = Literal["nothing", "news", "failed"]


class StreamControl(Protocol):
    """Controls the connection of each stream, whether there is one connection or many."""

    def connected_since_ns(self, channel: str, symbol: Symbol) -> int | None:
        """When the stream's connection was opened; None while it is not open."""
        ...

    def resubscribe(self, channel: str, symbol: Symbol) -> None:
        """Unsubscribe from a stream and subscribe again."""
        ...

    def rotate(self, channel: str, symbol: Symbol, reason: str) -> None:
        """Replace the stream's connection by another."""
        ...


@dataclass(frozen=True)
class ProbeContext:
    """How to probe by REST whether a market has changed."""

    exchange: str
    rest: Rest
    fetch: Callable[[Request[MarketProgress]], Awaitable[MarketProgress]]
    """Acquires tokens and sends the request."""
    availability: RestAvailability


@dataclass(frozen=True)
class SilenceLimits:
    """How long a stream may be silent."""

    least_s: float = LEAST_S
    """The minimum, however frequent its events are."""
    first_s: float = FIRST_S
    """If the usual frequency is not known."""
    grace_s: float = GRACE_S


@dataclass
class _SilencePeriod:
    """One silence of one stream."""

    since_ns: int
    progress: MarketProgress | None = None
    """The market's progress at the last probe."""
    confirmed: int = 0


class StallDetector:
    """Detects stalled streams among the expected ones, and tries to restore them."""

    def __init__(
        self,
        context: ProbeContext,
        clock: Clock,
        emit: Listener = quiet,
        limits: SilenceLimits = SilenceLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self._context, self._clock, self._emit, self._limits = context, clock, emit, limits
        self._live = Liveness[StreamKey](least_s=limits.least_s, first_s=limits.first_s)
        self._streams: dict[tuple[type[Event], Symbol], StreamKey] = {}
        """The stream of an event by class and symbol, except those of families of channels."""
        self._families: set[type[Event]] = set()
        """The classes of events whose channel depends on more, such as the interval of a candle."""
        self._pending_events = latest_events()
        """Those received and not noted yet."""
        self._next_flush_ns = 0
        # Often enough to tell that a stream is frequent enough for the shortest silence.
        every_ns = round(limits.least_s * SECOND_NS) // _NOTES
        self._note_every_ns = min(max(ONE_ARRIVAL_NS, every_ns), _NOTE_LATEST_NS)
        self._latest: dict[StreamKey, Event] = {}
        self._cases: dict[StreamKey, _SilencePeriod] = {}
        self._rotated_ns: dict[StreamKey, int] = {}
        self._stalled: set[StreamKey] = set()
        self._probe_semaphore = asyncio.Semaphore(_PROBES_AT_ONCE)

    def expect(
        self, channels: Sequence[str], symbols: Sequence[Symbol], *, whole_books: bool = False
    ) -> None:
        """Expect these streams. ``whole_books``: snapshots come on the stream of deltas too.

        Channels that the table does not contain, or whose liveness cannot be judged, are not
        monitored. Of two channels that deliver the same class of events, only the first is.
        """
        now_ns = self._clock.now_ns()
        for name in channels:
            channel = find(name)
            if channel is None or channel.liveness is None:
                continue
            kinds = (channel.event, *channel.carries) if whole_books else (channel.event,)
            if channel.suffix_of is not None:
                self._families.add(channel.event)
                kinds = ()
            for symbol in symbols:
                stream_key = (name, symbol)
                keys = [(kind, symbol) for kind in kinds]
                if all(self._streams.setdefault(key, stream_key) == stream_key for key in keys):
                    self._live.expect([stream_key], now_ns)

    def forget(self, symbols: Iterable[Symbol]) -> None:
        """Stop expecting the streams of these markets."""
        gone = set(symbols)
        self._streams = {key: each for key, each in self._streams.items() if key[1] not in gone}
        for stream_key in [each for each in self._live if each[1] in gone]:
            self._live.forget(stream_key)
            self._stalled.discard(stream_key)
            self._latest.pop(stream_key, None)
            self._cases.pop(stream_key, None)

    def heard(self, events: Sequence[Event]) -> None:
        """Note what streams delivered, in this order."""
        # Of each stream the last one only, and some times a second: this is called with every
        # event and must be fast.
        self._pending_events.note(events)
        if self._families:
            for event in events:
                if type(event) in self._families:
                    self._note((BY_EVENT[type(event)].name_of(event), event.symbol), event)
        if events and events[-1].received_at_ns >= self._next_flush_ns:
            self._next_flush_ns = events[-1].received_at_ns + self._note_every_ns
            self._note_all()

    def stalled(self) -> list[str]:
        """Streams that are silent though their markets change."""
        self._note_all()
        return sorted(f"{channel} {symbol.slug}" for channel, symbol in self._stalled)

    async def run(self, control: StreamControl) -> None:
        """Check silent streams, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                now_ns = self._clock.now_ns()
                self._note_all()
                for silence in self._live.suspects(now_ns):
                    group.create_task(self._investigate(silence, control))
                next_ns = self._live.next_ns()
                # A stream that delivers meanwhile cannot become suspect any sooner.
                wait_s = self._limits.least_s
                if next_ns is not None:
                    wait_s = min(wait_s, (next_ns - self._clock.now_ns()) / SECOND_NS)
                await self._clock.sleep(max(0.0, wait_s))

    def _note_all(self) -> None:
        for event in self._pending_events.take():
            stream_key = self._streams.get((type(event), event.symbol))
            if stream_key is not None:
                self._note(stream_key, event)

    def _note(self, stream_key: StreamKey, event: Event) -> None:
        if event.source != "live":
            return
        self._latest[stream_key] = event
        self._live.heard(stream_key, event.received_at_ns)
        if stream_key in self._stalled:
            self._stalled.discard(stream_key)
            channel, symbol = stream_key
            exchange = self._context.exchange
            self._emit(StreamRecovered(exchange=exchange, channel=channel, symbol=symbol.slug))

    async def _investigate(self, silence: Silence[StreamKey], control: StreamControl) -> None:
        """Determine the cause of a silence, and act on it."""
        stream_key = silence.stream
        case = self._case(silence)
        async with self._probe_semaphore:
            connected_ns = control.connected_since_ns(*stream_key)
            is_over = connected_ns is None or self._over(stream_key, case)
            if connected_ns is None or is_over or self._context.availability.suspended:
                self._live.postpone(stream_key, self._clock.now_ns())
                return
            found = await self._find(stream_key, case, connected_ns)
        if self._over(stream_key, case):
            return
        if found == "failed" and self._context.availability.suspended:
            self._live.postpone(stream_key, self._clock.now_ns())
            return
        channel, symbol = stream_key
        exchange = self._context.exchange
        self._emit(
            StreamProbed(exchange=exchange, channel=channel, symbol=symbol.slug, found=found)
        )
        if found == "news" and control.connected_since_ns(*stream_key) == connected_ns:
            self._confirmed(stream_key, case, control)
        elif found == "nothing":
            self._live.clear(stream_key, self._clock.now_ns())
        else:
            self._live.postpone(stream_key, self._clock.now_ns())

    def _case(self, silence: Silence[StreamKey]) -> _SilencePeriod:
        """The case of this silence; a new one is logged."""
        case = self._cases.get(silence.stream)
        if case is None or case.since_ns != silence.since_ns:
            case = self._cases[silence.stream] = _SilencePeriod(silence.since_ns)
            channel, symbol = silence.stream
            silent_s = (self._clock.now_ns() - silence.since_ns) / SECOND_NS
            self._emit(
                StreamSuspected(
                    exchange=self._context.exchange,
                    channel=channel,
                    symbol=symbol.slug,
                    silent_s=round(silent_s, 1),
                )
            )
        return case

    async def _find(self, stream_key: StreamKey, case: _SilencePeriod, connected_ns: int) -> Found:
        """Probe whether the market has changed, and give the stream time to deliver that."""
        seen = case.progress
        progress = await self._probe(stream_key)
        known_id = self._known_id(stream_key, case, connected_ns)
        if progress is not None and seen is None and (progress.id is None or known_id is None):
            # Nothing to compare with: probe again after the grace time.
            seen = case.progress = progress
            await self._clock.sleep(self._limits.grace_s)
            progress = None if self._over(stream_key, case) else await self._probe(stream_key)
        if progress is None:
            return "failed"
        if progress.id is not None and known_id is not None:
            news = progress.id > known_id
        else:
            news = seen is not None and progress.state != seen.state
        case.progress = progress
        if news:
            await self._clock.sleep(self._limits.grace_s)
        return "news" if news else "nothing"

    async def _probe(self, stream_key: StreamKey) -> MarketProgress | None:
        channel, symbol = stream_key
        try:
            return await self._context.fetch(self._context.rest.latest(symbol, channel))
        except UNAVAILABLE as error:
            self._context.availability.failed(error)
            return None  # the reason is logged elsewhere

    def _known_id(
        self, stream_key: StreamKey, case: _SilencePeriod, connected_ns: int
    ) -> int | None:
        """The latest id that the stream delivered, or that an earlier probe returned."""
        if case.progress is not None and case.progress.id is not None:
            return case.progress.id
        latest = self._latest.get(stream_key)
        # This connection does not deliver what happened before it was opened.
        if latest is None or latest.received_at_ns < connected_ns:
            return None
        probe = BY_EVENT[type(latest)].liveness
        return probe.id_of(latest) if probe is not None else None

    def _over(self, stream_key: StreamKey, case: _SilencePeriod) -> bool:
        """Whether the stream has delivered since, or is no longer expected."""
        self._note_all()
        return stream_key not in self._live or self._live.last_ns(stream_key) != case.since_ns

    def _confirmed(
        self, stream_key: StreamKey, case: _SilencePeriod, control: StreamControl
    ) -> None:
        """Handle a stalled stream with the mildest remedy not tried yet."""
        now_ns, (channel, symbol) = self._clock.now_ns(), stream_key
        case.confirmed += 1
        ever = self._live.ever_heard(stream_key)
        rotated_ns = self._rotated_ns.get(stream_key, now_ns - _ROTATES_EVERY_NS)
        rotates = ever and case.confirmed == 2 and now_ns - rotated_ns >= _ROTATES_EVERY_NS
        if rotates:
            self._rotated_ns[stream_key] = now_ns
            control.rotate(channel, symbol, f"{channel} of {symbol.slug} has stalled")
        else:
            control.resubscribe(channel, symbol)
        self._stalled.add(stream_key)
        self._emit(
            StreamStalled(
                exchange=self._context.exchange,
                channel=channel,
                symbol=symbol.slug,
                remedy="rotated" if rotates else "asked_anew",
            )
        )
        if ever and case.confirmed == 1:
            self._live.postpone(stream_key, now_ns)  # so that the next remedy is not delayed
        else:
            self._live.confirm(stream_key, now_ns)
