"""A simulated exchange, a data folder, and workers that fill the gaps of one market."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.quick_limits import simulated_limits
from tests.waiting import PATIENCE_S

from penstock.app.simulator import build_simulator
from penstock.app.worker import open_worker
from penstock.clock import SystemClock
from penstock.config import Collect, Exchanges, Jobs, Requests, Settings, Simulator
from penstock.coverage.gap_rows import GapRows
from penstock.market.events import AggTrade, Trade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store


class Filled:
    """A simulated exchange, a data folder, and the gaps of one market."""

    def __init__(self, name: str, slug: str, settings: Settings, address: str) -> None:
        self.name, self.slug, self.settings, self.address = name, slug, settings, address
        self.store: StateStore
        self.gaps: GapRows

    async def latest_id(self) -> int:
        """An id shortly before the present."""
        now_ms = (await self.ask("state"))["at_ms"]
        return (
            int((await self.ask("ledger/ids", symbol=self.slug, at_ms=now_ms))["next_trade_id"]) - 1
        )

    async def ask(self, question: str, **query: str | int) -> Any:
        url = f"{self.address}/_sim/{question}"
        async with ClientSession() as http, http.get(url, params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def truth(self, first: int, last: int) -> list[tuple[int, str, str]]:
        rows: list[Any] = []
        for start in range(first, last + 1, 5000):
            limit = min(5000, last + 1 - start)
            page = await self.ask("ledger/trades", symbol=self.slug, from_id=start, limit=limit)
            rows += page["trades"]
        return [(row["id"], row["price"], row["quantity"]) for row in rows]

    def stored(self, channel: str = "trades") -> list[Trade | AggTrade]:
        reader = open_log(f"rocksdb:{self.settings.collect.data_dir}").reader()
        found = [each.event for each in reader.scan(Stream(self.name, channel, self.slug))]
        reader.close()
        return [each for each in found if isinstance(each, Trade | AggTrade)]

    async def work(self, until: Callable[[], Awaitable[bool]], workers: int = 1) -> None:
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(open_worker(self.settings, SystemClock()))
                for _ in range(workers)
            ]
            working = [asyncio.create_task(worker.run(stop)) for worker in opened]
            async with asyncio.timeout(PATIENCE_S):
                while not await until():
                    assert not any(each.done() for each in working)
                    await asyncio.sleep(0.1)
            stop.set()
            await asyncio.gather(*working)

    async def is_closed(self) -> bool:
        return not await self.gaps.find(state="open")


Open = Callable[..., Awaitable[Filled]]


@pytest.fixture
async def opened(tmp_path: Path, quick_kraken: None) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_(name: str, slug: str, **simulator: Any) -> Filled:
            wide = Simulator(
                port=0, symbols=(slug,), uplink_ms=0, latency_ms=1,
                limits=simulated_limits(name), **simulator,
            )  # fmt: skip
            server = build_simulator(wide, SystemClock(), exchange=name)
            await server.start()
            stack.push_async_callback(server.stop)
            address = f"http://{server.address}"
            settings = Settings(
                exchanges=Exchanges(rest_urls={name: address}),
                requests=Requests(guard_ms=50),
                collect=Collect(data_dir=str(tmp_path / "data")),
                jobs=Jobs(poll_interval=0.2, gap_watch=0.3, first_delay=0.05),
            )
            (tmp_path / "data").mkdir(exist_ok=True)
            filled = Filled(name, slug, settings, address)
            filled.store = await open_store(f"sqlite:{tmp_path}/data/state.db")
            stack.push_async_callback(filled.store.close)
            filled.gaps = GapRows(filled.store)
            return filled

        yield open_
