"""python-binance's BinanceSocketManager, as its users read it, for a few seconds side by side."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from binance import AsyncClient, BinanceSocketManager, DepthCacheManager

SECONDS, LONGEST = 5, 60
SHOWN_LEVELS = 200
TRADED = ["btcusdt", "ethusdt", "bnbusdt", "solusdt", "ethbtc", "btceur", "ltcusdt", "dogeusdt"]


async def received(opened: object, is_enough: Callable[[], bool]) -> AsyncIterator:
    """What comes for some seconds, or for longer if that is not enough.

    The clock is looked at before each frame: the library's own time-out may swallow a cancellation
    that comes at the same moment as a frame, and a loop that only waited for it would never end.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    while (left := start + (SECONDS if is_enough() else LONGEST) - loop.time()) > 0:
        with suppress(TimeoutError):
            yield await asyncio.wait_for(opened.recv(), left)


async def read(
    socket: object, is_enough: Callable[[list], bool], frames: list | None = None
) -> list:
    """What a socket gives until it is enough, and some seconds have passed."""
    frames = [] if frames is None else frames
    async with socket as opened:
        async for frame in received(opened, lambda: is_enough(frames)):
            frames.append(frame)
    return frames


def at_least(count: int) -> Callable[[list], bool]:
    return lambda frames: len(frames) >= count


def has_three_closed(frames: list) -> bool:
    return sum(frame["k"]["x"] for frame in frames) >= 3


async def read_depth_and_snapshot(client: AsyncClient, sockets: BinanceSocketManager) -> tuple:
    deltas: list = []
    taken: list = []

    def is_enough(_: list) -> bool:
        return bool(taken) and sum(d["u"] > taken[0]["lastUpdateId"] for d in deltas) >= 10

    socket = sockets.depth_socket("BTCUSDT", interval=100)
    reading = asyncio.create_task(read(socket, is_enough, deltas))
    while len(deltas) < 5:  # noqa: ASYNC110 (the library tells nobody)
        await asyncio.sleep(0.1)
    taken.append(await client.get_order_book(symbol="BTCUSDT", limit=1000))
    return taken[0], await reading


def socket_manager(client: AsyncClient) -> BinanceSocketManager:
    # The default, a hundred frames that wait, is too few on a machine that is busy for a moment.
    return BinanceSocketManager(client, max_queue_size=10_000)


async def keep_cache(client: AsyncClient) -> list:
    """The library's own book, as it stood after each delta."""
    seen = []
    manager = DepthCacheManager(
        # Sockets of its own: a manager gives the same socket to all who ask for the same stream.
        client,
        "BTCUSDT",
        bm=socket_manager(client),
        limit=1000,
        conv_type=str,
        ws_interval=100,
    )
    async with manager as opened:
        async for cache in received(opened, lambda: len(seen) >= 24):
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
    client = await AsyncClient.create(requests_params={"timeout": 60})
    sockets = socket_manager(client)
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
            read(sockets.trade_socket("BTCUSDT"), at_least(10)),
            read(sockets.multiplex_socket([f"{name}@trade" for name in TRADED]), at_least(10)),
            read_depth_and_snapshot(client, sockets),
            read(sockets.depth_socket("ETHUSDT"), at_least(4)),
            read(sockets.depth_socket("BTCUSDT", depth="20", interval=100), at_least(12)),
            read(sockets.kline_socket("BTCUSDT", interval="1s"), has_three_closed),
            read(sockets.kline_socket("ETHUSDT", interval="1m"), at_least(1)),
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
