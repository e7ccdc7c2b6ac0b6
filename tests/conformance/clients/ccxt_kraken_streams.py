"""ccxt.pro's streams of Kraken, as its users watch them, for a few seconds side by side."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import ccxt.pro

SECONDS, LONGEST = 6, 60


async def watch(look: Callable[[], Awaitable[None]], is_enough: Callable[[], bool]) -> None:
    """Look again and again for some seconds, or for longer if too little has been seen by then.

    It ends by the clock: a library may swallow a cancellation.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    while (left := start + (SECONDS if is_enough() else LONGEST) - loop.time()) > 0:
        with suppress(TimeoutError):
            await asyncio.wait_for(look(), left)


async def main(base: str) -> dict:
    exchange = ccxt.pro.kraken({"rateLimit": 100})
    exchange.timeout = 60_000
    exchange.urls["api"]["public"] = base
    exchange.urls["api"]["ws"]["publicV2"] = base.replace("http", "ws") + "/v2"
    await exchange.load_markets()
    trades: list = []
    books: list = []
    tickers: list = []
    candles: list = []

    async def look_at_trades() -> None:
        for row in await exchange.watch_trades_for_symbols(["BTC/USD", "ETH/USD"]):
            seen = [row[name] for name in ("id", "timestamp", "price", "amount", "side", "symbol")]
            trades.append(seen)

    async def look_at_book(symbol: str, limit: int) -> None:
        book = await exchange.watch_order_book(symbol, limit)
        books.append(
            {
                "symbol": symbol,
                "timestamp": book["timestamp"],
                # The next update changes the very rows, so they are copied.
                "bids": [list(row) for row in book["bids"]],
                "asks": [list(row) for row in book["asks"]],
            }
        )

    def times_seen(symbol: str) -> int:
        return len({book["timestamp"] for book in books if book["symbol"] == symbol})

    async def look_at_ticker() -> None:
        tickers.append(await exchange.watch_ticker("BTC/USD"))

    async def look_at_candles() -> None:
        candles.append(await exchange.watch_ohlcv("BTC/USD", "1m"))

    try:
        await asyncio.gather(
            watch(look_at_trades, lambda: len(trades) > 5),
            watch(lambda: look_at_book("BTC/USD", 10), lambda: times_seen("BTC/USD") > 22),
            watch(lambda: look_at_book("ETH/USD", 100), lambda: times_seen("ETH/USD") > 0),
            watch(look_at_ticker, lambda: len(tickers) > 6),
            watch(look_at_candles, lambda: len(candles) > 0),
        )
    finally:
        await exchange.close()
    return {
        "watched_trades": trades,
        "watched_books": books,
        "watched_tickers": tickers,
        "watched_candles": candles,
    }


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
