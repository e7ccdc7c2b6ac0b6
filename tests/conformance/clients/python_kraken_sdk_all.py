"""python-kraken-sdk: its REST client, its streams, and its order books, which check checksums."""

import asyncio
import json
import sys
import time
from collections.abc import Callable

from kraken.exceptions import KrakenUnknownAssetError
from kraken.spot import Market, SpotOrderBookClient, SpotWSClient
from kraken.spot.websocket import SpotWSClientBase

SECONDS, LONGEST = 3, 60
PAIRS = ["BTC/USD", "ETH/USD"]

base = sys.argv[1]
Market.URL = base  # the order books make a client of their own, and tell it nothing
SpotWSClientBase.WS_URL = base.replace("http", "ws")


class Books(SpotOrderBookClient):
    """Keeps what each update left."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth=depth)
        self.seen: list = []

    async def on_book_update(self, pair: str, message: dict) -> None:
        book = self.get(pair)
        if "error" in message or message["type"] == "snapshot":
            self.seen.append({"pair": pair, "snapshot": "error" not in message})
            return
        self.seen.append(
            {
                "pair": pair,
                "timestamp": message["data"][0]["timestamp"],
                "valid": book["valid"],
                "bids": [[price, volume] for price, (volume, _) in book["bid"].items()],
                "asks": [[price, volume] for price, (volume, _) in book["ask"].items()],
            }
        )


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST):
        while not true():  # noqa: ASYNC110 (the library tells nobody)
            await asyncio.sleep(0.1)


def count(frames: list, key: str, value: str) -> int:
    return sum(frame.get(key) == value for frame in frames)


async def look_at_books(depth: int) -> list:
    async with Books(depth) as books:
        await books.start()
        await books.add_book(pairs=PAIRS)
        await asyncio.sleep(SECONDS)
        await until(lambda: all(sum(e["pair"] == pair for e in books.seen) > 20 for pair in PAIRS))
        return list(books.seen)


async def look_at_channels() -> list:
    frames: list = []

    async def keep(message: dict) -> None:
        frames.append(message)

    async with SpotWSClient(callback=keep) as client:
        await client.start()
        for params in (
            {"channel": "trade", "symbol": PAIRS, "snapshot": True},
            {"channel": "ticker", "symbol": PAIRS},
            {"channel": "ohlc", "symbol": PAIRS, "interval": 1},
            {"channel": "instrument"},
        ):
            await client.subscribe(params=params)
        await until(lambda: count(frames, "channel", "heartbeat") >= 5)
        await until(lambda: count(frames, "method", "subscribe") == 7)
        await until(lambda: count(frames, "channel", "instrument") == 1)
        await asyncio.sleep(SECONDS)
        await client.unsubscribe(params={"channel": "trade", "symbol": PAIRS})
        await until(lambda: count(frames, "method", "unsubscribe") == 2)
        return frames


async def streams() -> dict:
    ten, hundred, frames = await asyncio.gather(
        look_at_books(10), look_at_books(100), look_at_channels()
    )
    return {"books": {10: ten, 100: hundred}, "frames": frames}


def refused(pair: str) -> bool:
    try:
        market.get_ticker(pair=pair)
    except KrakenUnknownAssetError:
        return True
    return False


market = Market()
trades, since = [], 0
for _ in range(3):
    page = market.get_recent_trades(pair="XTZUSD", since=since)
    trades += page["XTZUSD"]
    since = page["last"]


def ask(name: str, **parameters: object) -> dict:
    """Slowly: a request a second is always safe."""
    time.sleep(0.5)
    return getattr(market, name)(**parameters)


json.dump(
    {
        "assets": ask("get_assets", assets=["XBT", "USD"]),
        "pairs": ask("get_asset_pairs", pair=["XBTUSD", "ETHUSD"]),
        "ohlc": ask("get_ohlc", pair="XBTUSD", interval=60),
        "book": ask("get_order_book", pair="XBTUSD", count=10),
        "ticker": ask("get_ticker", pair="XBTUSD"),
        "spreads": ask("get_recent_spreads", pair="XBTUSD"),
        "status": ask("get_system_status"),
        "trades": trades,
        "refused": refused("NOSUCH"),
        **asyncio.run(streams()),
    },
    sys.stdout,
)
