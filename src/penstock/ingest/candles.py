"""Fetches candles page by page; the cursor moves past a page once it is recorded and synced.

A candle is recorded once it has closed by the exchange's own clock. Every page is one request
through the gateway, so every page is counted; a page that is fetched twice after a crash is dropped
as a duplicate. Where intervals without trades have no candle, an empty page is not the end: the
walk continues after it.

Where the start of every page is known, several are requested at a time: from the end of the first
page on, up to candles that have ended for certain. Batches of pages are recorded and synced in
order; then the cursor moves past them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from penstock.coverage.candles import HeldCandles
from penstock.errors import UnexpectedAnswer, UnknownInterval
from penstock.exchanges.answers import surely_over_ms
from penstock.exchanges.base import ExchangeClient, Rest
from penstock.exchanges.bulk_files import FileSeries
from penstock.ingest.candle_chunks import CandleBatch, CandleChunk, CandleChunkQueue
from penstock.ingest.candle_jobs import K
from penstock.ingest.claims import place_of
from penstock.ingest.context import HandlerContext
from penstock.ingest.file_candles import compared_by
from penstock.ingest.file_cover import are_files_cheaper
from penstock.ingest.file_stitch import FileStitch
from penstock.ingest.history import (
    complete_until,
    intervals_per_page,
    iso,
    kept_from_ms,
    longest,
)
from penstock.ingest.page_concurrency import page_concurrency
from penstock.ingest.parallel import ParallelFetch
from penstock.jobs.model import Cursor
from penstock.jobs.run import JobRun
from penstock.market.channels import CANDLES
from penstock.market.events import Candle
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

# How long to wait before requesting a page again whose candles should have closed.
_MOMENT_S = 1.0
# How long after its end a candle may still appear.
_LATE_MS = 10_000


class _Step(NamedTuple):
    """The result of a page."""

    closed: list[Candle]
    next_ms: int
    """Where to continue."""
    is_last: bool


@dataclass(frozen=True)
class CandleWalk:
    """The fetch of one market's candles in one job run."""

    context: HandlerContext
    job_run: JobRun[Any, Cursor]
    gateway: ExchangeClient
    rest: Rest
    symbol: Symbol
    interval: Interval
    series: FileSeries[Candle] | None = None
    """The files that the exchange publishes."""

    @classmethod
    async def begin(cls, context: HandlerContext, job_run: JobRun[K, Cursor]) -> "CandleWalk":
        """Look up the gateway, symbol and interval of a job.

        Raises:
            UnknownExchange, UnknownSymbol, UnknownInterval: there is no such one.
        """
        exchange_id, target = job_run.job.exchange_id, job_run.target
        gateway = await context.gateways.of(exchange_id)
        symbols = await context.markets.of(exchange_id)
        if target.timeframe not in gateway.exchange.intervals:
            raise UnknownInterval(target.timeframe, gateway.exchange.intervals)
        symbol, interval = symbols.find(target.symbol), Interval.parse(target.timeframe)
        files, native = gateway.exchange.bulk_files, symbols.native(symbol)
        return cls(
            context=context,
            job_run=job_run,
            gateway=gateway,
            rest=gateway.exchange.rest(symbols),
            symbol=symbol,
            interval=interval,
            series=None if files is None else files.candles(native, symbol, interval),
        )

    def now_ms(self) -> int:
        """The exchange's current time: the lower bound of its estimate."""
        offset = self.gateway.offset
        return self.context.clock.now_ms() + (round(offset.low_ms) if offset else 0)

    def cursor_ms(self) -> int | None:
        """The time at which the cursor continues; None if it has none."""
        cursor = self.job_run.cursor
        if cursor.since_ms is not None:
            return cursor.since_ms
        return None if cursor.last_ts is None else self.interval.next_open(cursor.last_ts)

    async def go(self, start_ms: int, *, several: bool = False) -> bool:
        """Record all closed candles from ``start_ms`` up to the cursor's end, or the present.

        With ``several``, several pages are requested at a time where that is possible.

        Returns whether there are no more.
        """
        while True:
            now_ms = self.now_ms()
            end_ms, asked_ms = self._ends(now_ms)
            first_ms = max(start_ms, self._oldest_ms(now_ms))
            if first_ms >= end_ms:
                self._note_lost(start_ms, end_ms)
                return True
            page = await self._page(self.interval, first_ms, asked_ms)
            self._note_lost(start_ms, page[0].open_ms if page else first_ms)
            step = self._step(page, first_ms, now_ms)
            await self._record(step.closed)
            if not page and not step.is_last:
                step = await self._beyond_nothing(step, now_ms)
            # The oldest candle of all is where the history begins.
            is_first = self.cursor_ms() is None
            self._cover(page[0].open_ms if is_first and page else first_ms, step.next_ms)
            moved, start_ms = step.next_ms > first_ms, step.next_ms
            if step.closed or (moved and not step.is_last):
                goes_on = await self._save(start_ms, step.closed, end_ms)
                if not goes_on:
                    return step.is_last
            if step.is_last:
                await self._sync()
                return True
            if not moved:
                await self.context.clock.sleep(_MOMENT_S)
            elif several and page:
                if not await self._go_on_in_parallel(start_ms, end_ms):
                    return False
                start_ms = self.cursor_ms() or start_ms

    async def complete(self, start_ms: int, end_ms: int, held: HeldCandles) -> int:
        """Request a page of candles that closed long ago, and record those missing in the log.

        Returns the time up to which the page has every candle that exists.
        """
        page = await self._page(self.interval, start_ms, end_ms)
        until_ms = complete_until(self.gateway.exchange, self.interval, (start_ms, end_ms), page)
        known = held.opens(start_ms, until_ms)
        missing = [candle for candle in page if candle.closed and candle.open_ms not in known]
        if missing:
            await self._record(missing)
            await self._sync()
            first, last = iso(missing[0].open_ms), iso(missing[-1].open_ms)
            what = f"{len(missing)} candles from {first} to {last}"
            self.job_run.note("missing", f"{what}; found when they were asked for again")
        self._cover(start_ms, until_ms)
        return until_ms

    async def _go_on_in_parallel(self, start_ms: int, end_ms: int) -> bool:
        """Record candles that ended long ago, from the open time of one; whether to continue."""
        exchange, fixed_ms = self.gateway.exchange, self.interval.fixed_ms
        size = intervals_per_page(exchange)
        if size is None or fixed_ms is None:
            return True
        # By both clocks, as the readers of responses only know this machine's.
        over_ms = min(self._settled_ms(self.now_ms()), surely_over_ms(self.context.clock.now_ns()))
        until_ms = self.interval.open_of(min(end_ms, over_ms))
        if until_ms - start_ms <= size * fixed_ms:
            return True

        async def commit(batch: CandleBatch) -> bool:
            return await self._commit(batch, end_ms)

        async def fetch(since_ms: int, before_ms: int) -> bool:
            queue = CandleChunkQueue((since_ms, before_ms), size * fixed_ms)
            request = self.rest.candles(self.symbol, self.interval, since_ms, before_ms)
            concurrency = partial(page_concurrency, self.context, self.gateway, request)
            # Not done where there is nothing for long.
            return await ParallelFetch(queue, self._whole, commit, concurrency).run()

        async def commit_rows(rows: list[Candle]) -> bool:
            pages: list[Sequence[Candle]]
            pages = [rows[at : at + size] for at in range(0, len(rows), size)]
            return await commit(CandleBatch(rows[0].open_ms, rows[-1].open_ms + fixed_ms, pages))

        def left() -> tuple[int, int]:
            return max(self.cursor_ms() or 0, start_ms), until_ms

        goes_on, files = True, self.context.files
        with self.context.fetches.one_more(exchange.name):
            if files and self.series and are_files_cheaper(1, fixed_ms, size):
                stitch = FileStitch(
                    files=files,
                    series=self.series,
                    step=fixed_ms,
                    left=left,
                    fill=fetch,
                    commit=commit_rows,
                    compare=compared_by(partial(self._page, self.interval), fixed_ms),
                )
                goes_on = await stitch.record(start_ms, until_ms, start_ms)
            if goes_on and left()[0] < until_ms:
                await fetch(*left())
        return not (self.job_run.stopping or self.job_run.lost)

    async def _whole(self, chunk: CandleChunk) -> list[Candle]:
        """Request all candles of a chunk: one page, or more if pages are shorter than they were.

        Raises:
            UnexpectedAnswer: some have not closed, although they ended long ago.
        """
        at_ms, found = chunk.start_ms, list[Candle]()
        while at_ms < chunk.end_ms:
            page = await self._page(self.interval, at_ms, chunk.end_ms)
            found += page
            asked = at_ms, chunk.end_ms
            at_ms = complete_until(self.gateway.exchange, self.interval, asked, page)
        if not all(candle.closed for candle in found):
            raise UnexpectedAnswer(f"candles before {chunk.end_ms} are still open")
        return found

    async def _commit(self, batch: CandleBatch, end_ms: int) -> bool:
        """Record a batch, and move the cursor; return whether to continue."""
        for page in batch.pages:
            await self._record(page)
            # Recording blocks the loop, and leases have to be renewed.
            await self.context.clock.sleep(0)
        self._cover(batch.start_ms, batch.end_ms)
        return await self._save(batch.end_ms, [*chain(*batch.pages)], end_ms)

    def _step(self, page: list[Candle], start_ms: int, now_ms: int) -> _Step:
        """The result of a page that was requested at ``now_ms``."""
        end_ms, asked_ms = self._ends(now_ms)
        wanted = [candle for candle in page if candle.open_ms < end_ms]
        closed = [candle for candle in wanted if candle.closed and candle.close_ms < now_ms]
        next_ms = self.interval.next_open(closed[-1].open_ms) if closed else start_ms
        if len(closed) < len(wanted):
            # A candle still open is left to a later run; one that should be closed will be soon.
            return _Step(closed, next_ms, is_last=wanted[-1].close_ms >= now_ms)
        complete_ms = complete_until(
            self.gateway.exchange, self.interval, (start_ms, asked_ms), page
        )
        # Not past the end: the candle that was requested as a proof is not recorded.
        next_ms = max(next_ms, min(complete_ms, self._settled_ms(now_ms), end_ms))
        is_present = complete_ms >= end_ms > self.interval.open_of(now_ms)
        return _Step(closed, next_ms, is_last=is_present or next_ms >= end_ms)

    async def _beyond_nothing(self, step: _Step, now_ms: int) -> _Step:
        """Find where to continue after an empty page, with longer candles, which cover more."""
        exchange = self.gateway.exchange
        far, end_ms = longest(exchange), min(self._ends(now_ms)[0], self._settled_ms(now_ms))
        if exchange.candle_span is None or far == self.interval:
            return step
        at_ms = far.open_of(step.next_ms)
        while at_ms < end_ms:
            page = await self._page(far, at_ms, end_ms)
            if page:
                return step._replace(next_ms=max(step.next_ms, min(page[0].open_ms, end_ms)))
            at_ms = complete_until(exchange, far, (at_ms, end_ms), page)
        return step._replace(next_ms=max(step.next_ms, end_ms))

    def _ends(self, now_ms: int) -> tuple[int, int]:
        """The end of the range, and of the request: one more candle proves the others closed."""
        present_ms = self.interval.next_open(self.interval.open_of(now_ms))
        until_ms = self.job_run.cursor.until_ms
        if until_ms is None:
            return present_ms, present_ms
        beyond_ms = self.interval.next_open(self.interval.open_of(until_ms))
        return min(until_ms, present_ms), min(beyond_ms, present_ms)

    def _settled_ms(self, now_ms: int) -> int:
        """The time before which an interval without a candle will not get one."""
        return self.interval.open_of(now_ms - _LATE_MS)

    def _oldest_ms(self, now_ms: int) -> int:
        exchange = self.gateway.exchange
        return max(exchange.opened_ms, kept_from_ms(exchange, self.interval, now_ms))

    def _note_lost(self, start_ms: int, first_ms: int) -> None:
        """Add an event if the exchange no longer keeps the candles at the cursor."""
        kept_ms = kept_from_ms(self.gateway.exchange, self.interval, self.now_ms())
        if self.cursor_ms() is None or not start_ms < min(first_ms, kept_ms):
            return
        self.job_run.note(
            "skipped",
            f"candles of {self.interval} from before {iso(kept_ms)} are not kept any more,"
            f" and the cursor stood at {iso(start_ms)}",
        )

    async def _page(self, interval: Interval, start_ms: int, end_ms: int) -> list[Candle]:
        request = self.rest.candles(self.symbol, interval, start_ms, end_ms)
        page = await self.gateway.fetch(request)
        opens = [candle.open_ms for candle in page]
        if opens != sorted(set(opens)) or (
            opens and not start_ms <= opens[0] <= opens[-1] < end_ms
        ):
            raise UnexpectedAnswer(
                f"{request.path} was asked for candles from {start_ms} to {end_ms}, oldest first,"
                f" and gave {len(opens)} that begin with {opens[:3]}"
            )
        return page

    async def _record(self, candles: Sequence[Candle]) -> None:
        stored = await self.context.recorder.record(candles) if candles else []
        if stored:
            self.job_run.recorded(place_of(self.context.log_id, stored[-1].slot), stored[-1].number)

    def _cover(self, since_ms: int, until_ms: int) -> None:
        """Note that all candles of a range are recorded, where some intervals have none."""
        coverage, exchange = self.context.coverage, self.gateway.exchange
        if coverage is not None and not exchange.empty_candles:
            channel = CANDLES.named(self.interval.text)
            stream = Stream(exchange.name, channel, self.symbol.slug)
            coverage.projection.cover(stream, since_ms, until_ms)

    async def _sync(self) -> None:
        """Make durable what is recorded, and what is known of intervals without a candle."""
        await self.context.recorder.sync()
        if self.context.coverage is not None and not self.gateway.exchange.empty_candles:
            await self.context.coverage.write()

    async def _save(self, since_ms: int, closed: list[Candle], end_ms: int) -> bool:
        # Before the cursor is saved: it survives a power cut, and so must the candles before it.
        await self._sync()
        cursor = self.job_run.cursor
        last_ts = closed[-1].open_ms if closed else cursor.last_ts
        return await self.job_run.save(
            replace(cursor, since_ms=since_ms, last_ts=last_ts, page=cursor.page + 1),
            rows=len(closed),
            first_ts=closed[0].open_ms if closed else None,
            target_ts=end_ms,
        )
