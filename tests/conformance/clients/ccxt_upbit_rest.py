"""ccxt's REST side of Upbit, as its users call it."""

import json
import sys

import ccxt

DAY_MS = 86_400_000
PAGE = 200

# ccxt paces all groups together; a group's ten a second is what the exchange allows.
exchange = ccxt.upbit({"rateLimit": 110})
exchange.timeout = 60_000
exchange.urls["api"]["public"] = sys.argv[1]
NAMES = ("id", "timestamp", "price", "amount", "side", "symbol")


def paged_candles(symbol: str, timeframe: str, pages: int, to: str) -> list:
    """Backwards, each page up to the oldest candle of the last."""
    rows: list = []
    for _ in range(pages):
        page = exchange.fetch_ohlcv(symbol, timeframe, limit=PAGE, params={"to": to})
        if not page:
            break
        rows = page + rows
        to = exchange.iso8601(page[0][0])
    return rows


def paged_trades(symbol: str, pages: int, **params: object) -> list:
    """Backwards by the exchange's cursor."""
    rows: list = []
    for _ in range(pages):
        page = exchange.fetch_trades(symbol, limit=500, params=params)
        if not page:
            break
        rows = page + rows
        params["cursor"] = page[0]["id"]
    return [[row[name] for name in NAMES] for row in rows]


def said(call: str, *arguments: object) -> list:
    """How ccxt understands a refusal."""
    try:
        getattr(exchange, call)(*arguments)
    except ccxt.BaseError as error:
        return [type(error).__name__, str(error)]
    return []


markets = exchange.load_markets()
now = exchange.iso8601(exchange.milliseconds())

json.dump(
    {
        "markets": {symbol: market["id"] for symbol, market in markets.items()},
        "candles": {
            "1m": paged_candles("BTC/KRW", "1m", 5, now),
            "1s": paged_candles("ETH/KRW", "1s", 2, now),
            "1d": paged_candles("BTC/KRW", "1d", 40, now),
            "1w": paged_candles("XRP/BTC", "1w", 40, now),
            "1M": paged_candles("ETH/KRW", "1M", 2, now),
        },
        "since": exchange.fetch_ohlcv(
            "BTC/KRW", "1h", exchange.parse8601("2025-01-01T00:00:00Z"), PAGE
        ),
        "trades": paged_trades("BTC/KRW", 4, days_ago=1),
        "newest_trades": paged_trades("SHIB/KRW", 1),
        "book": exchange.fetch_order_book("BTC/KRW"),
        "books": exchange.fetch_order_books(["XRP/BTC", "ETH/KRW"]),
        "ticker": exchange.fetch_ticker("BTC/KRW"),
        "tickers": exchange.fetch_tickers(),
        "some_tickers": exchange.fetch_tickers(["XRP/BTC", "ETH/KRW"]),
        "bad_market": said("publicGetOrderbook", {"markets": "KRW-NO"}),
        "missing": said("publicGetTicker", {}),
        "remaining": exchange.last_response_headers["Remaining-Req"],
    },
    sys.stdout,
)
