"""binance-connector's Spot, as its users call it."""

import json
import sys

from binance.error import ClientError
from binance.spot import Spot

# historical_trades wants a key, whatever it is; the exchange does not look at it.
client = Spot(api_key="any", base_url=sys.argv[1])
showing = Spot(base_url=sys.argv[1], show_limit_usage=True)


def refusal(call: str, *arguments: str, **options: object) -> list:
    try:
        getattr(client, call)(*arguments, **options)
    except ClientError as error:
        return [error.status_code, error.error_code, error.error_message]
    return []


now = client.time()["serverTime"]
candles = []
start = now - 2500 * 60_000
while len(candles) < 2400:
    page = client.klines("BTCUSDT", "1m", startTime=start, endTime=now, limit=1000)
    candles += page
    start = page[-1][0] + 60_000

json.dump(
    {
        "now": now,
        "ping": client.ping(),
        "usage": showing.ping()["limit_usage"],
        "info": client.exchange_info(),
        "some_info": client.exchange_info(symbols=["BTCUSDT", "SHIBUSDT"]),
        "book": client.depth("SHIBUSDT", limit=5000),
        "trades": client.trades("BTCUSDT", limit=1000),
        "old_trades": client.historical_trades("ETHBTC", fromId=123_456, limit=1000),
        "agg_trades": client.agg_trades("SHIBUSDT", fromId=1, limit=1000),
        "agg_by_time": client.agg_trades(
            "BTCUSDT", startTime=now - 3_600_000, endTime=now - 3_000_000
        ),
        "klines": candles,
        "months": client.klines("BTCUSDT", "1M", startTime=1_514_764_800_000, limit=50),
        "ui_klines": client.ui_klines("BTCUSDT", "1h", limit=10),
        "ticker": client.ticker_24hr("BTCUSDT"),
        "tickers": client.ticker_24hr(symbols=["BTCUSDT", "SHIBUSDT"]),
        "trading_day": client.trading_day_ticker("ETHUSDT"),
        "rolling": client.rolling_window_ticker("ETHUSDT", windowSize="4h"),
        "price": client.ticker_price("ETHUSDT"),
        "best": client.book_ticker("BTCUSDT"),
        "best_of_some": client.book_ticker(symbols=["BTCUSDT", "ETHUSDT"]),
        "average": client.avg_price("BTCUSDT"),
        "bad_symbol": refusal("depth", "NOSUCH"),
        "bad_interval": refusal("klines", "BTCUSDT", "7m"),
        "bad_limit": refusal("trades", "BTCUSDT", limit="many"),
        "unknown_parameter": refusal("trades", "BTCUSDT", limits=5),
        "bad_combination": refusal("agg_trades", "BTCUSDT", fromId=1, startTime=now - 1000),
    },
    sys.stdout,
)
