"""Gathers the status of a collector or fetcher, and writes it every second."""

import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from operator import attrgetter
from pathlib import Path

from penstock.books.book import BookView
from penstock.books.health import BookHealth
from penstock.clock import Clock
from penstock.collect.absences import RECORDED_WITHIN_NS, all_well
from penstock.collect.books import BookMaintainer
from penstock.collect.connections import connections_of, feed_connection
from penstock.collect.facts import CollectorFailed, StatusUnwritable
from penstock.collect.feed_session import FeedState
from penstock.collect.recording import RetryingRecorder
from penstock.collect.status import (
    BookStatus,
    CollectorStatus,
    ConnectionStatus,
    FetchStatus,
    LimitStatus,
    ShardStatus,
    State,
    StreamCount,
    StreamStatus,
    memory_bytes,
    with_books_stopped,
)
from penstock.collect.status_file import StatusFile
from penstock.coverage.batches import StreamBatch
from penstock.coverage.continuity import Continuity
from penstock.errors import PenstockError
from penstock.exchanges.base import ExchangeClient
from penstock.market.channels import BY_EVENT
from penstock.market.events import Event, Trade
from penstock.publish import PublishedCounts
from penstock.runtime.reports import ConnectionReport
from penstock.storage.log.keys import Stream
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import ConnectionStats, ShardConnection
from penstock.streaming.wanted import StreamKey
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Limit

_NO_HEALTH = BookHealth()
_PRICES = {kind: row.price_of for kind, row in BY_EVENT.items() if row.price_of is not None}
_QUARANTINED = 20
"""Malformed frames in the status, at most."""


@dataclass(frozen=True)
class StatusLocation:
    """The exchange, slot and folder of a status."""

    exchange: str
    slot: str
    folder: Path
    shard: str = ""
    """The part of the exchange's markets, such as ``0/3``; empty for all."""


class Reporter:
    """Counts recorded events, and writes the status file. It is also a tap of the recorder."""

    def __init__(
        self, location: StatusLocation, continuity: Continuity, clock: Clock, emit: Listener = quiet
    ) -> None:
        # Missing ids are in the status from the start: without them it would be wrong.
        self.location, self._continuity, self._clock, self._emit = location, continuity, clock, emit
        self._started_ms = clock.now_ms()
        self._records: Counter[Stream] = Counter()
        self._latest: dict[Stream, Event] = {}
        """The last event of each stream whose events have a price."""
        self._order: list[Stream] = []
        self._lag_ms: int | None = None
        self._before: Counter[Stream] = Counter()
        self._before_ms = self._started_ms
        self._shards: Callable[[], Sequence[Shard]] = tuple
        self._gateway: ExchangeClient | None = None
        self._maintainer: BookMaintainer | None = None
        self._feed_state: FeedState | None = None
        self._stalled: Callable[[], list[str]] = list
        self._fetches: Callable[[], list[FetchStatus]] = list
        self.published: Callable[[], PublishedCounts] = PublishedCounts
        """Returns the counts of published and dropped messages."""
        self.take_recorded: Callable[[], None] = lambda: None
        """Passes on records that have not been received here yet."""
        self.latest: CollectorStatus | None = None
        """The last status written."""
        self._troubles: dict[str, str] = {}
        self._recording: RetryingRecorder | None = None
        self._file = StatusFile(location.folder, partial(self._emit_unwritable, location.slot))
        self.numbered = 0
        """Record numbers that the slot has assigned."""

    def note(self, kind: str, words: str) -> None:
        """Set the current problem of a kind; "" clears it."""
        if words:
            self._troubles[kind] = words
        else:
            self._troubles.pop(kind, None)

    def watch_recording(self, recording: RetryingRecorder) -> None:
        """From now on, report if the log cannot be written, and sync it before each status."""
        self._recording = self._file.log = recording

    def watch(
        self,
        shards: Callable[[], Sequence[Shard]],
        gateway: ExchangeClient,
        stalled: Callable[[], list[str]] = list,
    ) -> None:
        """From now on, report on these shards; ``stalled`` returns the stalled streams."""
        self._shards, self._gateway, self._stalled = shards, gateway, stalled

    def watch_books(self, maintainer: BookMaintainer) -> None:
        """From now on, report on the books too."""
        self._maintainer = maintainer

    def watch_feed(self, feed_state: FeedState, gateway: ExchangeClient) -> None:
        """From now on, report on this feed."""
        self._feed_state, self._gateway = feed_state, gateway

    def watch_fetches(
        self, fetches: Callable[[], list[FetchStatus]], gateway: ExchangeClient
    ) -> None:
        """From now on, report on these fetches."""
        self._fetches, self._gateway = fetches, gateway

    def __call__(self, batches: Sequence[StreamBatch]) -> None:
        """Update from newly recorded events, by stream."""
        for batch in batches:
            event = batch.records[-1].event
            self.numbered += batch.count
            self._records[batch.stream] += batch.count
            # Only kept: a status is made once a second.
            if type(event) in _PRICES:
                self._latest[batch.stream] = event

    def write(self, state: State, trouble: str | None = None) -> None:
        """Write the current status, blocking the event loop; a failure is only logged.

        ``trouble`` is why the process cannot run; it is kept until it runs.
        """
        if trouble is not None:
            self.note(state, trouble)
        elif state == "running":
            self.note("starting", "")
        self.latest = self._file.write(self.status(state))

    async def report(self) -> float:
        """Write the status ``running``; return for how many seconds that blocked the event loop."""
        self.note("starting", "")
        before_ns = self._clock.monotonic_ns()
        status = self.status("running")
        took_ns = self._clock.monotonic_ns() - before_ns
        self.latest = await self._file.report(status)
        return took_ns / 1_000_000_000

    def _emit_unwritable(self, slot: str, reason: str) -> None:
        self._emit(StatusUnwritable(slot=slot, reason=reason))

    def failed(self, error: BaseException) -> None:
        """Write that an error has ended the process, and log it."""
        reason = f"{type(error).__name__}: {error}"
        is_foreseen = isinstance(error, PenstockError)
        trace = "" if is_foreseen else "".join(traceback.format_exception(error))
        self.write("failed", reason)
        exchange, slot = self.location.exchange, self.location.slot
        self._emit(CollectorFailed(exchange=exchange, slot=slot, reason=reason, traceback=trace))

    def status(self, state: State) -> CollectorStatus:
        """The current status."""
        self.take_recorded()
        shards, now_ms, now_ns = self._shards(), self._clock.now_ms(), self._clock.now_ns()
        carried: list[Shard | FeedState] = [*shards, *filter(None, [self._feed_state])]
        all_stats = [each.stats for each in carried]
        published = self.published()
        troubles = self._all_troubles()
        found = CollectorStatus(
            exchange=self.location.exchange,
            slot=self.location.slot,
            shard=self.location.shard,
            pid=os.getpid(),
            started_ms=self._started_ms,
            at_ms=now_ms,
            state=state,
            connection=_worst([each.state for each in carried]),
            streams=self._streams(now_ms),
            books=self._books(),
            ids=self._continuity.status(),
            reconnects=_sum([stats.reconnects for stats in all_stats]),
            malformed=_sum([stats.malformed for stats in all_stats]),
            quarantine=_quarantine(all_stats),
            refused=[f"{r.code}: {r.words}" for stats in all_stats for r in stats.refusals],
            refusals=_refusals(all_stats),
            gaps=self._continuity.gaps(),
            stalled=self._stalled(),
            fetches=self._fetches(),
            limits=self._limits(),
            bus_published=published.published,
            bus_dropped=published.dropped,
            trouble="; ".join(dict.fromkeys(troubles.values())),
            troubles=troubles,
            unrecorded=self._recording.waiting if self._recording is not None else 0,
            memory_bytes=memory_bytes(),
            numbered=self.numbered,
            shards=[_shard_status(shard, now_ns) for shard in shards],
            lag_ms=self._last_lag_ms(),
            pending=[name for shard in shards for name in shard.primary.connection.pending],
        )
        return with_books_stopped(found) if state in ("stopped", "failed") else found

    def connections(self) -> list[ConnectionReport]:
        """The current connections, or at the end those that were closed last."""
        exchange, now_ns = self.location.exchange, self._clock.now_ns()
        if self._feed_state is not None:
            return [feed_connection(exchange, self._feed_state, now_ns)]
        return connections_of(exchange, self._shards(), now_ns)

    def received_until_ns(self) -> int | None:
        """The time up to which everything that the exchange sent is recorded; None if unknown."""
        status, shards = self.latest, self._shards()
        heard_ns = [shard.primary.last_message_ns or 0 for shard in shards]
        if status is None or status.synced_ms is None or not heard_ns or not all_well(status):
            return None
        return min(status.synced_ms * 1_000_000 - RECORDED_WITHIN_NS, *heard_ns)

    def _all_troubles(self) -> dict[str, str]:
        """The current problems by kind; the one that ended the process comes first."""
        unwritable = self._recording.trouble() if self._recording is not None else ""
        found = {**self._troubles, "log": unwritable}
        first = {"failed": found.pop("failed", "")}
        return {kind: words for kind, words in {**first, **found}.items() if words}

    def _limits(self) -> list[LimitStatus]:
        used = self._gateway.gate.used() if self._gateway else {}
        return [limit_status(limit, used[limit]) for limit in used]

    def _books(self) -> list[BookStatus]:
        maintainer, feed_state = self._maintainer, self._feed_state
        if feed_state is not None:
            return [_book_status(symbol.slug, book) for symbol, book in feed_state.books.items()]
        if maintainer is None:
            return []
        return [
            _book_status(symbol.slug, book, maintainer.health_of(symbol))
            for shard in self._shards()
            for symbol, book in shard.books.items()
        ]

    def _last_lag_ms(self) -> int | None:
        """From the latest live trade's time to its receipt; None if there was none."""
        trades = [each for each in self._latest.values() if type(each) is Trade]
        live = [trade for trade in trades if trade.source == "live"]
        if live:
            last = max(live, key=attrgetter("received_at_ns"))
            self._lag_ms = (last.received_at_ns - last.at_ns) // 1_000_000
        return self._lag_ms

    def _streams(self, now_ms: int) -> list[StreamStatus]:
        elapsed_s = max(1, now_ms - self._before_ms) / 1000
        rates = {s: (n - self._before[s]) / elapsed_s for s, n in self._records.items()}
        self._before, self._before_ms = self._records.copy(), now_ms
        if len(self._order) < len(self._records):
            self._order = sorted(self._records, key=attrgetter("symbol", "channel"))
        return [
            StreamStatus(
                channel=stream.channel,
                symbol=stream.symbol,
                records=self._records[stream],
                per_second=round(rates[stream], 1),
                last_id=self._continuity.last(stream),
                last_price=self._last_price(stream),
            )
            for stream in self._order
        ]

    def _last_price(self, stream: Stream) -> str | None:
        event = self._latest.get(stream)
        return None if event is None else _PRICES[type(event)](event)


@contextmanager
def reporting_the_end(
    reporter: Reporter, owned: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Write how the process ended if it ends early, and if it owns the slot."""
    try:
        yield
    except Exception as error:
        if owned():
            reporter.failed(error)
        raise
    except BaseException:
        if owned():
            reporter.write("stopped")
        raise


def limit_status(limit: Limit, used: int) -> LimitStatus:
    """One limit and its usage."""
    return LimitStatus(
        unit=limit.unit,
        category=limit.category,
        kind="window" if limit.kind == "aligned" else "bucket",
        used=used,
        # The usage of a bucket is relative to its capacity, not to its rate.
        amount=limit.most,
        rate=limit.amount,
        period_ms=limit.period_ms,
    )


def _book_status(slug: str, book: BookView, health: BookHealth = _NO_HEALTH) -> BookStatus:
    bids, asks = book.levels.texts(1) if book.levels is not None else ([], [])
    return BookStatus(
        symbol=slug,
        state=book.state,
        reason=book.reason,
        update_id=book.update_id,
        resyncs=book.resyncs,
        bid=bids[0][0] if bids else None,
        ask=asks[0][0] if asks else None,
        known_bid=_text(health.known_bid),
        known_ask=_text(health.known_ask),
        audits=health.audited.audits,
        drift=health.audited.drift,
        audited_at_ms=health.audited.at_ms,
    )


def _text(price: Decimal | None) -> str | None:
    return None if price is None else format(price, "f")


_STATES = ("disconnected", "reconnecting", "connecting", "rotating", "connected")


def _worst(states: Sequence[str]) -> str:
    return min(states, key=_STATES.index, default="")


def _sum(counts: Sequence[Counter[str]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total += each
    return dict(total)


def _quarantine(all_stats: Sequence[ConnectionStats]) -> list[str]:
    frames = [frame for stats in all_stats for frame in stats.quarantine]
    return [f"{each.reason}: {each.words}: {each.excerpt}" for each in frames[-_QUARANTINED:]]


def _refusals(all_stats: Sequence[ConnectionStats]) -> list[StreamCount]:
    total = sum((stats.refused for stats in all_stats), start=Counter[StreamKey]())
    return [
        StreamCount(channel=channel, symbol=symbol.slug, count=count)
        for (channel, symbol), count in total.items()
    ]


def _shard_status(shard: Shard, now_ns: int) -> ShardStatus:
    stats = shard.stats
    return ShardStatus(
        state=shard.state,
        members=[_connection_status(member, shard, now_ns) for member in shard.members.values()],
        reconnects=dict(stats.reconnects),
        rotations=dict(stats.rotations),
        given_up=dict(stats.given_up),
        waiting=shard.waiting,
        dropped=shard.deduplicator.dropped,
    )


def _connection_status(member: ShardConnection, shard: Shard, now_ns: int) -> ConnectionStatus:
    return ConnectionStatus(
        number=member.number,
        state="leaving" if member.leaving else member.connection.state,
        is_primary=member is shard.primary,
        up_s=None if member.opened_ns is None else (now_ns - member.opened_ns) // 1_000_000_000,
        heard_s=None
        if member.last_message_ns is None
        else round((now_ns - member.last_message_ns) / 1e9, 1),
        asked=member.connection.asked,
        pending=len(member.connection.pending),
    )
