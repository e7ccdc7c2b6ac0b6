"""ccxt.pro's streams, as its users watch them, for a few seconds side by side."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import ccxt.pro

SECONDS, LONGEST = 5, 60
SHOWN_LEVELS = 200
TRADED = ["BTC/USDT", "ETH/USDT", "BNB/USDT", "SOL/USDT", "ETH/BTC", "BTC/EUR", "LTC/USDT"]


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
    exchange = ccxt.pro.binance({"options": {"fetchMarkets": {"types": ["spot"]}}})
    exchange.timeout = 60_000
    exchange.urls["api"]["public"] = base + "/api/v3"
    exchange.urls["api"]["ws"]["spot"] = base.replace("http", "ws") + "/ws"
    await exchange.load_markets()
    trades: list = []
    books: list = []
    tickers: list = []
    mini_tickers: list = []
    candles: dict = {}

    async def look_at_trades() -> None:
        for row in await exchange.watch_trades_for_symbols(TRADED):
            seen = [row[name] for name in ("id", "timestamp", "price", "amount", "side", "symbol")]
            trades.append(seen)

    async def look_at_one_symbol() -> None:
        for row in await exchange.watch_trades("DOGE/USDT"):
            seen = [row[name] for name in ("id", "timestamp", "price", "amount", "side", "symbol")]
            trades.append(seen)

    async def look_at_book(symbol: str) -> None:
        book = await exchange.watch_order_book(symbol)
        if not books or books[-1]["nonce"] != book["nonce"]:
            bids, asks = list(book["bids"])[:SHOWN_LEVELS], list(book["asks"])[:SHOWN_LEVELS]
            # The next delta changes the very rows, so they are copied.
            books.append(
                {
                    "symbol": symbol,
                    "nonce": book["nonce"],
                    "bids": [list(row) for row in bids],
                    "asks": [list(row) for row in asks],
                }
            )

    def times_seen(symbol: str) -> int:
        return len({book["nonce"] for book in books if book["symbol"] == symbol})

    async def look_at_ticker() -> None:
        tickers.append(await exchange.watch_ticker("ETH/USDT", {"name": "ticker"}))

    async def look_at_mini_ticker() -> None:
        mini_tickers.append(await exchange.watch_ticker("BTC/USDT"))

    async def look_at_candles() -> None:
        for row in await exchange.watch_ohlcv("BTC/USDT", "1s"):
            candles[row[0]] = row[1:]

    try:
        await asyncio.gather(
            watch(look_at_trades, lambda: len(trades) > 20),
            watch(look_at_one_symbol, lambda: len(trades) > 20),
            watch(lambda: look_at_book("BTC/USDT"), lambda: times_seen("BTC/USDT") > 22),
            watch(lambda: look_at_book("币安人生/USDT"), lambda: times_seen("币安人生/USDT") > 0),
            watch(look_at_ticker, lambda: len(tickers) >= 3),
            watch(look_at_mini_ticker, lambda: len(mini_tickers) >= 3),
            watch(look_at_candles, lambda: len(candles) >= 3),
        )
    finally:
        await exchange.close()
    return {
        "watched_trades": trades,
        "watched_books": books,
        "watched_tickers": tickers,
        "watched_mini_tickers": mini_tickers,
        "watched_candles": sorted(candles.items()),
    }


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
