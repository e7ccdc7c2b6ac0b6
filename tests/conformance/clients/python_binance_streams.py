"""python-binance's BinanceSocketManager, as its users read it, for a few seconds side by side."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator

from binance import AsyncClient, BinanceSocketManager, DepthCacheManager

SECONDS = 5
SHOWN_LEVELS = 200
TRADED = ["btcusdt", "ethusdt", "bnbusdt", "solusdt", "ethbtc", "btceur", "ltcusdt", "dogeusdt"]


async def received(opened: object) -> AsyncIterator:
    """What comes until the time is up.

    The clock is looked at before each frame: the library's own time-out may swallow a cancellation
    that comes at the same moment as a frame, and a loop that only waited for it would never end.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + SECONDS
    while (left := end - loop.time()) > 0:
        try:
            yield await asyncio.wait_for(opened.recv(), left)
        except TimeoutError:
            return


async def read(socket: object) -> list:
    """What a socket gives until the time is up."""
    async with socket as opened:
        return [frame async for frame in received(opened)]


async def read_depth_and_snapshot(client: AsyncClient, sockets: BinanceSocketManager) -> tuple:
    reading = asyncio.create_task(read(sockets.depth_socket("BTCUSDT", interval=100)))
    await asyncio.sleep(2)
    snapshot = await client.get_order_book(symbol="BTCUSDT", limit=1000)
    return snapshot, await reading


async def keep_cache(client: AsyncClient) -> list:
    """The library's own book, as it stood after each delta."""
    seen = []
    manager = DepthCacheManager(client, "BTCUSDT", limit=1000, conv_type=str, ws_interval=100)
    async with manager as opened:
        async for cache in received(opened):
            bids = sorted(cache._bids.items(), key=lambda row: -float(row[0]))
            asks = sorted(cache._asks.items(), key=lambda row: float(row[0]))
            seen.append(
                {
                    "update_id": manager._last_update_id,
                    "bids": bids[:SHOWN_LEVELS],
                    "asks": asks[:SHOWN_LEVELS],
                }
            )
    return seen


async def main(base: str) -> dict:
    AsyncClient.API_URL = base + "/api"
    BinanceSocketManager.STREAM_URL = base.replace("http", "ws") + "/"
    client = await AsyncClient.create()
    sockets = BinanceSocketManager(client)
    try:
        (
            trades,
            multiplexed,
            (snapshot, deltas),
            slow,
            top,
            seconds,
            minutes,
            caches,
        ) = await asyncio.gather(
            read(sockets.trade_socket("BTCUSDT")),
            read(sockets.multiplex_socket([f"{name}@trade" for name in TRADED])),
            read_depth_and_snapshot(client, sockets),
            read(sockets.depth_socket("ETHUSDT")),
            read(sockets.depth_socket("BTCUSDT", depth="20", interval=100)),
            read(sockets.kline_socket("BTCUSDT", interval="1s")),
            read(sockets.kline_socket("ETHUSDT", interval="1m")),
            keep_cache(client),
        )
    finally:
        await client.close_connection()
    return {
        "trade_frames": trades,
        "multiplexed": multiplexed,
        "snapshot": snapshot,
        "deltas": deltas,
        "slow_deltas": slow,
        "tops": top,
        "kline_frames": seconds + minutes,
        "caches": caches,
    }


json.dump(asyncio.run(main(sys.argv[1])), sys.stdout)
