"""ccxt.pro's streams of Coinbase Exchange, watched for a few seconds side by side."""

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import ccxt.pro

SECONDS, LONGEST = 5, 40
SHOWN_LEVELS = 200
TRADED = ["BTC/USD", "ETH/USD", "SOL/USD", "XRP/USD", "LTC/USD"]


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
    # Books want a signature; the simulator looks at its form alone.
    secret = base64.b64encode(b"nobody's secret").decode()
    exchange = ccxt.pro.coinbaseexchange({"apiKey": "any", "secret": secret, "password": "any"})
    exchange.timeout = 60_000
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
            *(watch(lambda symbol=symbol: look_at_trades(symbol), trades) for symbol in TRADED),
            watch(lambda: look_at_book("SOL/USD"), books, 6),
            watch(lambda: look_at_book("1INCH/USD"), books, 6),
            watch(look_at_ticker, tickers),
        )
    finally:
        await exchange.close()
    return {"watched_trades": trades, "watched_books": books, "watched_tickers": tickers}


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
