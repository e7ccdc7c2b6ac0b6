"""Routes for one market as the console shows it: book, latest trades and candles."""

from typing import Annotated
from urllib.parse import parse_qsl, unquote

from litestar import Response, get
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from penstock.api.app_state import AppState, GivenState, json_answer
from penstock.api.problems import AnyRequest, ProblemError
from penstock.api.reading import Word, converted, query_of
from penstock.coverage.gap_rows import GapRows
from penstock.monitor.market_candles import CandleRange, shown_gaps
from penstock.monitor.market_documents import CandleInterval, MarketDocument
from penstock.monitor.market_feed import Watch
from penstock.monitor.markets import Markets

Milliseconds = Annotated[int, Meta(ge=0, le=4_102_444_800_000)]


class MarketQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which candle a market is shown with."""

    interval: CandleInterval = "1m"


class ChartQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which candles to return: the newest of a range."""

    exchange: Word
    symbol: Word
    """In any spelling but the exchange's own: btc_usdt, BTC/USDT."""
    interval: CandleInterval | UnsetType = UNSET
    """By default one that fits what is recorded."""
    since: Milliseconds | UnsetType = field(name="from", default=UNSET)
    until: Milliseconds | UnsetType = UNSET
    """By default now."""
    limit: Annotated[int, Meta(ge=1, le=2000)] = 500


@get("/market/{exchange_id:str}/{symbol:path}")
async def shown(
    request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str], symbol: FromPath[str]
) -> Response[bytes]:
    """Show a market: its order book, latest trades, spread and current candle."""
    asked = query_of(request, MarketQuery)
    watch = Watch(exchange_id, symbol.removeprefix("/"), asked.interval)
    return json_answer(await _offered(app_state).document(watch))


async def watched_market(app_state: AppState, rest: str) -> MarketDocument:
    """Return what a viewer watches: ``EXCHANGE/SYMBOL``, perhaps with ``?interval=5s``."""
    path, _, query = rest.partition("?")
    exchange, _, symbol = path.partition("/")
    asked = converted(parse_qsl(query, keep_blank_values=True), MarketQuery)
    watch = Watch(exchange, unquote(symbol), asked.interval)
    return await _offered(app_state).document(watch)


@get("/market/candles")
async def charted(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """Return the candles of a market for a chart, oldest first, and what is missing in them."""
    asked = query_of(request, ChartQuery)
    wanted = CandleRange(
        exchange=asked.exchange,
        symbol=asked.symbol,
        interval=asked.interval or None,
        since_ms=None if asked.since is UNSET else asked.since,
        until_ms=None if asked.until is UNSET else asked.until,
        limit=asked.limit,
    )
    async with app_state.reading:
        read = await _offered(app_state).candles(wanted)
    rows = await GapRows(app_state.store).within(read.gaps_of, read.since_ms, read.until_ms)
    gaps = shown_gaps(rows, read.since_ms, read.until_ms)
    return json_answer(replace(read.document, gaps=gaps))


ROUTES = [charted, shown]


def _offered(app_state: AppState) -> Markets:
    if app_state.market_pages is None:
        raise ProblemError(404, "This server offers no collected data.")
    return app_state.market_pages
