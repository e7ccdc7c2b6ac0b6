"""Four exchanges whose surroundings fail, one after the other: no process ends, nothing is lost.

Each exchange has a simulator and a collector, all processes of their own; the collectors share a
data folder on a small disk and the state store in it. In an order drawn from a seed the state store
is locked, the connectors are paused, the disk is filled, and the collectors are stopped (SIGSTOP)
for longer than a connection may be silent. While it lasts, status and metrics must name what is
wrong; afterwards both must be clean again. In the end what was collected is held against the
ledgers. ``make chaos-surroundings`` does this for five minutes; ``SEED=…`` repeats a run.
"""

import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from penstock.cli.processes import running
from penstock.clock import SystemClock
from penstock.config import Settings, State
from penstock.connectors import ConnectorManager
from penstock.runtime.stores import open_state
from penstock.simulator import registry

from .test_streams import Subject, choose, judge, until_synced

SEED = int(os.environ.get("PENSTOCK_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 36)
SYMBOLS = int(os.environ.get("PENSTOCK_TEST_SYMBOLS") or 2)
STOPS = max(1, min(10, round(SECONDS / 30)))
STOP_S = 9.0
LASTS_S = max(5.0, (SECONDS - STOPS * (STOP_S + 1)) / 4)
"""How long each of the other disturbances lasts."""
START_S, CALM_S, POLL_S = 90.0, 90.0, 0.5
DISK = "size=1g"


@dataclass
class Place:
    """What the collectors share."""

    folder: Path
    has_disk: bool
    """Whether the folder is a file system of its own."""

    @property
    def state(self) -> Path:
        return self.folder / "state.db"


@dataclass
class Watched:
    """One exchange under test, and where its collector shows metrics."""

    subject: Subject
    metrics_port: int

    @property
    def name(self) -> str:
        return self.subject.exchange

    def troubles(self) -> set[str]:
        """What is wrong by its status, which must be fresh."""
        status = self.subject.status()
        assert status is not None
        age_s = time.time() - status.at_ms / 1000
        return set(status.troubles) if age_s < 4 else {"an old status"}

    async def measured(self, http: aiohttp.ClientSession) -> set[str]:
        """What is wrong by its metrics."""
        async with http.get(f"http://127.0.0.1:{self.metrics_port}/metrics") as answer:
            text = await answer.text()
        return set(re.findall(r'^penstock_trouble\{.*kind="(\w+)"\} 1\.0$', text, re.MULTILINE))

    def check(self) -> None:
        """It has not ended."""
        assert self.subject.collector.returncode is None, f"{self.name} has ended (seed {SEED})"


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    """A folder on a disk of its own, where that is allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(folder)]
    is_root = os.geteuid() == 0
    has_disk = is_root and not subprocess.run(mount, capture_output=True, check=False).returncode
    if not has_disk:
        print("the disk is not filled: only an administrator can mount a small one")
    try:
        yield Place(folder, has_disk)
    finally:
        if has_disk:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


async def start(stack: AsyncExitStack, exchange: str, shared: Place) -> Watched:
    symbols = choose(exchange, SYMBOLS)
    listing = ["--symbols", ",".join(symbols), "--seed", str(SEED % 1000), "--port", "0", "--json"]
    simulator = await stack.enter_async_context(running(["sim", exchange, *listing], {}))
    assert simulator.stdout is not None
    line = await asyncio.wait_for(simulator.stdout.readline(), START_S)
    address, port = json.loads(line)["listening"], free_port()
    environment = {
        "PENSTOCK_EXCHANGES_REST_URLS": f"{exchange}={address}",
        "PENSTOCK_EXCHANGES_STREAM_URLS": f"{exchange}={address}",
        "PENSTOCK_COLLECT_DATA_DIR": str(shared.folder),
        "PENSTOCK_COLLECT_BOOK_EVERY": "1",
        "PENSTOCK_COLLECT_AUDIT_EVERY": "20",
        "PENSTOCK_STATE_URL": f"sqlite:{shared.state}",
        "PENSTOCK_STATE_PATIENCE": "1",
        "PENSTOCK_METRICS_PORT": str(port),
    }
    collector = await stack.enter_async_context(
        running(["collect", exchange, *symbols], environment)
    )
    return Watched(Subject(exchange, address, shared.folder, symbols, collector), port)


# What happens to them. Each lasts as long as its block.


@asynccontextmanager
async def store_locked(shared: Place, _all: Sequence[Watched]) -> AsyncIterator[None]:
    """Another process writes to the state store, and does not finish."""
    other = sqlite3.connect(shared.state, timeout=30, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@asynccontextmanager
async def connectors_paused(shared: Place, watched: Sequence[Watched]) -> AsyncIterator[None]:
    settings = Settings(state=State(url=f"sqlite:{shared.state}"))
    async with open_state(settings, SystemClock()) as store:
        manager = ConnectorManager(store)
        for each in watched:
            await manager.pause_connector(each.name)
        try:
            yield
        finally:
            for each in watched:
                await manager.resume_connector(each.name)


@asynccontextmanager
async def disk_filled(shared: Place, _all: Sequence[Watched]) -> AsyncIterator[None]:
    ballast = shared.folder / "ballast"

    async def fill() -> None:
        with ballast.open("ab", buffering=0) as file:
            while True:  # what somebody else gives back is taken too
                with suppress(OSError):
                    while shutil.disk_usage(shared.folder).free:
                        file.write(bytes(min(1 << 20, shutil.disk_usage(shared.folder).free)))
                await asyncio.sleep(0.1)

    filling = asyncio.create_task(fill())
    try:
        yield
    finally:
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        ballast.unlink()


Disturbance = Callable[[Place, Sequence[Watched]], Any]
DISTURBANCES: dict[str, tuple[Disturbance, str]] = {
    "store": (store_locked, "asking"),
    "pause": (connectors_paused, "asking"),
    "disk": (disk_filled, "log"),
}
"""Each with the kind of trouble that status and metrics must name meanwhile."""


async def until(
    watched: Sequence[Watched],
    true: Callable[[set[str]], bool],
    http: aiohttp.ClientSession,
    what: str,
) -> None:
    """Wait until status and metrics of all say the same, and it is as wanted."""
    give_up_s = time.monotonic() + CALM_S
    for each in watched:
        while True:
            each.check()
            said = each.troubles()
            if true(said) and said == await each.measured(http):
                break
            assert time.monotonic() < give_up_s, f"{each.name}: {what}: {said} (seed {SEED})"
            await asyncio.sleep(POLL_S)


async def disturb(
    name: str, shared: Place, watched: Sequence[Watched], http: aiohttp.ClientSession
) -> None:
    disturbance, kind = DISTURBANCES[name]
    async with disturbance(shared, watched):
        ends_s = time.monotonic() + LASTS_S
        await until(watched, lambda said: kind in said, http, f"does not tell of {name}")
        while time.monotonic() < ends_s:
            for each in watched:
                each.check()
                assert each.troubles() & {kind, "an old status"}, f"{each.name} forgot {name}"
            await asyncio.sleep(POLL_S)
    await until(watched, lambda said: not said, http, f"{name} is over")


async def stop_and_continue(watched: Sequence[Watched]) -> None:
    """Let no collector run for a while."""
    pids = [each.subject.collector.pid for each in watched]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(STOP_S)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(1.0)


async def survive(shared: Place) -> dict[str, Any]:
    chance = random.Random(SEED)
    plan = ["store", "pause", *(["disk"] if shared.has_disk else []), *["stop"] * STOPS]
    chance.shuffle(plan)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        watched = [await start(stack, name, shared) for name in registry.names()]
        subjects = [each.subject for each in watched]
        await until_synced(subjects, START_S)
        for name in plan:
            if name == "stop":
                await stop_and_continue(watched)
            else:
                await disturb(name, shared, watched, http)
        await until(watched, lambda said: not said, http, "all is over")
        await until_synced(subjects, CALM_S)
        for each in watched:
            each.check()
            each.subject.collector.terminate()
        for each in watched:
            assert await each.subject.collector.wait() == 0, each.name
        return {
            "plan": plan,
            "exchanges": {each.name: await report_on(each.subject) for each in watched},
        }


async def report_on(subject: Subject) -> dict[str, Any]:
    status = subject.status()
    assert status is not None
    return {
        "state": status.state,
        "trouble": status.trouble,
        "reconnects": status.reconnects,
        "not_synced": subject.not_synced(),
        "findings": await judge(subject),
    }


async def test_whatever_happens_around_them_no_process_ends_and_every_hole_is_named(
    tmp_path: Path,
) -> None:
    with place(tmp_path / "data") as shared:
        reports = await survive(shared)
    print(json.dumps({"seed": SEED, "seconds": SECONDS, **reports}))
    for exchange, report in reports["exchanges"].items():
        findings = report["findings"]
        assert (report["state"], report["trouble"]) == ("stopped", ""), (SEED, exchange, report)
        assert findings["trades"] > 0, (SEED, exchange)
        assert findings["books_checked"] > 0, (SEED, exchange)
        for wrong in (
            "trades_duplicated", "trades_wrong", "gaps_unlisted", "gaps_untrue", "book_mismatches",
            "http_429", "http_418",
        ):  # fmt: skip
            assert findings[wrong] == 0, (SEED, exchange, wrong, report)
