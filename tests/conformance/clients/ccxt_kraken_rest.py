"""ccxt's REST side of Kraken, as its users call it: markets, candles, trades, books, tickers."""

import json
import sys

import ccxt

MARKET = ("id", "wsId", "altname", "active", "precision")

exchange = ccxt.kraken({"rateLimit": 100})

exchange.timeout = 60_000
exchange.urls["api"]["public"] = sys.argv[1]


def said(call: str, *arguments: object) -> list:
    """How ccxt understands a refusal."""
    try:
        getattr(exchange, call)(*arguments)
    except ccxt.BaseError as error:
        return [type(error).__name__, str(error)]
    return []


def paged_trades(symbol: str, since: str, pages: int) -> list:
    """From an instant on, each page after the instant that the one before ended with."""
    market, rows = exchange.market(symbol), []
    for _ in range(pages):
        answer = exchange.publicGetTrades({"pair": market["id"], "since": since})["result"]
        since = answer["last"]
        rows += exchange.parse_trades(answer[market["id"]], market)
    return rows


def told(rows: list) -> list:
    names = ("id", "timestamp", "price", "amount", "side", "symbol")
    return [[row[name] for name in names] for row in rows]


markets = exchange.load_markets()
now = exchange.fetch_time()
json.dump(
    {
        "now": now,
        "currencies": sorted(exchange.currencies),
        "markets": {
            symbol: {name: market.get(name) for name in MARKET}
            for symbol, market in markets.items()
        },
        "candles": {
            timeframe: exchange.fetch_ohlcv("BTC/USD", timeframe)
            for timeframe in ("1m", "5m", "1h", "1d", "1w")
        },
        "old_candles": exchange.fetch_ohlcv(
            "BTC/USD", "1m", exchange.parse8601("2020-01-01T00:00:00Z")
        ),
        "first_trades": told(paged_trades("ADA/USD", "0", pages=3)),
        "trades_since": told(exchange.fetch_trades("BTC/USD", now - 3_600_000, 1000)),
        "newest_trades": told(exchange.fetch_trades("BTC/USD")),
        "book": exchange.fetch_order_book("ETH/USD", 100),
        "ticker": exchange.fetch_ticker("DOGE/USD"),
        "tickers": exchange.fetch_tickers(),
        "status": exchange.fetch_status(),
        "bad_pair": said("publicGetDepth", {"pair": "NOSUCH"}),
        "bad_interval": said("publicGetOHLC", {"pair": "XBTUSD", "interval": 7}),
        "missing": said("publicGetDepth", {}),
    },
    sys.stdout,
)
