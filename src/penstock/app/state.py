"""Opens the state store from settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.clock import Clock
from penstock.config import Settings
from penstock.storage.state import StateStore, open_store


@asynccontextmanager
async def open_state(
    settings: Settings, clock: Clock, *, read_only: bool = False
) -> AsyncIterator[StateStore]:
    """Open the state store that all processes share.

    Raises:
        ConfigError, MissingExtra: its URL is invalid, or needs a library that is not installed.
        StoreUnreachable, NewerStore: it cannot be opened.
    """
    store = await open_store(
        settings.state.url or f"sqlite:{Path(settings.collect.data_dir) / 'state.db'}",
        clock=clock,
        timeout_s=settings.state.timeout,
        read_only=read_only,
    )
    try:
        yield store
    finally:
        await store.close()
