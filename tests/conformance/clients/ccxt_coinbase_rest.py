"""ccxt's REST side of Coinbase Exchange, as its users call it."""

import json
import sys

import ccxt

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
PAGE = 300

exchange = ccxt.coinbaseexchange()

exchange.timeout = 60_000
exchange.urls["api"]["public"] = sys.argv[1]


def paged_candles(symbol: str, timeframe: str, since: int, count: int) -> list:
    """By windows of a page each: intervals without a trade have no candle."""
    rows: list = []
    step_ms = exchange.parse_timeframe(timeframe) * 1000
    for start in range(since, since + count * step_ms, PAGE * step_ms):
        rows += exchange.fetch_ohlcv(symbol, timeframe, start, PAGE)
    return rows


def paged_trades(symbol: str, pages: int, **first: str) -> list:
    """Backwards by the exchange's cursor."""
    rows: list = []
    for _ in range(pages):
        page = exchange.fetch_trades(symbol, limit=1000, params=first)
        rows = page + rows
        headers = {name.lower(): value for name, value in exchange.last_response_headers.items()}
        first = {"after": headers["cb-after"]}
    names = ("id", "timestamp", "price", "amount", "side", "symbol")
    return [[row[name] for name in names] for row in rows]


def said(call: str, *arguments: object) -> list:
    """How ccxt understands a refusal."""
    try:
        getattr(exchange, call)(*arguments)
    except ccxt.BaseError as error:
        return [type(error).__name__, str(error)]
    return []


markets = exchange.load_markets()
now = exchange.fetch_time()
hour = now - now % HOUR_MS
listed = exchange.parse8601("2021-04-09T00:00:00Z")

json.dump(
    {
        "now": now,
        "markets": {
            symbol: {name: market[name] for name in ("id", "active", "spot", "precision")}
            for symbol, market in markets.items()
        },
        "currencies": sorted(exchange.currencies),
        "candles": {
            "1m": paged_candles("BTC/USD", "1m", hour - 1200 * MINUTE_MS, 1200),
            "5m": paged_candles("1INCH/USD", "5m", listed - HOUR_MS, 900),
            "1d": paged_candles("ETH/BTC", "1d", exchange.parse8601("2016-05-18T00:00:00Z"), 1500),
        },
        "newest": exchange.fetch_ohlcv("BTC/USD", "1m"),
        "by_ccxt": exchange.fetch_ohlcv(
            "BTC/USD", "5m", hour - 2 * DAY_MS, 500, {"paginate": True}
        ),
        "trades": paged_trades("BTC/USD", pages=3),
        "first_trades": paged_trades("1INCH/USD", pages=3, after="2501"),
        "book": exchange.fetch_order_book("BTC/USD"),
        "ticker": exchange.fetch_ticker("BTC/USD"),
        "tickers": exchange.fetch_tickers(),
        "bad_symbol": said("publicGetProductsIdBook", {"id": "NO-SUCH"}),
        "bad_cursor": said("publicGetProductsIdTrades", {"id": "BTC-USD", "after": "x"}),
        "bad_granularity": said("publicGetProductsIdCandles", {"id": "BTC-USD", "granularity": 7}),
    },
    sys.stdout,
)
