"""A store for connectors: in memory on a clock that stands still, or a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.clock import ManualClock
from penstock.storage.state import StateStore, open_store

# A whole minute, so that windows begin here.
START_MS = 1_700_000_040_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[StateStore]:
    store = await open_store("memory:", clock=clock)
    yield store
    await store.close()


@pytest.fixture(params=["memory", "sqlite"])
async def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StateStore]:
    url = "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'state.db'}"
    store = await open_store(url)
    yield store
    await store.close()
