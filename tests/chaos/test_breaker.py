"""Three processes whose exchange fails stop within a second, and probe it once in each cooldown.

A server answers, fails, or leaves requests without an answer, and notes when each arrived. Three
processes with fifty tasks each send to it without a pause. After it failed, nothing arrives but one
probe in each cooldown. A process that is killed while it probes is replaced by another. When the
server answers again, no window exceeds its limit. ``make chaos-breaker`` does it for 100 rounds.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from aiohttp import web
from tests.chaos import breaker_client
from tests.chaos.breaker_client import COOLDOWN_S
from tests.forked import python
from tests.waiting import PATIENCE_S

from penstock.connectors import ConnectorManager
from penstock.connectors.breaker import breaker_of
from penstock.resilience.breaker import Breaker
from penstock.storage.state import StateStore, open_store
from penstock.throttle.gate import Limit

ROUNDS = int(os.environ.get("PENSTOCK_TEST_ROUNDS") or 6)
PROCESSES = 3
AMOUNT, PERIOD_MS = 200, 2_000


class Server:
    """An exchange that fails when it is told to."""

    def __init__(self) -> None:
        self.mode: Literal["answers", "fails", "hangs"] = "answers"
        self.hits: list[float] = []
        self.url = ""

    async def answer(self, _: web.Request) -> web.Response:
        self.hits.append(time.time())
        if self.mode == "hangs":
            await asyncio.sleep(PATIENCE_S)
        return web.json_response({}, status=200 if self.mode == "answers" else 503)

    def since(self, at: float) -> int:
        return sum(hit >= at for hit in self.hits)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield
        finally:
            await runner.cleanup()


class Scene:
    """The processes, their store and their server."""

    def __init__(self, store: StateStore, store_url: str, server: Server) -> None:
        self.store, self.store_url, self.server = store, store_url, server
        self.children: dict[int, subprocess.Popen[str]] = {}

    def start(self) -> None:
        child = python(str(Path(breaker_client.__file__)), self.store_url, self.server.url)
        self.children[child.pid] = child

    async def until(self, holds: Callable[[Breaker], bool]) -> Breaker:
        async with asyncio.timeout(PATIENCE_S + 2 * ROUNDS * COOLDOWN_S):
            while not holds(  # noqa: ASYNC110
                found := await breaker_of(self.store, "binance")
            ):
                await asyncio.sleep(0.01)
        return found

    async def fail(self) -> float:
        """Let the server fail; the time at which the breaker opened."""
        self.server.mode = "fails"
        found = await self.until(lambda breaker: breaker.phase == "open")
        return found.transitions[-1].at_ms / 1000

    async def recover(self) -> None:
        self.server.mode = "answers"
        await self.until(lambda breaker: breaker.phase == "closed")


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    url, server = f"sqlite:{folder / 'state.db'}", Server()
    store = await open_store(url)
    await ConnectorManager(store).ensure_connector("binance", [Limit(AMOUNT, PERIOD_MS)])
    async with server.running():
        made = Scene(store, url, server)
        try:
            for _ in range(PROCESSES):
                made.start()
            async with asyncio.timeout(PATIENCE_S):
                while len(server.hits) < AMOUNT:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            yield made
        finally:
            for child in made.children.values():
                child.kill()
                child.wait()
            await store.close()


async def test_one_probe_is_sent_in_each_cooldown_and_no_burst_after_it(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        opened = await made.fail()
        await made.until(lambda breaker: breaker.opened == ROUNDS + 1)
        # Every process has stopped a second after it opened; the cooldown is longer.
        assert COOLDOWN_S > 1
        probes = made.server.since(opened + 1)
        print(f"\n{probes} probes in {ROUNDS} rounds")
        assert probes == ROUNDS

        await made.recover()
        closed = time.time()
        while made.server.since(closed) < 3 * AMOUNT:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        windows = Counter(int(hit * 1000) // PERIOD_MS for hit in made.server.hits)
        print(f"most in a window: {max(windows.values())} of {AMOUNT}")
        assert max(windows.values()) <= AMOUNT


def _probed_after(fence: int, breaker: Breaker) -> bool:
    return breaker.fence > fence


async def test_a_prober_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        await made.fail()
        made.server.mode = "hangs"
        for _ in range(2):
            probing = await made.until(lambda breaker: breaker.probe_by != "")
            pid = int(probing.probe_by.rpartition("/")[2])
            made.children[pid].send_signal(signal.SIGKILL)
            await made.until(partial(_probed_after, probing.fence))
        await made.recover()
