"""Our sides of the ticks benchmark: ticks that were recorded are offered to a ``TickWriter``.

``SIDE FOLDER`` writes; the side ``nothing`` only offers. Each line it reads is JSON: to which
store, how many ticks to offer, and at which rate. Those that are not offered at a rate are offered
100 at a time, about what a collector decodes at once, and not while 10,000 of them wait. It answers
when all are written. ``reader`` subscribes instead, to the store in the line it reads; the next
line says when the last tick was due, and it answers with what it saw once it has that.

A tick's time of receipt is the instant at which it is due, so a latency includes the time by which
it was offered late.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from bench.inputs.ticks import read_ticks
from msgspec.structs import replace

from penstock.clock import SystemClock
from penstock.live import TickCache, TickWriter
from penstock.live.tick_cache import key_of
from penstock.market.events import Ticker

INTERVAL_S = 0.01
AT_ONCE, MOST_WAITING = 100, 10_000
SECOND_NS = 1_000_000_000
PATIENCE_S = 30
_LEAD_NS = SECOND_NS // 2
"""From when ticks are made until the first is due."""

Seen = tuple[str, int, int]
"""A market, when its tick was due, and when a subscriber had it."""


class Question(msgspec.Struct):
    url: str
    """Of the store."""
    ticks: int
    rate: float | None = None


class Offered(Protocol):
    @property
    def waiting(self) -> int: ...

    def offer(self, ticker: Ticker) -> None: ...


class Feeder:
    """Offers ticks."""

    def __init__(self, writer: Offered, ticks: Sequence[Ticker]) -> None:
        self._writer, self._ticks = writer, ticks

    async def offer_all(self) -> None:
        """As fast as they are written."""
        for start in range(0, len(self._ticks), AT_ONCE):
            for ticker in self._ticks[start : start + AT_ONCE]:
                self._writer.offer(ticker)
            await asyncio.sleep(0)
            while self._writer.waiting > MOST_WAITING:  # noqa: ASYNC110 - it has no such event
                await asyncio.sleep(0.001)

    async def offer_in_time(self) -> None:
        """Each when it is due, a millisecond late at most if the machine has time."""
        offered = 0
        while offered < len(self._ticks):
            now_ns = time.time_ns()
            while offered < len(self._ticks) and self._ticks[offered].received_at_ns <= now_ns:
                self._writer.offer(self._ticks[offered])
                offered += 1
            await asyncio.sleep(0.001)


class Nothing:
    """Takes ticks and does nothing with them: what offering them costs."""

    waiting = 0

    def offer(self, ticker: Ticker) -> None:
        """Forget it."""


async def feed(writer: Offered, ticks: Sequence[Ticker], rate: float | None) -> None:
    feeder = Feeder(writer, ticks)
    await (feeder.offer_in_time() if rate else feeder.offer_all())


def due_at(rate: float | None, recorded: Sequence[Ticker]) -> list[Ticker]:
    """The ticks with the times at which they are due, which begin soon."""
    first_ns = time.time_ns() + (_LEAD_NS if rate else 0)
    step_ns = SECOND_NS / rate if rate else 0
    return [
        replace(ticker, received_at_ns=first_ns + round(number * step_ns))
        for number, ticker in enumerate(recorded)
    ]


async def wait_for(ticker: Ticker) -> None:
    """Wait until it is due."""
    await asyncio.sleep(max(ticker.received_at_ns - time.time_ns(), 0) / SECOND_NS)


async def only_feed(recorded: Sequence[Ticker], rate: float | None) -> object:
    """Offer ticks to nothing."""
    ticks = due_at(rate, recorded)
    gc.collect()
    await wait_for(ticks[0])
    cpu_s, wall_s = time.process_time(), time.monotonic()
    await feed(Nothing(), ticks, rate)
    cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
    return {"cpu_s": cpu_s, "wall_s": wall_s, "ticks": len(ticks), "superseded": 0}


async def write(url: str, coalesce: bool, recorded: Sequence[Ticker], rate: float | None) -> object:
    """Write ticks, and say what it took and what became of them."""
    clock, ticks = SystemClock(), due_at(rate, recorded)
    async with TickCache(url, clock=clock) as cache:
        writer = TickWriter(cache, clock, coalesce=coalesce, interval_s=INTERVAL_S)
        running = asyncio.create_task(writer.run())
        gc.collect()
        await wait_for(ticks[0])
        cpu_s, wall_s = time.process_time(), time.monotonic()
        await feed(writer, ticks, rate)
        await writer.drain()
        cpu_s, wall_s = time.process_time() - cpu_s, time.monotonic() - wall_s
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        counts, found = writer.counts, await cache.get_all()
    newest = {(each.exchange, each.symbol): each for each in ticks}
    stored = {(each.exchange, each.symbol): each.ticker for each in found}
    assert stored == newest, "not the newest tick of every market is stored"
    assert counts.offered == counts.written + counts.superseded, counts
    assert coalesce or counts.written == len(ticks), counts
    return {
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "ticks": len(ticks),
        "superseded": counts.superseded,
        "batches": counts.batches,
        "due": [(key_of(each.exchange, each.symbol), each.received_at_ns) for each in ticks]
        if rate
        else [],
    }


class Reader:
    """Notes every tick that a subscriber gets, until it has the last one."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []
        self._more = asyncio.Event()

    async def read(self, url: str) -> None:
        async with TickCache(url) as cache, cache.subscribe() as batches:
            async for batch in batches:
                now_ns = time.time_ns()
                self._seen += (
                    (key_of(each.exchange, each.symbol), each.ticker.received_at_ns, now_ns)
                    for each in batch
                )
                self._more.set()

    async def answer(self) -> None:
        """The first line of each pair is the store, the second when the last tick was due."""
        loop = asyncio.get_running_loop()
        while url := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            self._seen = []
            reading = asyncio.create_task(self.read(url))
            _say({"subscribed": True})
            last_ns = int(await loop.run_in_executor(None, sys.stdin.readline))
            async with asyncio.timeout(PATIENCE_S):
                while not any(due_ns >= last_ns for _, due_ns, _ in self._seen):
                    self._more.clear()
                    await self._more.wait()
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            _say({"seen": self._seen})


def _say(answer: object) -> None:
    print(msgspec.json.encode(answer).decode(), flush=True)


def main() -> None:
    if sys.argv[1] == "reader":
        asyncio.run(Reader().answer())
        return
    side, folder = sys.argv[1:]
    recorded = read_ticks(Path(folder))
    for line in sys.stdin:
        asked = msgspec.json.decode(line, type=Question)
        ticks = recorded[: asked.ticks]
        if side == "nothing":
            _say(asyncio.run(only_feed(ticks, asked.rate)))
        else:
            _say(asyncio.run(write(asked.url, side == "coalesced", ticks, asked.rate)))


if __name__ == "__main__":
    main()
