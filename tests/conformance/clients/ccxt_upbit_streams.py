"""ccxt.pro's streams of Upbit, watched for a few seconds side by side."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import ccxt.pro

SECONDS, LONGEST = 6, 40
TRADED = ["BTC/KRW", "ETH/KRW", "XRP/KRW", "SOL/KRW"]
NAMES = ("id", "timestamp", "price", "amount", "side", "symbol")


async def watch(look: Callable[[], Awaitable[None]], seen: list, enough: int = 1) -> None:
    """Look again and again for some seconds, or for longer if too little has been seen by then.

    It ends by the clock: a library may swallow a cancellation.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        left = start + (SECONDS if len(seen) >= enough else LONGEST) - loop.time()
        if left <= 0:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(look(), left)


async def main(base: str) -> dict:
    exchange = ccxt.pro.upbit()
    exchange.timeout = 60_000
    exchange.urls["api"]["public"] = base
    exchange.urls["api"]["ws"] = base.replace("http", "ws") + "/websocket/v1"
    await exchange.load_markets()
    trades: list = []
    books: list = []
    tickers: list = []
    candles: list = []

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
        candles.append(await exchange.watch_ohlcv("BTC/KRW", "1s"))

    async def start_later(number: int, look: Callable[[], Awaitable[None]], seen: list) -> None:
        # Each start is a request on one connection, and the exchange takes five in a second.
        await asyncio.sleep(0.3 * number)
        await watch(look, seen, enough=12 if seen is books else 1)

    looks = (
        (look_at_trades, trades),
        (look_at_book, books),
        (look_at_ticker, tickers),
        (look_at_candles, candles),
    )
    try:
        await asyncio.gather(*(start_later(number, *each) for number, each in enumerate(looks)))
    finally:
        await exchange.close()
    return {
        "watched_trades": trades,
        "watched_books": books,
        "watched_tickers": tickers,
        "watched_candles": candles,
    }


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
