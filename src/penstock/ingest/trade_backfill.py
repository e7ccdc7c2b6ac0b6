"""Fetches a market's trades from one id to another, several pages at a time where ids allow it.

A batch is recorded when all of it is fetched, in the order of its ids, and synced; then its gaps
are closed, then the cursor moves past it. So the cursor is never ahead of the data, and a batch
that is fetched twice after a crash is not recorded twice: ids that the log holds are left out.
"""

from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from penstock.errors import RateLimited, UnexpectedAnswer
from penstock.exchanges.base import ExchangeClient, Request
from penstock.exchanges.bulk_files import FileSeries
from penstock.ingest.chunks import MAX_ATTEMPTS, Batch, Chunk, ChunkQueue
from penstock.ingest.concurrency import FEW_TRADES
from penstock.ingest.context import HandlerContext
from penstock.ingest.exchange_time import exchange_ms
from penstock.ingest.facts import (
    BackfillDone,
    BackfillStarted,
    BatchRecorded,
    CheckpointSaved,
    PageFetched,
    PageRefused,
)
from penstock.ingest.file_trades import FileTrades
from penstock.ingest.id_ranges import IdRange, IdRangeCursor
from penstock.ingest.page_concurrency import page_concurrency
from penstock.ingest.parallel import ParallelFetch
from penstock.ingest.timed_gaps import open_within
from penstock.ingest.trade_bounds import Resolved, TradeBounds, is_dense
from penstock.ingest.trade_pages import Covered, Page, Pager
from penstock.ingest.trade_range import TradesCursor, TradesTarget
from penstock.ingest.trades import outside, page_requests, pager_for, record_missing
from penstock.jobs.product_locks import HeldLock, key_of
from penstock.jobs.run import NS_PER_MS, JobRun
from penstock.market.channels import TRADES
from penstock.market.events import Trade
from penstock.storage.log.keys import Stream


@dataclass(frozen=True)
class TradeBackfill:
    """The fetch of one range in one job run."""

    context: HandlerContext
    job_run: JobRun[TradesTarget, TradesCursor]
    gateway: ExchangeClient
    stream: Stream
    pager: Pager
    bounds: TradeBounds
    lock_key: str
    request: Request[Page]
    """One for a page, which tells the cost of all."""
    series: FileSeries[Trade] | None = None
    """The files that the exchange publishes."""

    @classmethod
    async def begin(
        cls, context: HandlerContext, job_run: JobRun[TradesTarget, TradesCursor]
    ) -> "TradeBackfill":
        """Look up the exchange and the market of a job.

        Raises:
            UnknownExchange, UnknownSymbol: there is no such one.
            BadJob: the exchange's trades cannot be requested by id.
        """
        exchange_id = job_run.job.exchange_id
        gateway = await context.gateways.of(exchange_id)
        symbols = await context.markets.of(exchange_id)
        symbol, exchange = symbols.find(job_run.target.symbol), gateway.exchange
        request_for = page_requests(exchange, symbols, symbol, TRADES.name)
        stream = Stream(exchange.name, TRADES.name, symbol.slug)

        async def fetch(cursor: int) -> Page:
            return await gateway.fetch(request_for(cursor))

        async def newest() -> int | None:
            return (await gateway.fetch(exchange.rest(symbols).latest(symbol, TRADES.name))).id

        bounds = TradeBounds(exchange, fetch, newest, exchange_ms(gateway, context.clock))
        pager = pager_for(exchange, stream, fetch, context)
        native, files = symbols.native(symbol), exchange.bulk_files
        return cls(
            context,
            job_run,
            gateway,
            stream,
            pager,
            bounds,
            key_of(exchange_id, native),
            request_for(0),
            None if files is None else files.trades(native, symbol),
        )

    @property
    def _cursor(self) -> TradesCursor:
        return self.job_run.cursor

    @property
    def _symbol(self) -> str:
        return self.job_run.target.symbol

    @property
    def _is_consecutive(self) -> bool:
        return TRADES.name in self.gateway.exchange.consecutive

    @property
    def _left(self) -> IdRange:
        return self._cursor.left(goes_back=self._goes_back)

    @property
    def _goes_back(self) -> bool:
        # Where all pages of a range can be requested, the first batch is recorded first.
        return self.pager.goes_back and not is_dense(self.gateway.exchange)

    async def go(self, lock: HeldLock) -> bool:
        """Record the trades that are left, while a lock is held; return whether none is left.

        Raises:
            LockLost: it is not held any more.
        """
        if not self._cursor.is_resolved and not await self._resolve():
            return not self._left.size
        is_done = await self._fetch_all(lock)
        if is_done:
            job, batches = self.job_run.job, self._cursor.page
            self.context.emit(
                BackfillDone(
                    exchange=self.stream.exchange,
                    symbol=self._symbol,
                    trades=job.progress.rows,
                    batches=batches,
                )
            )
        return is_done

    async def _fetch_all(self, lock: HeldLock) -> bool:
        left, size = self._left, self.gateway.exchange.trade_page_size
        dense = is_dense(self.gateway.exchange)
        self.context.emit(
            BackfillStarted(
                exchange=self.stream.exchange,
                symbol=self._symbol,
                first_id=left.first,
                last_id=left.last,
                pages=-(-left.size // size) if dense else 0,
                concurrency=self._concurrency() if dense else 0,
            )
        )
        if dense:
            if self.series is not None and not await self._record_files(self.series, lock):
                return not self._left.size
            return await self._fetch_ids(lock, self._left)
        while self._left.size:
            covered = await self._next_page()
            trades = sorted(covered.trades, key=lambda trade: trade.id)
            absent = outside(covered.ids, ((trade.id, trade.id) for trade in trades))
            batch = Batch(covered.ids, trades, absent if self._is_consecutive else [])
            if not await self._commit(lock, batch, covered.after_ns, covered.ended):
                break
        return not self._left.size

    async def _resolve(self) -> bool:
        ids, note, starts_history = await self._bounds()
        if note:
            self.job_run.note("skipped", note)
        by_time = self.gateway.exchange.trade_pages == "after_ns"
        cursor = replace(
            self._cursor,
            from_id=ids.first,
            to_id=max(ids.last, ids.first - 1),
            is_resolved=True,
            after_ns=0 if starts_history and by_time else None,
        )
        return await self.job_run.save(cursor)

    async def _fetch_ids(self, lock: HeldLock, ids: IdRange) -> bool:
        """Request and record the next ids that are left; return whether to continue."""
        queue = ChunkQueue(ids, self.gateway.exchange.trade_page_size)
        commit = partial(self._commit, lock)
        return await ParallelFetch(queue, self._fetch, commit, self._concurrency).run()

    async def _record_files(self, series: FileSeries[Trade], lock: HeldLock) -> bool:
        files, cursor = self.context.files, self._cursor
        if files is None or not self._left.size:
            return True
        assert cursor.from_id is not None
        assert cursor.to_id is not None
        found = FileTrades(
            files,
            series,
            self.bounds.fetch,
            left=lambda: self._left,
            fill=partial(self._fetch_ids, lock),
            commit=partial(self._commit, lock),
        )
        ids, size = IdRange(cursor.from_id, cursor.to_id), self.gateway.exchange.trade_page_size
        return await found.record(self.job_run.target, ids, size)

    async def _bounds(self) -> Resolved:
        found = self.context.surveyed.pop(self.job_run.job.id, None)
        if found is None or found.is_walk or found.from_id is None or found.to_id is None:
            return await self.bounds.resolve(self._cursor)
        return Resolved(IdRange(found.from_id, found.to_id), "; ".join(found.notes))

    def _concurrency(self) -> int:
        if self._left.size <= FEW_TRADES:
            return 1
        return page_concurrency(self.context, self.gateway, self.request)

    async def _fetch(self, chunk: Chunk) -> Covered:
        first, last = chunk.ids
        try:
            return await self._page(IdRangeCursor(first_id=first, last_id=last))
        except RateLimited as error:
            if error.status is not None:
                self.context.emit(
                    PageRefused(
                        exchange=self.stream.exchange,
                        symbol=self._symbol,
                        first_id=first,
                        attempt=chunk.attempt,
                        attempts=MAX_ATTEMPTS,
                    )
                )
            raise

    async def _page(self, cursor: IdRangeCursor) -> Covered:
        clock = self.context.clock
        began_ns = clock.monotonic_ns()
        covered = await self.pager.next(cursor)
        took_ms = (clock.monotonic_ns() - began_ns) // NS_PER_MS
        self.context.emit(
            PageFetched(
                exchange=self.stream.exchange,
                symbol=self._symbol,
                trades=len(covered.trades),
                took_ms=took_ms,
            )
        )
        return covered

    async def _commit(
        self, lock: HeldLock, batch: Batch, after_ns: int | None = None, ended: str = ""
    ) -> bool:
        """Record a batch, close its gaps, and move the cursor; return whether to continue.

        ``ended`` is why there are no trades beyond those of the batch, of a walk that goes back.
        """
        await lock.check()
        if not self.job_run.is_held(self.context.clock.monotonic_ns()):
            self.job_run.lose("its lease ended before a batch was recorded")
            return False
        recorded = await record_missing(self.context, self.job_run, self.stream, batch.trades)
        await self.context.recorder.sync()
        cursor = self._cursor
        last_id = batch.ids.first if self._goes_back else batch.ids.last
        moved = replace(cursor, last_id=last_id, after_ns=after_ns, page=cursor.page + 1)
        if ended:
            self.job_run.note("skipped", f"{self.gateway.exchange.name}: {ended}")
        if self._is_consecutive:
            await self._close(batch)
        elif not moved.left(goes_back=self._goes_back).size:
            reached = batch.trades[0].id if batch.trades else self._left.last + 1
            await self._close_timed(reached if ended else batch.ids.first, len(recorded))
        first_ts = recorded[0].at_ms if recorded else None
        self.context.emit(
            BatchRecorded(
                exchange=self.stream.exchange,
                symbol=self._symbol,
                recorded=len(recorded),
                held=len(batch.trades) - len(recorded),
                absent=sum(part.size for part in batch.absent),
            )
        )
        goes_on = await self.job_run.save(moved, rows=len(recorded), first_ts=first_ts)
        if not self.job_run.lost:
            self.context.emit(
                CheckpointSaved(
                    exchange=self.stream.exchange,
                    symbol=self._symbol,
                    last_id=last_id,
                    rows=self.job_run.job.progress.rows,
                )
            )
        return goes_on

    async def _close(self, batch: Batch) -> None:
        """Close the gaps that a batch has filled, and those that cannot be filled."""
        gaps, reason = self.context.gaps, f"{self.gateway.exchange.name} skipped these ids"
        for part in outside(batch.ids, batch.absent):
            await gaps.mark_filled(self.stream, "id", *part)
        for part in batch.absent:
            self.job_run.note("skipped", f"ids from {part.first} to {part.last}: {reason}")
            await gaps.mark_unfillable(self.stream, "id", *part, reason)

    async def _close_timed(self, first_id: int, recorded: int) -> None:
        """Close the gaps by time from an id to the end of the range."""
        gaps, last_id = self.context.gaps, self._cursor.to_id
        assert last_id is not None
        rows = self.job_run.job.progress.rows + recorded
        for row in await open_within(gaps, self.stream, IdRange(first_id, last_id)):
            await gaps.mark_filled(self.stream, row.by, row.first, row.last, rows=rows)

    async def _next_page(self) -> Covered:
        """The next page of a walk, whose ids cannot be told before the page before it is there.

        Raises:
            UnexpectedAnswer: there are no more trades, although there should be.
        """
        cursor = self._cursor
        at = IdRangeCursor(
            first_id=self._left.first,
            last_id=self._left.last,
            since_ms=cursor.since_ms,
            after_ns=cursor.after_ns,
        )
        covered = await self._page(at)
        if not self._is_consecutive:
            return covered
        if len(covered.trades) < covered.ids.size:
            # It may be that they are late.
            covered = await self._page(at)
        if covered.ended:
            raise UnexpectedAnswer(f"{self.gateway.exchange.name}: {covered.ended}")
        return covered
