"""Which store of live values is used, and who closes it."""

from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.storage.cache import LiveStore, open_live_store

StoreOrUrl = LiveStore | str | None
"""An open store, the URL of one, or None for that of the default settings."""


def live_url(settings: Settings) -> str:
    """The URL of the store of live values; by default a file in the data folder."""
    return settings.live.url or f"sqlite:{Path(settings.collect.data_dir) / 'live.db'}"


def is_there(url: str) -> bool:
    """Whether a store may have values: opening a file that does not exist would create it."""
    scheme, _, path = url.partition(":")
    return scheme != "sqlite" or Path(path.removeprefix("///")).exists()


class Opening:
    """A store that a cache uses. It is closed by the cache only if the cache opened it."""

    def __init__(self, given: StoreOrUrl, clock: Clock, user: str) -> None:
        self._given, self._clock, self._user = given, clock, user
        self._open = given if isinstance(given, LiveStore) else None

    @property
    def store(self) -> LiveStore:
        if self._open is None:
            raise RuntimeError(f"{self._user} is not open. Use: async with {self._user}() as cache")
        return self._open

    async def open(self) -> None:
        if self._open is None:
            url = live_url(Settings()) if self._given is None else str(self._given)
            self._open = await open_live_store(url, clock=self._clock)

    async def close(self) -> None:
        if not isinstance(self._given, LiveStore) and self._open is not None:
            store, self._open = self._open, None
            await store.close()


class LiveCache:
    """What is kept in a store of live values. It is open while it is entered.

    With an open store it need not be entered.
    """

    def __init__(self, store: StoreOrUrl, clock: Clock | None) -> None:
        self._clock = clock or SystemClock()
        self._opening = Opening(store, self._clock, type(self).__name__)

    async def __aenter__(self) -> Self:
        await self._opening.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opening.close()
