"""Asks an exchange, with few requests, what a plan has to know of a range.

The same requests show how long responses take.
"""

from typing import Protocol

from penstock.clock import Clock
from penstock.connectors.markets import Gateways
from penstock.errors import UnknownInterval
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.candle_survey import CandleSurvey
from penstock.ingest.file_survey import with_files
from penstock.ingest.planner import Survey
from penstock.ingest.published_files import PublishedFiles
from penstock.ingest.surveyed_market import SurveyedMarket
from penstock.ingest.trade_range import TradesCursor, target_of
from penstock.ingest.trade_survey import TradeSurvey
from penstock.jobs.kinds import Market
from penstock.market.interval import Interval


class Listings(Protocol):
    """The market listing of each exchange."""

    async def of(self, exchange_id: str) -> SymbolMap: ...


class SurveyContext(Protocol):
    """What a survey needs, of that which kinds of jobs receive."""

    @property
    def gateways(self) -> Gateways: ...

    @property
    def markets(self) -> Listings: ...

    @property
    def clock(self) -> Clock: ...


async def survey(
    context: SurveyContext,
    exchange_id: str,
    symbol: str,
    wanted: TradesCursor,
    timeframe: str | None = None,
    files: PublishedFiles | None = None,
) -> Survey:
    """What is known of a range of a market's trades, or of its candles of a timeframe.

    ``wanted`` has times or, for trades, ids; without a begin or an end it is all there is. With
    ``files``, those that spare requests are listed.

    Raises:
        UnknownExchange, UnknownSymbol, UnknownInterval: there is no such one.
        BadJob: there cannot be such a range, it is in the future, or the market has no trades.
        One of ``UNAVAILABLE``: the exchange is not available now.
    """
    gateway = await context.gateways.of(exchange_id)
    symbols = await context.markets.of(exchange_id)
    market = SurveyedMarket(gateway, symbols, symbols.find(symbol), context.clock)
    target_of(Market(market.symbol.unified), wanted, "plan")
    if timeframe is None:
        found = await TradeSurvey(market).of(wanted)
    elif timeframe in gateway.exchange.intervals:
        found = await CandleSurvey(market, Interval.parse(timeframe)).of(wanted)
    else:
        raise UnknownInterval(timeframe, gateway.exchange.intervals)
    return found if files is None else await with_files(found, wanted, market, files)
