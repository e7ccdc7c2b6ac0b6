"""A store of each kind, empty, for every test that asks."""

import os
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from penstock.storage.state import StateStore, open_store

BACKENDS = ("memory", "sqlite", "postgresql", "mongodb")
SHARED = BACKENDS[1:]

_names = count()


def _fresh_name() -> str:
    return f"penstock_test_{os.getpid()}_{next(_names)}"


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty store."""
    if backend == "memory":
        yield "memory:"
    elif backend == "sqlite":
        yield f"sqlite:{tmp_path / 'state.db'}"
    elif backend == "mongodb":
        yield f"{request.getfixturevalue('mongodb_url')}/{_fresh_name()}"
    else:
        server, name = request.getfixturevalue("postgresql_url"), _fresh_name()
        connection = await asyncpg.connect(server)
        await connection.execute(f"CREATE SCHEMA {name}")
        yield f"{server}{'&' if '?' in server else '?'}search_path={name}"
        await connection.execute(f"DROP SCHEMA {name} CASCADE")
        await connection.close()


@pytest.fixture
async def store(url: str) -> AsyncIterator[StateStore]:
    store = await open_store(url)
    yield store
    await store.close()
