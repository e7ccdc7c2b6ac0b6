"""The watch: looks after streams that have fallen silent.

Which those are the liveness model says. Then one cheap question to the exchange's REST side tells
whether the market moved meanwhile. If it did not, the silence is real. If it did, and the stream
does not bring it within a moment either, the stream is mute: it is asked for anew, and if that does
not help either, its connection is changed for another, once. A stream that never brought anything
may be misnamed, so for its sake no connection is changed; it is asked for ever more slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock.clock import Clock
from penstock.collect.asking import Asking
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import Mark, Request, Rest
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
from penstock.telemetry import (
    Listener,
    LookTaken,
    StreamMute,
    StreamSpeaks,
    StreamSuspected,
    quiet,
)

Streamed = tuple[str, Symbol]
"""A stream: its channel and its market."""
GRACE_S = 2.0
"""How long the stream may take to bring what the exchange's REST side already tells of."""
_LOOKS_AT_ONCE = 2
_ROTATES_EVERY_NS = 3600 * SECOND_NS
"""A stream that falls mute again and again costs its neighbours their connection so often."""
_KINDS: dict[str, tuple[type[AnyEvent], ...]] = {
    "trades": (Trade,),
    "agg_trades": (AggTrade,),
    "book_deltas": (BookDelta,),
    "book_snapshots": (BookSnapshot,),
    "tickers": (Ticker,),
    "tickers_24h": (Ticker,),
}

Found = Literal["nothing", "news", "failed"]


class Carrier(Protocol):
    """What carries streams, on one connection or on many."""

    def standing_since_ns(self, channel: str, symbol: Symbol) -> int | None:
        """Since when the stream's connection stands; None while it does not."""
        ...

    def ask_anew(self, channel: str, symbol: Symbol) -> None:
        """End a stream and ask for it again."""
        ...

    def rotate(self, channel: str, symbol: Symbol, reason: str) -> None:
        """Change the stream's connection for another."""
        ...


@dataclass(frozen=True)
class Looks:
    """How an exchange is looked at."""

    exchange: str
    rest: Rest
    fetch: Callable[[Request[Mark]], Awaitable[Mark]]
    """Asks, and pays for it."""
    asking: Asking


@dataclass(frozen=True)
class Patience:
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
    mark: Mark | None = None
    """How far the market had come at the last look."""
    confirmed: int = 0


class Watch:
    """Finds mute streams among those that are expected, and does something about them."""

    def __init__(
        self,
        looks: Looks,
        clock: Clock,
        tell: Listener = quiet,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
    ) -> None:
        self._looks, self._clock, self._tell, self._patience = looks, clock, tell, patience
        self._live = Liveness[Streamed](least_s=patience.least_s, first_s=patience.first_s)
        self._streams: dict[tuple[type[AnyEvent], Symbol], Streamed] = {}
        """Which stream an event came on; candles are told apart by more than that."""
        self._has_candles = False
        self._brought: dict[tuple[type[AnyEvent], Symbol], AnyEvent] = {}
        """What was heard and not noted yet."""
        self._notes_at_ns = 0
        self._newest: dict[Streamed, AnyEvent] = {}
        self._cases: dict[Streamed, _Case] = {}
        self._rotated_ns: dict[Streamed, int] = {}
        self._mute: set[Streamed] = set()
        self._few = asyncio.Semaphore(_LOOKS_AT_ONCE)

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
                streamed = (channel, symbol)
                keys = [(kind, symbol) for kind in kinds]
                if all(self._streams.setdefault(key, streamed) == streamed for key in keys):
                    self._live.expect([streamed], now_ns)

    def forget(self, symbols: Iterable[Symbol]) -> None:
        """Nobody wants the streams of these markets any more."""
        gone = set(symbols)
        self._streams = {key: each for key, each in self._streams.items() if key[1] not in gone}
        for streamed in [each for each in self._live if each[1] in gone]:
            self._live.forget(streamed)
            self._mute.discard(streamed)
            self._newest.pop(streamed, None)
            self._cases.pop(streamed, None)

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

    def mute(self) -> list[str]:
        """Streams that are silent though their markets move."""
        self._note_all()
        return sorted(f"{channel} {symbol.slug}" for channel, symbol in self._mute)

    async def run(self, carrier: Carrier) -> None:
        """Look after silent streams, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                now_ns = self._clock.now_ns()
                self._note_all()
                for silence in self._live.suspects(now_ns):
                    group.create_task(self._judge(silence, carrier))
                next_ns = self._live.next_ns()
                # Whatever is heard meanwhile cannot become suspect any sooner.
                wait_s = self._patience.least_s
                if next_ns is not None:
                    wait_s = min(wait_s, (next_ns - self._clock.now_ns()) / SECOND_NS)
                await self._clock.sleep(max(0.0, wait_s))

    def _note_all(self) -> None:
        brought, self._brought = self._brought, {}
        for key, event in brought.items():
            streamed = self._streams.get(key)
            if streamed is not None:
                self._note(streamed, event)

    def _note(self, streamed: Streamed, event: AnyEvent) -> None:
        if event.source != "live":
            return
        self._newest[streamed] = event
        self._live.heard(streamed, event.received_at_ns)
        if streamed in self._mute:
            self._mute.discard(streamed)
            channel, symbol = streamed
            exchange = self._looks.exchange
            self._tell(StreamSpeaks(exchange=exchange, channel=channel, symbol=symbol.slug))

    async def _judge(self, silence: Silence[Streamed], carrier: Carrier) -> None:
        """Find out what a silence means, and act on it."""
        streamed = silence.stream
        case = self._case(silence)
        async with self._few:
            standing_ns = carrier.standing_since_ns(*streamed)
            is_over = standing_ns is None or self._over(streamed, case)
            if standing_ns is None or is_over or self._looks.asking.suspended:
                self._live.excuse(streamed, self._clock.now_ns())
                return
            found = await self._find(streamed, case, standing_ns)
        if self._over(streamed, case):
            return
        if found == "failed" and self._looks.asking.suspended:
            self._live.excuse(streamed, self._clock.now_ns())
            return
        channel, symbol = streamed
        exchange = self._looks.exchange
        self._tell(LookTaken(exchange=exchange, channel=channel, symbol=symbol.slug, found=found))
        if found == "news" and carrier.standing_since_ns(*streamed) == standing_ns:
            self._confirmed(streamed, case, carrier)
        elif found == "nothing":
            self._live.clear(streamed, self._clock.now_ns())
        else:
            self._live.excuse(streamed, self._clock.now_ns())

    def _case(self, silence: Silence[Streamed]) -> _Case:
        """What is known of this silence already."""
        case = self._cases.get(silence.stream)
        if case is None or case.since_ns != silence.since_ns:
            case = self._cases[silence.stream] = _Case(silence.since_ns)
            channel, symbol = silence.stream
            silent_s = (self._clock.now_ns() - silence.since_ns) / SECOND_NS
            self._tell(
                StreamSuspected(
                    exchange=self._looks.exchange,
                    channel=channel,
                    symbol=symbol.slug,
                    silent_s=round(silent_s, 1),
                )
            )
        return case

    async def _find(self, streamed: Streamed, case: _Case, standing_ns: int) -> Found:
        """Whether the stream kept something back, for longer than a moment."""
        seen = case.mark
        mark = await self._look(streamed)
        known_id = self._known_id(streamed, case, standing_ns)
        if mark is not None and seen is None and (mark.id is None or known_id is None):
            # Nothing to compare with: the market has the length of the grace to move.
            seen = case.mark = mark
            await self._clock.sleep(self._patience.grace_s)
            mark = None if self._over(streamed, case) else await self._look(streamed)
        if mark is None:
            return "failed"
        if mark.id is not None and known_id is not None:
            news = mark.id > known_id
        else:
            news = seen is not None and mark.state != seen.state
        case.mark = mark
        if news:
            await self._clock.sleep(self._patience.grace_s)
        return "news" if news else "nothing"

    async def _look(self, streamed: Streamed) -> Mark | None:
        channel, symbol = streamed
        try:
            return await self._looks.fetch(self._looks.rest.newest(symbol, channel))
        except UNAVAILABLE as error:
            self._looks.asking.failed(error)
            return None  # why, others have told

    def _known_id(self, streamed: Streamed, case: _Case, standing_ns: int) -> int | None:
        """The newest id that the stream brought, or that was seen to be missing before."""
        if case.mark is not None and case.mark.id is not None:
            return case.mark.id
        newest = self._newest.get(streamed)
        # What happened while there was no connection is none of this one's to bring.
        if newest is None or newest.received_at_ns < standing_ns:
            return None
        return _id_of(newest)

    def _over(self, streamed: Streamed, case: _Case) -> bool:
        """Whether the stream has spoken since, or nobody waits for it any more."""
        self._note_all()
        return streamed not in self._live or self._live.last_ns(streamed) != case.since_ns

    def _confirmed(self, streamed: Streamed, case: _Case, carrier: Carrier) -> None:
        """It is mute: do the least that may help and was not tried yet."""
        now_ns, (channel, symbol) = self._clock.now_ns(), streamed
        case.confirmed += 1
        ever = self._live.ever_heard(streamed)
        rotated_ns = self._rotated_ns.get(streamed, now_ns - _ROTATES_EVERY_NS)
        rotates = ever and case.confirmed == 2 and now_ns - rotated_ns >= _ROTATES_EVERY_NS
        if rotates:
            self._rotated_ns[streamed] = now_ns
            carrier.rotate(channel, symbol, f"{channel} of {symbol.slug} is mute")
        else:
            carrier.ask_anew(channel, symbol)
        self._mute.add(streamed)
        self._tell(
            StreamMute(
                exchange=self._looks.exchange,
                channel=channel,
                symbol=symbol.slug,
                remedy="rotated" if rotates else "asked_anew",
            )
        )
        if ever and case.confirmed == 1:
            self._live.excuse(streamed, now_ns)  # so that the next remedy is not put off
        else:
            self._live.confirm(streamed, now_ns)


def _id_of(event: AnyEvent) -> int | None:
    """The id by which a look can tell whether there is something newer."""
    match event:
        case Trade():
            return event.id
        case AggTrade():
            return event.last_trade_id
        case BookDelta():
            return event.final_update_id
    return None
