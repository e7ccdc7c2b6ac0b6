"""python-binance's AsyncClient, as its users call it: history page by page, books, tickers."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator

from binance import AsyncClient
from binance.exceptions import BinanceAPIException

DAY_MS = 86_400_000


async def take(rows: AsyncIterator, most: int) -> list:
    taken = []
    async for row in rows:
        taken.append(row)
        if len(taken) == most:
            break
    return taken


async def refusal(client: AsyncClient, **query: object) -> list:
    try:
        await client.get_klines(**query)
    except BinanceAPIException as error:
        return [error.status_code, error.code, error.message]
    return []


async def main(base: str) -> dict:
    AsyncClient.API_URL = base + "/api"
    client = await AsyncClient.create(requests_params={"timeout": 60})
    try:
        now = (await client.get_server_time())["serverTime"]
        klines = await client.get_historical_klines_generator(
            "ETHUSDT", client.KLINE_INTERVAL_1MINUTE, now - DAY_MS, now
        )
        by_time = client.aggregate_trade_iter("BTCUSDT", start_str=now - DAY_MS)
        by_id = client.aggregate_trade_iter("XRPUSDT", last_id=1_000_000)
        return {
            "now": now,
            "info": await client.get_exchange_info(),
            "symbol_info": await client.get_symbol_info("DOGEUSDT"),
            "klines": [row async for row in klines],
            "weeks": await client.get_historical_klines(
                "BTCUSDT", client.KLINE_INTERVAL_1WEEK, "1 Jan, 2019", "1 Jan, 2024"
            ),
            "earliest": await client._get_earliest_valid_timestamp("BTCUSDT", "1m"),
            "agg_by_time": await take(by_time, 1700),
            "agg_by_id": await take(by_id, 1700),
            "book": await client.get_order_book(symbol="ETHBTC", limit=500),
            "trades": await client.get_recent_trades(symbol="BTCUSDT", limit=50),
            "old_trades": await client.get_historical_trades(symbol="BTCUSDT", fromId=77, limit=9),
            "ticker": await client.get_ticker(symbol="BTCUSDT"),
            "tickers": await client.get_ticker(),
            "prices": await client.get_all_tickers(),
            "best": await client.get_orderbook_tickers(),
            "average": await client.get_avg_price(symbol="BTCUSDT"),
            "bad_symbol": await refusal(client, symbol="NOSUCH", interval="1m"),
            "bad_interval": await refusal(client, symbol="BTCUSDT", interval="7m"),
            "missing": await refusal(client, symbol="BTCUSDT"),
            "lower_case": await refusal(client, symbol="btcusdt", interval="1m"),
        }
    finally:
        await client.close_connection()


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
