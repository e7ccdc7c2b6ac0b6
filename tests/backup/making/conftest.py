"""A store that collectors and a keeper write to, and backups of it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.events import trade

from penstock.app.keeper import open_keeper
from penstock.backup.run import Backed, make_backup
from penstock.clock import SystemClock
from penstock.config import Backup, Collect, Keep, Publish, Settings, Storage
from penstock.market.events import Event
from penstock.recorder import Recorder
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.status import Report, read_processes

HOUR_NS = 3_600_000_000_000


def trades(first: int, last: int, age_ns: int = 0) -> list[Event]:
    """Trades with these ids, received one after the other some time ago."""
    now_ns = time.time_ns() - age_ns
    return [trade(n, received_at_ns=now_ns + n, at_ns=now_ns) for n in range(first, last + 1)]


class World:
    """A data folder with processes, and a folder for backups."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.data, self.backups, self.stack = folder / "data", folder / "backups", stack
        self.settings = Settings(
            collect=Collect(data_dir=str(self.data)),
            publish=Publish(urls=()),
            storage=Storage(),
            keep=Keep(settle=2, hot=600),
            backup=Backup(folder=str(self.backups), checkpoint_timeout=10.0),
        )
        self.facts: list[Any] = []

    async def collector(self, slot: str = "collect-toy") -> Recorder:
        """Start a process that owns a slot of the log."""
        process = RecordingProcess("collect", self.settings, SystemClock(), self.facts.append)
        await self.stack.enter_async_context(process)
        process.own_slot(slot)
        await process.open_state()
        recorder, _ = process.open_recorder()
        process.running(lambda: Report(doing="recording"))
        await asyncio.wait_for(self._seen(process), 10)
        return recorder

    async def _seen(self, process: RecordingProcess) -> None:
        """Wait until its status is in the store."""
        assert process.store is not None
        while process.status_id() not in {e.id for e in await read_processes(process.store)}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def keep(self) -> None:
        """Seal, trim and maintain once."""
        async with open_keeper(self.settings, SystemClock(), self.facts.append) as keeper:
            await keeper.run_once()
            assert not keeper.problems

    async def back_up(self, **changes: Any) -> Backed:
        changed = replace(self.settings, backup=replace(self.settings.backup, **changes))
        return await make_backup(changed, SystemClock(), self.facts.append)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        yield World(tmp_path, stack)
