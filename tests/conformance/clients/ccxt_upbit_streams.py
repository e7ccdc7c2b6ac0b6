"""ccxt.pro's streams of Upbit, watched for a few seconds side by side."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

import ccxt.pro

SECONDS = 6
TRADED = ["BTC/KRW", "ETH/KRW", "XRP/KRW", "SOL/KRW"]
NAMES = ("id", "timestamp", "price", "amount", "side", "symbol")


async def watch(look: Callable[[], Awaitable[None]]) -> None:
    """Look again and again until the time is up, by the clock: a library may swallow a cancel."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SECONDS
    while (left := end - loop.time()) > 0:
        try:
            await asyncio.wait_for(look(), left)
        except TimeoutError:
            return


async def main(base: str) -> dict:
    exchange = ccxt.pro.upbit()
    exchange.urls["api"]["public"] = base
    exchange.urls["api"]["ws"] = base.replace("http", "ws") + "/websocket/v1"
    await exchange.load_markets()
    trades: list = []
    books: list = []
    tickers: list = []
    candles: dict = {}

    async def look_at_trades() -> None:
        for row in await exchange.watch_trades_for_symbols(TRADED):
            trades.append([row[name] for name in NAMES])

    async def look_at_book() -> None:
        book = await exchange.watch_order_book("BTC/KRW")
        books.append(
            {
                "timestamp": book["timestamp"],
                "bids": [list(row) for row in book["bids"]],
                "asks": [list(row) for row in book["asks"]],
            }
        )

    async def look_at_ticker() -> None:
        tickers.append(await exchange.watch_ticker("BTC/KRW"))

    async def look_at_candles() -> None:
        row = await exchange.watch_ohlcv("BTC/KRW", "1s")
        candles[row[0]] = row[1:]

    async def start_later(number: int, look: Callable[[], Awaitable[None]]) -> None:
        # Each start is a request on one connection, and the exchange takes five in a second.
        await asyncio.sleep(0.3 * number)
        await watch(look)

    looks = (look_at_trades, look_at_book, look_at_ticker, look_at_candles)
    try:
        await asyncio.gather(*(start_later(*each) for each in enumerate(looks)))
    finally:
        await exchange.close()
    return {
        "watched_trades": trades,
        "watched_books": books,
        "watched_tickers": tickers,
        "watched_candles": sorted(candles.items()),
    }


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
