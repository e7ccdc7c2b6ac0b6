"""A log in a folder, a lake beside it, and a keeper of both."""

from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.events import trade

from penstock.clock import ManualClock
from penstock.config import Keep, Settings, Storage
from penstock.keep.keeper import Keeper, KeeperServices
from penstock.market.channels import Channel
from penstock.market.events import Event
from penstock.storage.lake import Lake, open_lake
from penstock.storage.lake.columns import records_of
from penstock.storage.log import EventLog, LogWriter, open_log
from penstock.storage.state import StateStore, open_store

NOW_NS = 1_700_000_000_000_000_000
HOUR_NS = 3_600_000_000_000
LOG_ID = 0xC0FFEE
SLOT = "collect-toy"


class World:
    """What a keeper works with, and what it left."""

    def __init__(self, folder: Path, store: StateStore) -> None:
        self.folder, self.store = folder, store
        self.clock = ManualClock(NOW_NS // 1_000_000)
        self.log: EventLog = open_log(f"rocksdb:{folder}")
        self.lake: Lake = open_lake(str(folder / "lake"))
        self.writer: LogWriter = self.log.writer(SLOT)
        self.facts: list[Any] = []
        self._keepers: list[Keeper] = []

    def keeper(self, *, store: StateStore | None = None, most: int = 0, **keep: Any) -> Keeper:
        services = KeeperServices(
            lake=open_lake(str(self.folder / "lake")),
            log=self.log,
            log_id=LOG_ID,
            store=store or self.store,
            clock=self.clock,
            emit=self.facts.append,
        )
        settings = Settings(keep=replace(Keep(), **keep), storage=Storage(log_max_bytes=most))
        self._keepers.append(Keeper(services, settings))
        return self._keepers[-1]

    def append(self, events: Sequence[Event]) -> None:
        self.writer.append(events)

    def in_log(self, row: Channel) -> list[bytes]:
        with closing(self.log.reader()) as reader:
            streams = [each for each in reader.streams() if each.channel == row.name]
            return sorted(s.record for stream in streams for s in reader.scan(stream))

    def in_lake(self, row: Channel) -> list[bytes]:
        from deltalake import DeltaTable  # noqa: PLC0415

        table = DeltaTable(self.folder / "lake" / row.name).to_pyarrow_table()
        return sorted(records_of(row, table))

    def close(self) -> None:
        for keeper in self._keepers:
            keeper.close()
        self.writer.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await open_store("memory:")
    found = World(tmp_path, store)
    yield found
    found.close()
    await store.close()


def trades(first: int, last: int, *, age_ns: int = HOUR_NS, **fields: Any) -> list[Event]:
    """Trades with these ids, received one after the other some time ago."""
    return [
        trade(n, received_at_ns=NOW_NS - age_ns + n, at_ns=NOW_NS - age_ns, **fields)
        for n in range(first, last + 1)
    ]
