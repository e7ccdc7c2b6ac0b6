"""Fetches the trades of a range of ids, and closes the gaps in it.

A page is recorded and synced, then its gaps are closed, then the cursor moves past it. So a page is
at most fetched twice, and after a crash at any point nothing is recorded twice: ids that the log
holds are left out. Ids that a page covers and lacks are requested again before they count as ones
that the exchange does not have.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from msgspec.structs import replace

from penstock.coverage.id_runs import IdRuns
from penstock.errors import (
    BadJob,
    BadRequest,
    MissingExtra,
    UnexpectedAnswer,
    UnknownExchange,
)
from penstock.exchanges import registry as exchanges
from penstock.exchanges.base import Exchange, Request
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.claims import place_of
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_jobs import GAP_WATCH
from penstock.ingest.id_ranges import IdRange, IdRangeCursor, IdRangeTarget
from penstock.ingest.request_rate import request_rate
from penstock.ingest.timed_gaps import open_within
from penstock.ingest.trade_pages import (
    AfterTime,
    BeforeId,
    Covered,
    Fetch,
    FromId,
    NumberedTrade,
    Page,
    Pager,
)
from penstock.jobs.kinds import RequestRate
from penstock.jobs.model import Job
from penstock.jobs.run import AnyRun, JobRun
from penstock.market.channels import TRADES
from penstock.market.symbol import Symbol
from penstock.storage.log import Span
from penstock.storage.log.keys import Stream, id_of_key, key_of_id

# How often ids that are not in a response are requested again: if later ones exist or the exchange
# refuses, and if there is nothing beyond, which may be because the exchange is behind its stream.
_AGAIN = 1
_AGAIN_AT_END = 10
# What a refusal with one of these says is not about the trades.
_NOT_ALLOWED = (401, 403)
_RECORDED_AT_ONCE = 1000


@dataclass(frozen=True)
class TradeWalk:
    """The fetch of one range of ids in one job run."""

    context: HandlerContext
    job_run: JobRun[IdRangeTarget, IdRangeCursor]
    exchange: Exchange
    stream: Stream
    pager: Pager

    @classmethod
    async def begin(
        cls, context: HandlerContext, job_run: JobRun[IdRangeTarget, IdRangeCursor]
    ) -> "TradeWalk":
        """Look up the exchange and the market of a job.

        Raises:
            UnknownExchange, UnknownSymbol: there is no such one.
            BadJob: the exchange's records of this channel cannot be requested by id.
        """
        exchange_id, target = job_run.job.exchange_id, job_run.target
        gateway = await context.gateways.of(exchange_id)
        symbols = await context.markets.of(exchange_id)
        symbol, exchange = symbols.find(target.symbol), gateway.exchange
        request_for = page_requests(exchange, symbols, symbol, target.channel)
        stream = Stream(exchange.name, target.channel, symbol.slug)

        async def fetch(cursor: int) -> Page:
            return await gateway.fetch(request_for(cursor))

        return cls(context, job_run, exchange, stream, pager_for(exchange, stream, fetch, context))

    @property
    def _cursor(self) -> IdRangeCursor:
        return self.job_run.cursor

    @property
    def _is_consecutive(self) -> bool:
        return self.stream.channel in self.exchange.consecutive

    async def go(self) -> bool:
        """Record what is missing of the ids that are left; return whether none is left."""
        wanted = await self._wanted()
        while self._cursor.left.size:
            if not any(overlaps(self._cursor.left, each) for each in wanted):
                break
            covered, absent = await self._page()
            if not self.job_run.is_held(self.context.clock.monotonic_ns()):
                self.job_run.lose("its lease ended before a page was recorded")
                return False
            recorded = await self._record(covered, wanted)
            await self.context.recorder.sync()
            await self._close(covered, absent, recorded)
            if not await self._save(covered, recorded):
                return not self._cursor.left.size
        return True

    async def _wanted(self) -> list[IdRange]:
        """The ids to record, if the log has none of them: those asked for by a client, or gaps.

        A job for several gaps also fetches what lies between them, which another machine may hold.
        """
        if self.job_run.job.origin != GAP_WATCH or not self._is_consecutive:
            return [self._cursor.left]
        exchange, channel, symbol = self.stream
        rows = await self.context.gaps.find(
            exchange=exchange, channel=channel, symbol=symbol, state="open"
        )
        return [IdRange(row.first, row.last) for row in rows if row.by == "id"]

    async def _page(self) -> tuple[Covered, list[IdRange]]:
        """Request the next page; return what it proves, and which of these ids do not exist.

        Raises:
            UnexpectedAnswer: the next ids are not in the response, and may be late.
        """
        cursor, again = self._cursor, _AGAIN
        try:
            covered = await self.pager.next(cursor)
            again = _AGAIN_AT_END if covered.ended else _AGAIN
        except BadRequest as error:
            if error.status in _NOT_ALLOWED:
                raise
            covered = Covered(cursor.left, [], ended=error.message)
        absent = self._absent(covered)
        if not absent or cursor.unanswered >= again:
            return covered, absent
        whole = _until_absent(covered.ids, absent, goes_back=self.pager.goes_back)
        if not whole.size:
            await self.job_run.save(replace(cursor, unanswered=cursor.unanswered + 1))
            raise UnexpectedAnswer(
                f"{self.exchange.name} has no {self.stream.channel} with ids from"
                f" {absent[0].first} to {absent[-1].last}: {self._reason(covered)}. They are"
                " requested again"
            )
        trades = [each for each in covered.trades if whole.first <= each.id <= whole.last]
        return Covered(whole, trades), []

    def _absent(self, covered: Covered) -> list[IdRange]:
        """The ids without a trade, where they have one each; else those that are out of reach."""
        ids = [trade.id for trade in covered.trades]
        if self._is_consecutive:
            return outside(covered.ids, ((number, number) for number in ids))
        if not covered.ended:
            return []
        rest = covered.ids
        if ids:
            back = self.pager.goes_back
            rest = IdRange(rest.first, min(ids) - 1) if back else IdRange(max(ids) + 1, rest.last)
        return [rest] if rest.size else []

    async def _record(self, covered: Covered, wanted: Iterable[IdRange]) -> list[NumberedTrade]:
        """Record the trades that are wanted and not in the log; return them."""
        ranges = [each for each in wanted if overlaps(each, covered.ids)]
        trades = [
            trade
            for trade in covered.trades
            if any(first <= trade.id <= last for first, last in ranges)
        ]
        return await record_missing(self.context, self.job_run, self.stream, trades)

    async def _close(
        self, covered: Covered, absent: list[IdRange], recorded: list[NumberedTrade]
    ) -> None:
        """Close the gaps that a page has filled, and those that cannot be filled."""
        gaps, reason = self.context.gaps, self._reason(covered)
        for part in absent:
            self.job_run.note("skipped", f"ids from {part.first} to {part.last}: {reason}")
        if not self._is_consecutive:
            if absent or covered.ids.size == self._cursor.left.size:
                await self._close_timed(reason if absent else "", len(recorded))
            return
        for part in outside(covered.ids, absent):
            await gaps.mark_filled(self.stream, "id", *part)
        for part in absent:
            await gaps.mark_unfillable(self.stream, "id", *part, reason)

    async def _close_timed(self, reason: str, recorded: int) -> None:
        """Close the gaps by time in the whole range; with a reason, they cannot be filled."""
        gaps, target = self.context.gaps, self.job_run.target
        rows = self.job_run.job.progress.rows + recorded
        for row in await open_within(gaps, self.stream, IdRange(target.first_id, target.last_id)):
            if reason:
                await gaps.mark_unfillable(self.stream, row.by, row.first, row.last, reason)
            else:
                await gaps.mark_filled(self.stream, row.by, row.first, row.last, rows=rows)

    def _reason(self, covered: Covered) -> str:
        name = self.exchange.name
        return f"{name}: {covered.ended}" if covered.ended else f"{name} skipped these ids"

    async def _save(self, covered: Covered, recorded: list[NumberedTrade]) -> bool:
        cursor, ids = self._cursor, covered.ids
        if self.pager.goes_back and ids.first > cursor.first_id:
            moved = replace(cursor, last_id=ids.first - 1)
        else:
            moved = replace(cursor, first_id=ids.last + 1)
        return await self.job_run.save(
            replace(moved, after_ns=covered.after_ns, page=cursor.page + 1, unanswered=0),
            rows=len(recorded),
            first_ts=recorded[0].at_ms if recorded else None,
        )


def page_requests(
    exchange: Exchange, symbols: SymbolMap, symbol: Symbol, channel: str
) -> Callable[[int], Request[Page]]:
    """The requests for pages of a market's old trades, by their cursor.

    Raises:
        BadJob: the exchange has none, or its ids do not order them.
    """
    check_fetched_by_id(exchange, channel)
    agg_trades, rest = exchange.agg_trades, exchange.rest(symbols)
    if channel != TRADES.name and agg_trades is not None:
        return lambda cursor: agg_trades(symbols, symbol, cursor)
    return lambda cursor: rest.trades(symbol, cursor)


def check_fetched_by_id(exchange: Exchange, channel: str) -> None:
    """Check that old records of a channel can be requested by id.

    Raises:
        BadJob: the exchange has none, or its ids do not order them.
    """
    if channel != TRADES.name and exchange.agg_trades is None:
        raise BadJob("cursor.channel", f"{exchange.name} has no {channel}")
    if exchange.trade_pages == "after_ns" and channel not in exchange.consecutive:
        what = "pages of trades are by time, and ids do not increase by one"
        raise BadJob("cursor", f"{exchange.name} cannot be asked for ids: {what}")


def pager_for(exchange: Exchange, stream: Stream, fetch: Fetch, context: HandlerContext) -> Pager:
    """The exchange's way of paging through a stream."""

    def time_before(wanted: int) -> int | None:
        span = Span(end=key_of_id(wanted))
        found = next(context.log.scan(stream, span, reverse=True, limit=1), None)
        return None if found is None else cast("NumberedTrade", found.event).at_ns

    pages = exchange.trade_pages if stream.channel == TRADES.name else "from_id"
    match pages:
        case "from_id":
            return FromId(fetch)
        case "before_id":
            return BeforeId(fetch, ordered=stream.channel in exchange.consecutive)
        case "after_ns":
            return AfterTime(fetch, context.clock.now_ns, time_before)


async def page_rate(context: HandlerContext, job: Job, channel: str, cursor: int) -> RequestRate:
    """How many pages of a job's market the tightest limit allows per window."""
    gateway = await context.gateways.of(job.exchange_id)
    symbols = await context.markets.of(job.exchange_id)
    symbol = symbols.find(job.target.symbol)
    request_for = page_requests(gateway.exchange, symbols, symbol, channel)
    return request_rate(gateway.gate.used(), request_for(cursor))


def has_consecutive_ids(exchange_id: str, channel: str) -> bool:
    """Whether the number of ids is the number of records; False for an unknown exchange."""
    try:
        return channel in exchanges.load(exchange_id).consecutive
    except (UnknownExchange, MissingExtra):
        return False


def overlaps(one: IdRange, other: IdRange) -> bool:
    """Whether two ranges share an id."""
    return one.first <= other.last and other.first <= one.last


async def record_missing(
    context: HandlerContext, job_run: AnyRun, stream: Stream, trades: Sequence[NumberedTrade]
) -> list[NumberedTrade]:
    """Record the trades that the log does not hold, and return them."""
    ids = [trade.id for trade in trades]
    if not ids:
        return []
    span = Span(key_of_id(min(ids)), key_of_id(max(ids) + 1))
    held = set(map(id_of_key, context.log.keys_in(stream, [span])))
    new = [trade for trade in trades if trade.id not in held]
    for start in range(0, len(new), _RECORDED_AT_ONCE):
        stored = await context.recorder.record(new[start : start + _RECORDED_AT_ONCE])
        if stored:
            job_run.recorded(place_of(context.log_id, stored[-1].slot), stored[-1].number)
    return new


def outside(ids: IdRange, others: Iterable[tuple[int, int]]) -> list[IdRange]:
    """The parts of a range outside of others, in order."""
    runs = IdRuns()
    for first, last in others:
        runs.add_run(first, last)
    return [IdRange(*part) for part in runs.lacking(*ids)]


def _until_absent(ids: IdRange, absent: list[IdRange], *, goes_back: bool) -> IdRange:
    """The part of a range before the first absent id, in the direction of the pages."""
    if goes_back:
        return IdRange(absent[-1].last + 1, ids.last)
    return IdRange(ids.first, absent[0].first - 1)
