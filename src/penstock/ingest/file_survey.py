"""Adds to a survey what published files have of its range."""

from dataclasses import replace

from penstock.exchanges.base import Exchange
from penstock.exchanges.bulk_files import FileSeries
from penstock.ingest.file_cover import are_files_cheaper, cover_of
from penstock.ingest.planner import Survey
from penstock.ingest.published_files import PublishedFiles
from penstock.ingest.surveyed_market import SurveyedMarket
from penstock.ingest.trade_range import TradesCursor
from penstock.ingest.trades import page_requests
from penstock.market.channels import TRADES
from penstock.market.events import Candle, Trade
from penstock.market.interval import DAY_MS, Interval


async def with_files(
    found: Survey, wanted: TradesCursor, market: SurveyedMarket, files: PublishedFiles
) -> Survey:
    """The same survey; with files, if there are some and they spare requests.

    Raises:
        ExchangeError, ExchangeUnreachable, StorageError: their source cannot be asked now.
    """
    series = _series(found, market)
    if series is None or found.is_walk or not found.rows:
        return found
    if found.timeframe is None:
        since_ms, until_ms, begin_ms = await _times(found, wanted, market)
    else:
        assert found.since_ms is not None
        assert found.until_ms is not None
        since_ms, until_ms, begin_ms = found.since_ms, found.until_ms, found.since_ms
    page_size = max(each.costs[-1].rows for each in found.endpoints)
    found = replace(found, requests=market.requests)
    if not are_files_cheaper(found.rows, until_ms - begin_ms, page_size):
        return found
    listed = await files.listed(series, since_ms, until_ms)
    cover = cover_of(listed, begin_ms, until_ms, found.rows)
    return replace(found, cover=cover) if listed else found


def _series(found: Survey, market: SurveyedMarket) -> FileSeries[Trade] | FileSeries[Candle] | None:
    exchange: Exchange = market.exchange
    bulk, native = exchange.bulk_files, market.symbols.native(market.symbol)
    if bulk is None:
        return None
    if found.timeframe is None:
        return bulk.trades(native, market.symbol)
    return bulk.candles(native, market.symbol, Interval.parse(found.timeframe))


async def _times(
    found: Survey, wanted: TradesCursor, market: SurveyedMarket
) -> tuple[int, int, int]:
    """The begin and the end of a range of trades, and the time of its first trade."""
    request_for = page_requests(market.exchange, market.symbols, market.symbol, TRADES.name)
    assert found.from_id is not None
    assert found.to_id is not None
    first = (await market.fetch(request_for(found.from_id))).trades[0].at_ms
    since_ms = wanted.since_ms
    if since_ms is None:
        # A range without a begin has the whole first day of the market.
        since_ms = first if wanted.from_id is not None else first // DAY_MS * DAY_MS
    until_ms = wanted.until_ms
    if until_ms is None:
        until_ms = (await market.fetch(request_for(found.to_id))).trades[0].at_ms
    return since_ms, until_ms, first
