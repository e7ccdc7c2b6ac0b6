"""What the kinds of candle jobs have in common: their market, their cursor and their requests."""

from msgspec.structs import replace

from penstock.errors import BadJob, UnknownInterval
from penstock.ingest.candle_jobs import CandleTarget, K, cursor_of
from penstock.ingest.context import HandlerContext
from penstock.ingest.gap_scan import GapScan
from penstock.ingest.history import length_ms
from penstock.ingest.request_rate import request_rate
from penstock.jobs.kinds import JobKind, Market, RequestRate, unified_symbol
from penstock.jobs.model import Cursor, Job
from penstock.market.interval import Interval


class CandleKind(JobKind[K, Cursor]):
    """A kind of job that fetches candles of one market, oldest first."""

    cursor_type = Cursor

    def __init__(self, context: HandlerContext) -> None:
        self._context, self._gap_scan = context, GapScan(context)

    @classmethod
    def market(cls, target: K) -> Market:
        """See ``JobKind``."""
        return Market(target.symbol, target.timeframe)

    @classmethod
    def ended(cls, cursor: Cursor) -> Cursor:
        """See ``JobKind``."""
        return replace(cursor, done=True)

    @classmethod
    def rows_left(cls, job: Job) -> float:
        """See ``JobKind``."""
        since_ms, target_ms = cursor_of(job).since_ms, job.progress.target_ts
        if since_ms is None or target_ms is None or job.timeframe is None:
            return 0.0
        return max(0.0, (target_ms - since_ms) / length_ms(Interval.parse(job.timeframe)))

    async def request_rate(self, job: Job) -> RequestRate:
        """See ``JobKind``."""
        gateway = await self._context.gateways.of(job.exchange_id)
        symbols = await self._context.markets.of(job.exchange_id)
        interval = Interval.parse(job.target.timeframe)
        request = gateway.exchange.rest(symbols).candles(
            symbols.find(job.target.symbol), interval, 0, interval.next_open(0)
        )
        return request_rate(gateway.gate.used(), request)

    @classmethod
    def _candles(cls, market: Market, cursor: Cursor) -> CandleTarget:
        """The candles that a client names, with a cursor that a client may set.

        Raises:
            BadJob: there are no such candles, or the cursor is invalid.
        """
        if market.symbol is None:
            raise BadJob("symbol", f"a {cls.name} needs one, such as BTC/USDT")
        if market.timeframe is None:
            raise BadJob("timeframe", f"a {cls.name} needs one, such as 1h")
        symbol = unified_symbol(market.symbol)
        try:
            timeframe = Interval.parse(market.timeframe).text
        except UnknownInterval as error:
            raise BadJob("timeframe", str(error).rstrip(".")) from error
        if cursor.done:
            raise BadJob("cursor.done", "only a worker can say that a job is done")
        since_ms, until_ms = cursor.since_ms, cursor.until_ms
        if since_ms is not None and until_ms is not None and since_ms >= until_ms:
            raise BadJob("cursor", f"since_ms {since_ms} is not before until_ms {until_ms}")
        return CandleTarget(symbol=symbol, timeframe=timeframe)
