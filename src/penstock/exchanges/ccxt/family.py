"""Makes an ``Exchange`` for each exchange that ccxt supports, from ccxt's description of it."""

from functools import cache, partial
from typing import Any, NoReturn

from penstock.errors import UnknownInterval
from penstock.exchanges.base import Exchange
from penstock.exchanges.ccxt.gateway import opened
from penstock.exchanges.ccxt.library.client import PREFIX, make
from penstock.exchanges.ccxt.limits import UNITS, limits_of
from penstock.exchanges.ccxt.rest import CANDLES, TIME, CcxtRest, info_of
from penstock.exchanges.paged import PageCost, PagedEndpoint
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.interval import DAY_MS, Interval

# 2010-01-01: the first crypto exchange opened in the middle of that year.
_OPENED_MS = 1_262_304_000_000
# Used where ccxt has no page size: fewer candles than a page of any exchange has.
_SMALL_PAGE = 100


@cache
def load(name: str) -> Exchange:
    """The exchange that has this name in ccxt.

    Raises:
        UnknownExchange: there is none; the error has near matches.
        MissingExtra: ccxt is not installed.
    """
    client, ours = make(name), PREFIX + name
    limits, intervals = limits_of(client.rateLimit), _intervals(client)
    page = _candle_page(client)

    def rest(symbols: SymbolMap) -> CcxtRest:
        return CcxtRest(ours, intervals, page, symbols)

    return Exchange(
        name=ours,
        rest_url=_first(client.urls.get("api"), "https://"),
        stream_url=_first(client.urls.get("api"), "wss://"),
        limits_from={0: limits},
        time=TIME if client.has.get("fetchTime") is True else None,
        info=info_of(ours),
        rest=rest,
        dialect=partial(_no_dialect, ours),
        read_api_error=lambda _body: None,
        time_step_ms=1000,
        trade_pages="after_ns",
        intervals=intervals,
        paged=(PagedEndpoint("candles", CANDLES, (PageCost(page, UNITS),), page),),
        candle_span=page,
        opened_ms=_OPENED_MS,
        empty_candles=False,
        make_client=opened,
    )


def _no_dialect(exchange: str, _symbols: SymbolMap) -> NoReturn:
    raise TypeError(f"{exchange} is streamed by its feed: ask its client for it")


def _intervals(client: Any) -> tuple[str, ...]:
    """Lengths of candles that begin at the same times on all exchanges: a day at most.

    The start of weeks, months and several days depends on the exchange, and ccxt does not have it.
    """
    found = []
    for text in client.timeframes or {}:
        try:
            length_ms = Interval.parse(text).fixed_ms
        except UnknownInterval:
            continue
        if length_ms is not None and DAY_MS % length_ms == 0:
            found.append((length_ms, text))
    is_offered = client.has.get("fetchOHLCV") is True
    return tuple(text for _, text in sorted(found)) if is_offered else ()


def _candle_page(client: Any) -> int:
    spot = (client.features or {}).get("spot") or {}
    known = (spot.get("fetchOHLCV") or {}).get("limit")
    return known if isinstance(known, int) and known > 0 else _SMALL_PAGE


def _first(urls: Any, scheme: str) -> str:
    """The first address with this scheme in a tree of addresses."""
    if isinstance(urls, dict):
        return next(filter(None, (_first(below, scheme) for below in urls.values())), "")
    return urls if isinstance(urls, str) and urls.startswith(scheme) else ""
