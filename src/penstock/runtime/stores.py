"""Opens the log and the state store that the settings name, and says where the lake is."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.clock import Clock
from penstock.config import Settings
from penstock.storage.lake import Lake, open_lake
from penstock.storage.log import EventLog, open_log
from penstock.storage.state import StateStore, open_store

_LAKE = "lake"


def configured_log(settings: Settings) -> EventLog:
    """The log at ``storage.log_url``. Nothing is opened or created yet.

    Raises:
        ConfigError: its URL is invalid.
    """
    url = settings.storage.log_url
    return open_log(f"rocksdb:{Path(settings.collect.data_dir)}" if url == "rocksdb:" else url)


def state_url(settings: Settings) -> str:
    """The URL of the state store; by default a file in the data folder."""
    return settings.state.url or f"sqlite:{Path(settings.collect.data_dir) / 'state.db'}"


def lake_url(settings: Settings) -> str:
    """The URL or folder of the lake; by default a folder in the data folder."""
    return settings.storage.lake_url or str(Path(settings.collect.data_dir) / _LAKE)


def local_folder(where: str) -> Path | None:
    """The folder of a path or a ``file://`` URL; None for the URL of an object store."""
    path = where.removeprefix("file://")
    return None if "://" in path else Path(path).expanduser()


def is_lake(folder: Path) -> bool:
    """Whether a folder has tables: then it is a lake, not a data folder."""
    return any(folder.glob("*/_delta_log"))


def existing_lake(folder: Path, url: str | None) -> str | None:
    """The lake of a data folder: at this URL, or in the folder; None if there is none."""
    inner = folder / _LAKE
    return url or (str(inner) if inner.is_dir() else None)


def lake_to_read(settings: Settings) -> Lake:
    """The lake that the settings name, for a process that does not write to it.

    Raises:
        MissingExtra: the libraries of the lake are not installed.
    """
    return open_lake(lake_url(settings), settings.storage.lake_options, alone=True)


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
        state_url(settings),
        clock=clock,
        timeout_s=settings.state.timeout,
        read_only=read_only,
    )
    try:
        yield store
    finally:
        await store.close()
