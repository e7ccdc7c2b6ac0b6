"""ccxt's REST side, as its users call it: markets, candles, trades, books, tickers."""

import json
import sys

import ccxt

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
PAGE = 1000

exchange = ccxt.binance({"options": {"fetchMarkets": {"types": ["spot"]}}})

exchange.timeout = 60_000
exchange.urls["api"]["public"] = sys.argv[1] + "/api/v3"


def paged_candles(symbol: str, timeframe: str, since: int, count: int) -> list:
    rows: list = []
    while len(rows) < count:
        page = exchange.fetch_ohlcv(symbol, timeframe, since, min(PAGE, count - len(rows)))
        if not page:
            break
        rows += page
        since = page[-1][0] + 1
    return rows


def paged_trades(symbol: str, pages: int, **first: int) -> list:
    """By time or from an id, and then from id to id."""
    rows = exchange.fetch_trades(symbol, limit=PAGE, **first)
    for _ in range(pages - 1):
        following = {"fromId": int(rows[-1]["id"]) + 1}
        rows += exchange.fetch_trades(symbol, limit=PAGE, params=following)
    return [
        [row["id"], row["timestamp"], row["price"], row["amount"], row["side"], row["symbol"]]
        for row in rows
    ]


def said(call: str, *arguments: object) -> list:
    """How ccxt understands a refusal."""
    try:
        getattr(exchange, call)(*arguments)
    except ccxt.BaseError as error:
        return [type(error).__name__, str(error)]
    return []


markets = exchange.load_markets()
now = exchange.fetch_time()
day_ago = now - 24 * HOUR_MS

candles = {
    "1m": paged_candles("BTC/USDT", "1m", now - 2500 * MINUTE_MS, 2500),
    "1h": paged_candles("ETH/BTC", "1h", now - 1500 * HOUR_MS, 1500),
    "1d": paged_candles("SHIB/USDT", "1d", exchange.parse8601("2022-01-01T00:00:00Z"), 1200),
    "1w": paged_candles("BTC/USDT", "1w", exchange.parse8601("2018-01-01T00:00:00Z"), 400),
    "1M": paged_candles("BTC/USDT", "1M", exchange.parse8601("2018-01-01T00:00:00Z"), 90),
}
latest = exchange.fetch_ohlcv("BTC/USDT", "1m", limit=3)
by_ccxt = exchange.fetch_ohlcv(
    "BTC/USDT", "5m", day_ago, 2500, {"paginate": True, "until": now - HOUR_MS}
)
agg_trades = paged_trades("BTC/USDT", pages=3, since=day_ago)
books = {
    limit: exchange.fetch_order_book("BTC/USDT", limit) for limit in (5, 10, 20, 50, 100, 500, 1000)
}
books["not ASCII"] = exchange.fetch_order_book("币安人生/USDT", 100)
ticker = exchange.fetch_ticker("ETH/USDT")
tickers = exchange.fetch_tickers()
some_tickers = exchange.fetch_tickers(["BTC/USDT", "币安人生/USDT"])
best = exchange.fetch_bids_asks(["BTC/USDT"])
prices = exchange.fetch_last_prices()

# ccxt wants a key before it asks for old trades; the exchange does not look at it.
exchange.apiKey = "any"
exchange.options["fetchTradesMethod"] = "publicGetHistoricalTrades"
trades = paged_trades("BTC/USDT", pages=2, params={"fromId": int(ticker["info"]["firstId"])})

json.dump(
    {
        "now": now,
        "markets": {
            symbol: {
                "id": market["id"],
                "active": market["active"],
                "spot": market["spot"],
                "precision": market["precision"],
                "limits": market["limits"],
            }
            for symbol, market in markets.items()
        },
        "candles": candles,
        "newest": latest,
        "by_ccxt": by_ccxt,
        "agg_trades": agg_trades,
        "trades": trades,
        "books": books,
        "ticker": ticker,
        "tickers": tickers,
        "some_tickers": some_tickers,
        "best": best,
        "prices": prices,
        "bad_symbol": said("publicGetDepth", {"symbol": "NOSUCH"}),
        "bad_interval": said("publicGetKlines", {"symbol": "BTCUSDT", "interval": "7m"}),
        "missing": said("publicGetDepth", {}),
    },
    sys.stdout,
)
