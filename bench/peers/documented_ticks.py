"""The other side of the ticks benchmark: each tick stored as the ticker service's document says.

One client with a pool of connections. For each tick, one after the other and each awaited: PING and
HSET, PING and SET with a TTL, PING and PUBLISH. A tick is serialized once, as fast as ours is, so
that what is compared is the way to the store.
"""

import asyncio
import gc
import sys
import time
from pathlib import Path

import msgspec
from bench.inputs.ticks import read_ticks
from redis.asyncio import Redis

from penstock.market.codec import encode, json_of
from penstock.market.events import Ticker

TTL_S = 300


async def store(redis: Redis, ticker: Ticker) -> None:
    exchange, symbol, value = ticker.exchange, ticker.symbol.unified, json_of(encode(ticker))
    await redis.ping()
    await redis.hset(f"tickers:{exchange}", symbol, value)
    await redis.ping()
    await redis.set(f"tick:{exchange}:{symbol}", value, ex=TTL_S)
    await redis.ping()
    await redis.publish(f"ticks:{exchange}", value)


async def store_all(url: str, ticks: list[Ticker]) -> dict[str, float]:
    async with Redis.from_url(url) as redis:
        await redis.ping()
        gc.collect()
        cpu_s, wall_s = time.process_time(), time.monotonic()
        for ticker in ticks:
            await store(redis, ticker)
        return {
            "cpu_s": time.process_time() - cpu_s,
            "wall_s": time.monotonic() - wall_s,
            "ticks": len(ticks),
            "superseded": 0,
        }


def main() -> None:
    folder, url = sys.argv[1:]
    ticks = read_ticks(Path(folder))
    for line in sys.stdin:
        answer = asyncio.run(store_all(url, ticks[: int(line)]))
        print(msgspec.json.encode(answer).decode(), flush=True)


if __name__ == "__main__":
    main()
