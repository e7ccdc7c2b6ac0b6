"""A store of live values of each kind, empty, for every test that asks."""

from collections.abc import AsyncIterator

import pytest

from penstock.storage.cache import LiveStore, open_live_store


@pytest.fixture
def url(live_url: str) -> str:
    return live_url


@pytest.fixture
async def store(url: str) -> AsyncIterator[LiveStore]:
    store = await open_live_store(url, timeout_s=30)
    yield store
    await store.close()
