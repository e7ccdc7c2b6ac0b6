"""ccxt.pro's streams of Coinbase Exchange, watched for a few seconds side by side."""

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable

import ccxt.pro

SECONDS = 5
SHOWN_LEVELS = 200
TRADED = ["BTC/USD", "ETH/USD", "SOL/USD", "XRP/USD", "LTC/USD"]


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
    # Books want a signature; the simulator looks at its form alone.
    secret = base64.b64encode(b"nobody's secret").decode()
    exchange = ccxt.pro.coinbaseexchange({"apiKey": "any", "secret": secret, "password": "any"})
    exchange.urls["api"]["public"] = base
    exchange.urls["api"]["ws"] = base.replace("http", "ws")
    await exchange.load_markets()
    trades: list = []
    books: list = []
    tickers: list = []

    async def look_at_trades(symbol: str) -> None:
        for row in await exchange.watch_trades(symbol):
            seen = [row[name] for name in ("id", "timestamp", "price", "amount", "side", "symbol")]
            trades.append(seen)

    async def look_at_book(symbol: str) -> None:
        book = await exchange.watch_order_book(symbol)
        # The exchange's own time, to the microsecond, is what tells books apart.
        if book["timestamp"] is not None and book["timestamp"] % 100 == 0:
            bids, asks = list(book["bids"])[:SHOWN_LEVELS], list(book["asks"])[:SHOWN_LEVELS]
            # The next change is made in the very rows, so they are copied.
            books.append(
                {
                    "symbol": symbol,
                    "timestamp": book["timestamp"],
                    "bids": [list(row) for row in bids],
                    "asks": [list(row) for row in asks],
                }
            )

    async def look_at_ticker() -> None:
        tickers.append(await exchange.watch_ticker("BTC/USD"))

    try:
        await asyncio.gather(
            *(watch(lambda symbol=symbol: look_at_trades(symbol)) for symbol in TRADED),
            watch(lambda: look_at_book("SOL/USD")),
            watch(lambda: look_at_book("1INCH/USD")),
            watch(look_at_ticker),
        )
    finally:
        await exchange.close()
    return {"watched_trades": trades, "watched_books": books, "watched_tickers": tickers}


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
