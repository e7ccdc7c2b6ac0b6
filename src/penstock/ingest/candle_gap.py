"""Gaps of candles: the time range that a job fetches."""

from penstock.coverage.candles import HeldCandles
from penstock.errors import BadJob
from penstock.ingest.candle_jobs import GAP_BACKFILL, CandleTarget
from penstock.ingest.candle_kind import CandleKind
from penstock.ingest.candles import CandleWalk
from penstock.ingest.history import first_open
from penstock.jobs.kinds import Market
from penstock.jobs.model import Cursor
from penstock.jobs.run import JobRun
from penstock.market.channels import CANDLES
from penstock.storage.log.keys import Stream


class CandleGapTarget(CandleTarget, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candles of one market in [since, until)."""

    since_ms: int
    until_ms: int


class CandleGapFill(CandleKind[CandleGapTarget]):
    """Fetches from the start of the gap to its end."""

    name = GAP_BACKFILL
    priority = 10
    target_type = CandleGapTarget

    @classmethod
    def target(cls, market: Market, cursor: Cursor) -> CandleGapTarget:
        """See ``JobKind``."""
        candles = cls._candles(market, cursor)
        if cursor.since_ms is None or cursor.until_ms is None:
            raise BadJob("cursor", f"a {cls.name} needs since_ms and until_ms, or ids of trades")
        return CandleGapTarget(
            symbol=candles.symbol,
            timeframe=candles.timeframe,
            since_ms=cursor.since_ms,
            until_ms=cursor.until_ms,
        )

    @classmethod
    def span(cls, target: CandleGapTarget, cursor: Cursor) -> tuple[int, int]:
        """See ``JobKind``."""
        since_ms = target.since_ms if cursor.since_ms is None else cursor.since_ms
        until_ms = target.until_ms if cursor.until_ms is None else cursor.until_ms
        return since_ms, until_ms

    async def run(self, job_run: JobRun[CandleGapTarget, Cursor]) -> bool:
        """See ``JobKind``."""
        walk = await CandleWalk.begin(self._context, job_run)
        start_ms, _ = self.span(job_run.target, job_run.cursor)
        done = await walk.go(start_ms, several=True)
        if done:
            await self._gap_scan.after_gap(walk, start_ms)
            await self._close(walk, job_run.target)
        return done

    async def _close(self, walk: CandleWalk, target: CandleGapTarget) -> None:
        """Close the gaps of the range in the ledger, if it has any."""
        gaps, exchange, interval = self._context.gaps, walk.gateway.exchange, walk.interval
        stream = Stream(exchange.name, CANDLES.named(interval.text), walk.symbol.slug)
        rows = await gaps.find(**stream._asdict(), state="open")
        first, last = target.since_ms, target.until_ms - 1
        if not any(row.first <= last and first <= row.last for row in rows):
            return
        await self._context.recorder.sync()
        held = HeldCandles(self._context.log, exchange.name, walk.symbol, interval)
        if exchange.empty_candles:
            for gap in await held.gaps(first_open(interval, first), last + 1, self._context.clock):
                reason = f"{exchange.name} has no candles of {interval} of this time"
                await gaps.mark_unfillable(
                    stream, "open_ms", gap.since_ms, gap.until_ms - 1, reason
                )
        for part in await gaps.find(**stream._asdict(), state="open"):
            if part.first <= last and first <= part.last:
                begin, end = max(first, part.first), min(last, part.last)
                count = len(held.opens(begin, end + 1))
                await gaps.mark_filled(stream, "open_ms", begin, end, rows=count)
