"""Which report of a process counts: that in the state store, or that among the live values."""

import pytest

from penstock.config import Settings
from penstock.errors import StoreUnreachable
from penstock.monitor import live_processes
from penstock.monitor.live_processes import LiveProcesses
from penstock.runtime.status import GONE_MS, LIVE_GONE_MS, SeenProcess

from .statuses import seen

OTHER = seen("other")._replace(id="a", silent_ms=500, gone_ms=LIVE_GONE_MS)


class Store:
    """Stands for the store of live values."""

    def __init__(self) -> None:
        self.reads, self.is_away = 0, False

    async def read(self, *_: object) -> list[SeenProcess]:
        self.reads += 1
        if self.is_away:
            raise StoreUnreachable("redis:", "no answer")
        return [OTHER]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()
    monkeypatch.setattr(live_processes, "read_configured_live", store.read)
    return store


async def test_a_later_report_counts_once_the_state_store_heard_nothing(store: Store) -> None:
    live, own = LiveProcesses(Settings()), seen("own")._replace(id="a", silent_ms=GONE_MS)

    assert await live.added_to([own], 0) == [own]
    silent = own._replace(silent_ms=GONE_MS + 1)
    assert await live.added_to([silent], 0) == [OTHER]
    assert store.reads == 1


async def test_entries_are_read_seldom_and_grow_old_meanwhile(store: Store) -> None:
    live = LiveProcesses(Settings())
    for now_ms in (0, 4_000, 9_999):
        [found] = await live.added_to([], now_ms)
        assert found.silent_ms == 500 + now_ms
    assert store.reads == 1

    store.is_away = True
    assert await live.added_to([], 10_000) == []
    assert await live.added_to([], 15_000) == []
    assert store.reads == 2, "nor is a store that is away asked every time"
