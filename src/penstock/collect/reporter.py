"""The reporter: gathers what a collector knows of itself and writes it down every second."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from penstock.clock import Clock
from penstock.collect.continuity import Continuity
from penstock.collect.status import BookStatus, CollectorStatus, StreamStatus, write_status
from penstock.exchanges.gateway import Gateway
from penstock.market.events import AggTrade, Ticker, Trade
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream
from penstock.streaming.book_sync import BookSync
from penstock.streaming.connection import Connection

_QUARANTINED = 20
"""Malformed frames shown."""


class Reporter:
    """Counts what is recorded, and writes the status file. Also a tap of the recorder."""

    def __init__(self, exchange: str, slot: str, folder: Path, clock: Clock) -> None:
        self._exchange, self._slot, self._folder, self._clock = exchange, slot, folder, clock
        self._started_ms = clock.now_ms()
        self._records: Counter[Stream] = Counter()
        self._prices: dict[Stream, str] = {}
        self._before: Counter[Stream] = Counter()
        self._before_ms = self._started_ms
        self._connection: Connection | None = None
        self._continuity: Continuity | None = None
        self._gateway: Gateway | None = None
        self.latest: CollectorStatus | None = None
        """What was last written."""
        self.trouble = ""

    def watch(self, connection: Connection, continuity: Continuity, gateway: Gateway) -> None:
        """From now on these are reported on."""
        self._connection, self._continuity, self._gateway = connection, continuity, gateway

    def __call__(self, recorded: Sequence[Stored]) -> None:
        """Hear of what was recorded."""
        for stored in recorded:
            self._records[stored.stream] += 1
        for stored in recorded[-50:]:  # the newest price is near the end
            event = stored.event
            if isinstance(event, Trade | AggTrade):
                self._prices[stored.stream] = event.price_text
            elif isinstance(event, Ticker):
                self._prices[stored.stream] = event.last_text or event.bid_text or ""

    def write(
        self, state: Literal["starting", "running", "stopped"], trouble: str | None = None
    ) -> None:
        """Write the status as it is now."""
        if trouble is not None:
            self.trouble = trouble
        elif state == "running":
            self.trouble = ""
        self.latest = self.status(state)
        write_status(self._folder, self.latest)

    def status(self, state: Literal["starting", "running", "stopped"]) -> CollectorStatus:
        """Everything at this instant."""
        connection, now_ms = self._connection, self._clock.now_ms()
        streams = self._streams(now_ms)
        weight = self._weight()
        return CollectorStatus(
            exchange=self._exchange,
            slot=self._slot,
            pid=os.getpid(),
            started_ms=self._started_ms,
            at_ms=now_ms,
            state=state,
            connection=connection.state if connection else "",
            streams=streams,
            books=[
                _book_status(symbol.slug, sync)
                for symbol, sync in (connection.books.items() if connection else ())
            ],
            ids=self._continuity.status() if self._continuity else [],
            reconnects=dict(connection.reconnects) if connection else {},
            malformed=dict(connection.malformed) if connection else {},
            quarantine=[
                f"{frame.reason}: {frame.words}: {frame.excerpt}"
                for frame in list(connection.quarantine)[-_QUARANTINED:]
            ]
            if connection
            else [],
            refused=[f"{r.code}: {r.words}" for r in connection.refusals] if connection else [],
            weight_used=weight[0],
            weight_limit=weight[1],
            trouble=self.trouble,
        )

    def _weight(self) -> tuple[int | None, int | None]:
        """(used, limit) of the limit that is nearest to being used up."""
        used = self._gateway.gate.used() if self._gateway else {}
        tightest = max(used, key=lambda limit: used[limit] / limit.amount, default=None)
        return (None, None) if tightest is None else (used[tightest], tightest.amount)

    def _streams(self, now_ms: int) -> list[StreamStatus]:
        elapsed_s = max(1, now_ms - self._before_ms) / 1000
        rates = {s: (n - self._before[s]) / elapsed_s for s, n in self._records.items()}
        self._before, self._before_ms = self._records.copy(), now_ms
        return [
            StreamStatus(
                channel=stream.channel,
                symbol=stream.symbol,
                records=records,
                per_second=round(rates[stream], 1),
                last_id=self._continuity.last(stream) if self._continuity else None,
                last_price=self._prices.get(stream),
            )
            for stream, records in sorted(self._records.items(), key=_by_symbol)
        ]


def _by_symbol(item: tuple[Stream, int]) -> tuple[str, str]:
    stream, _ = item
    return stream.symbol, stream.channel


def _book_status(slug: str, sync: BookSync) -> BookStatus:
    bids, asks = sync.book.texts(1) if sync.book is not None else ([], [])
    return BookStatus(
        symbol=slug,
        state=sync.state,
        reason=sync.reason,
        update_id=sync.update_id,
        resyncs=sync.resyncs,
        bid=bids[0][0] if bids else None,
        ask=asks[0][0] if asks else None,
    )
