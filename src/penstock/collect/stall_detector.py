"""The stall detector: finds streams that bring nothing though their markets move.

Which those are the liveness model says. Then one cheap question to the exchange's REST side tells
whether the market moved meanwhile. If it did not, the silence is real. If it did, and the stream
does not bring it within a moment either, the stream is stalled: it is asked for anew, and if that
does not help either, its connection is changed for another, once. A stream that never brought
anything may be misnamed, so for its sake no connection is changed; it is asked for ever more
slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock.clock import Clock
from penstock.collect.availability import RestAvailability
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import MarketProgress, Request, Rest
from penstock.market.events import (
    AggTrade,
    AnyEvent,
    BookDelta,
    BookSnapshot,
    Candle,
    Ticker,
    Trade,
)
from penstock.market.symbol import Symbol
from penstock.streaming.liveness import (
    FIRST_S,
    LEAST_S,
    ONE_ARRIVAL_NS,
    SECOND_NS,
    Liveness,
    Silence,
)
from penstock.streaming.wanted import StreamKey
from penstock.telemetry import (
    Listener,
    StreamProbed,
    StreamRecovered,
    StreamStalled,
    StreamSuspected,
    quiet,
)

GRACE_S = 2.0
"""How long the stream may take to bring what the exchange's REST side already tells of."""
_PROBES_AT_ONCE = 2
_ROTATES_EVERY_NS = 3600 * SECOND_NS
"""A stream that falls stalled again and again costs its neighbours their connection so often."""
_KINDS: dict[str, tuple[type[AnyEvent], ...]] = {
    "trades": (Trade,),
    "agg_trades": (AggTrade,),
    "book_deltas": (BookDelta,),
    "book_snapshots": (BookSnapshot,),
    "tickers": (Ticker,),
    "tickers_24h": (Ticker,),
}

Found = Literal["nothing", "news", "failed"]


class StreamControl(Protocol):
    """What a stream's connections can be told, whether there is one or many."""

    def connected_since_ns(self, channel: str, symbol: Symbol) -> int | None:
        """Since when the stream's connection stands; None while it does not."""
        ...

    def resubscribe(self, channel: str, symbol: Symbol) -> None:
        """End a stream and ask for it again."""
        ...

    def rotate(self, channel: str, symbol: Symbol, reason: str) -> None:
        """Change the stream's connection for another."""
        ...


@dataclass(frozen=True)
class ProbeContext:
    """How an exchange's REST side is asked whether a market has moved."""

    exchange: str
    rest: Rest
    fetch: Callable[[Request[MarketProgress]], Awaitable[MarketProgress]]
    """Asks, and pays for it."""
    availability: RestAvailability


@dataclass(frozen=True)
class SilenceLimits:
    """How long a stream may be silent."""

    least_s: float = LEAST_S
    """However often it speaks."""
    first_s: float = FIRST_S
    """Where it is not known how often it does."""
    grace_s: float = GRACE_S


@dataclass
class _Case:
    """One silence of one stream."""

    since_ns: int
    progress: MarketProgress | None = None
    """How far the market had come at the final probe."""
    confirmed: int = 0


class StallDetector:
    """Finds stalled streams among those that are expected, and does something about them."""

    def __init__(
        self,
        context: ProbeContext,
        clock: Clock,
        tell: Listener = quiet,
        limits: SilenceLimits = SilenceLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self._context, self._clock, self._tell, self._limits = context, clock, tell, limits
        self._live = Liveness[StreamKey](least_s=limits.least_s, first_s=limits.first_s)
        self._streams: dict[tuple[type[AnyEvent], Symbol], StreamKey] = {}
        """Which stream an event came on; candles are told apart by more than that."""
        self._has_candles = False
        self._brought: dict[tuple[type[AnyEvent], Symbol], AnyEvent] = {}
        """What was heard and not noted yet."""
        self._notes_at_ns = 0
        self._latest: dict[StreamKey, AnyEvent] = {}
        self._cases: dict[StreamKey, _Case] = {}
        self._rotated_ns: dict[StreamKey, int] = {}
        self._stalled: set[StreamKey] = set()
        self._few = asyncio.Semaphore(_PROBES_AT_ONCE)

    def expect(
        self, channels: Sequence[str], symbols: Sequence[Symbol], *, whole_books: bool = False
    ) -> None:
        """These were asked for. ``whole_books``: snapshots come on the stream of changes too.

        Two channels whose events are of one kind cannot be told apart: only the first is watched.
        """
        now_ns = self._clock.now_ns()
        for channel in channels:
            kinds = _KINDS.get(channel, ())
            if channel == "book_deltas" and whole_books:
                kinds = (BookDelta, BookSnapshot)
            self._has_candles = self._has_candles or not kinds
            for symbol in symbols:
                stream_key = (channel, symbol)
                keys = [(kind, symbol) for kind in kinds]
                if all(self._streams.setdefault(key, stream_key) == stream_key for key in keys):
                    self._live.expect([stream_key], now_ns)

    def forget(self, symbols: Iterable[Symbol]) -> None:
        """Nobody wants the streams of these markets any more."""
        gone = set(symbols)
        self._streams = {key: each for key, each in self._streams.items() if key[1] not in gone}
        for stream_key in [each for each in self._live if each[1] in gone]:
            self._live.forget(stream_key)
            self._stalled.discard(stream_key)
            self._latest.pop(stream_key, None)
            self._cases.pop(stream_key, None)

    def heard(self, events: Sequence[AnyEvent]) -> None:
        """Streams brought these, in this order."""
        # Of each stream the last one only, and ten times a second: whoever hears everything must
        # not take long over it.
        self._brought.update({(type(each), each.symbol): each for each in events})
        if self._has_candles:
            for event in events:
                if type(event) is Candle:
                    self._note((f"candles_{event.interval}", event.symbol), event)
        if events and events[-1].received_at_ns >= self._notes_at_ns:
            self._notes_at_ns = events[-1].received_at_ns + ONE_ARRIVAL_NS
            self._note_all()

    def stalled(self) -> list[str]:
        """Streams that are silent though their markets move."""
        self._note_all()
        return sorted(f"{channel} {symbol.slug}" for channel, symbol in self._stalled)

    async def run(self, control: StreamControl) -> None:
        """Check silent streams, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                now_ns = self._clock.now_ns()
                self._note_all()
                for silence in self._live.suspects(now_ns):
                    group.create_task(self._judge(silence, control))
                next_ns = self._live.next_ns()
                # Whatever is heard meanwhile cannot become suspect any sooner.
                wait_s = self._limits.least_s
                if next_ns is not None:
                    wait_s = min(wait_s, (next_ns - self._clock.now_ns()) / SECOND_NS)
                await self._clock.sleep(max(0.0, wait_s))

    def _note_all(self) -> None:
        brought, self._brought = self._brought, {}
        for key, event in brought.items():
            stream_key = self._streams.get(key)
            if stream_key is not None:
                self._note(stream_key, event)

    def _note(self, stream_key: StreamKey, event: AnyEvent) -> None:
        if event.source != "live":
            return
        self._latest[stream_key] = event
        self._live.heard(stream_key, event.received_at_ns)
        if stream_key in self._stalled:
            self._stalled.discard(stream_key)
            channel, symbol = stream_key
            exchange = self._context.exchange
            self._tell(StreamRecovered(exchange=exchange, channel=channel, symbol=symbol.slug))

    async def _judge(self, silence: Silence[StreamKey], control: StreamControl) -> None:
        """Find out what a silence means, and act on it."""
        stream_key = silence.stream
        case = self._case(silence)
        async with self._few:
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
        self._tell(
            StreamProbed(exchange=exchange, channel=channel, symbol=symbol.slug, found=found)
        )
        if found == "news" and control.connected_since_ns(*stream_key) == connected_ns:
            self._confirmed(stream_key, case, control)
        elif found == "nothing":
            self._live.clear(stream_key, self._clock.now_ns())
        else:
            self._live.postpone(stream_key, self._clock.now_ns())

    def _case(self, silence: Silence[StreamKey]) -> _Case:
        """What is known of this silence already."""
        case = self._cases.get(silence.stream)
        if case is None or case.since_ns != silence.since_ns:
            case = self._cases[silence.stream] = _Case(silence.since_ns)
            channel, symbol = silence.stream
            silent_s = (self._clock.now_ns() - silence.since_ns) / SECOND_NS
            self._tell(
                StreamSuspected(
                    exchange=self._context.exchange,
                    channel=channel,
                    symbol=symbol.slug,
                    silent_s=round(silent_s, 1),
                )
            )
        return case

    async def _find(self, stream_key: StreamKey, case: _Case, connected_ns: int) -> Found:
        """Whether the stream kept something back, for longer than a moment."""
        seen = case.progress
        progress = await self._probe(stream_key)
        known_id = self._known_id(stream_key, case, connected_ns)
        if progress is not None and seen is None and (progress.id is None or known_id is None):
            # Nothing to compare with: the market has the length of the grace to move.
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
            return None  # why, others have told

    def _known_id(self, stream_key: StreamKey, case: _Case, connected_ns: int) -> int | None:
        """The newest id that the stream brought, or that was seen to be missing before."""
        if case.progress is not None and case.progress.id is not None:
            return case.progress.id
        latest = self._latest.get(stream_key)
        # What happened while there was no connection is none of this one's to bring.
        if latest is None or latest.received_at_ns < connected_ns:
            return None
        return _id_of(latest)

    def _over(self, stream_key: StreamKey, case: _Case) -> bool:
        """Whether the stream has spoken since, or nobody waits for it any more."""
        self._note_all()
        return stream_key not in self._live or self._live.last_ns(stream_key) != case.since_ns

    def _confirmed(self, stream_key: StreamKey, case: _Case, control: StreamControl) -> None:
        """It is stalled: do the least that may help and was not tried yet."""
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
        self._tell(
            StreamStalled(
                exchange=self._context.exchange,
                channel=channel,
                symbol=symbol.slug,
                remedy="rotated" if rotates else "asked_anew",
            )
        )
        if ever and case.confirmed == 1:
            self._live.postpone(stream_key, now_ns)  # so that the next remedy is not put off
        else:
            self._live.confirm(stream_key, now_ns)


def _id_of(event: AnyEvent) -> int | None:
    """The id by which a probe can tell whether there is something newer."""
    match event:
        case Trade():
            return event.id
        case AggTrade():
            return event.last_trade_id
        case BookDelta():
            return event.final_update_id
    return None
