"""A store of live values of each kind, empty, for every test that asks."""

import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from penstock.storage.cache import LiveStore, open_live_store

BACKENDS = ("memory", "sqlite", "redis")

_names = count()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if backend == "memory":
        return "memory:"
    if backend == "sqlite":
        return f"sqlite:{tmp_path / 'live.db'}"
    # Tests share the server, so each has a prefix of its own.
    return f"{request.getfixturevalue('redis_url')}?prefix=test-{os.getpid()}-{next(_names)}"


@pytest.fixture
async def store(url: str) -> AsyncIterator[LiveStore]:
    store = await open_live_store(url, timeout_s=30)
    yield store
    await store.close()
