"""Where published files come from: a folder, or the address of the exchange or a mirror."""

import os
from pathlib import Path
from typing import IO, Protocol

from penstock.clock import Clock
from penstock.config import Settings
from penstock.errors import ConfigError, StorageError, mask_urls


class FileSource(Protocol):
    """A place that may have any of an exchange's files."""

    async def size(self, path: str) -> int | None:
        """The size of a file in bytes; None if there is no such file.

        Raises:
            ExchangeError, ExchangeUnreachable: the place cannot be asked now.
            StorageError: the file cannot be read.
        """
        ...

    async def head(self, path: str, most: int) -> bytes | None:
        """The first bytes of a file; None if there is no such file. Raises as ``size``."""
        ...

    async def open(self, path: str) -> IO[bytes] | None:
        """A whole file, to be closed by the caller; None if there is no such file.

        Raises:
            BadFile: it is too large.
            Others as ``size``.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class FolderSource:
    """Files in a folder, in the exchange's own folders below it or directly in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def size(self, path: str) -> int | None:
        """See ``FileSource``."""
        data = await self.open(path)
        if data is None:
            return None
        with data:
            return data.seek(0, os.SEEK_END)

    async def head(self, path: str, most: int) -> bytes | None:
        """See ``FileSource``."""
        data = await self.open(path)
        if data is None:
            return None
        with data:
            return data.read(most)

    async def open(self, path: str) -> IO[bytes] | None:
        """See ``FileSource``."""
        for place in (self._folder / path, self._folder / Path(path).name):
            try:
                return place.open("rb")
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise StorageError(str(place), f"cannot be read: {error.strerror}") from error
        return None

    async def aclose(self) -> None:
        """See ``FileSource``."""


def source_of(settings: Settings, clock: Clock) -> FileSource | None:
    """The source that ``ingest.files`` names; None without one.

    Raises:
        ConfigError: there is no such folder, or the address is not one.
    """
    place = settings.ingest.files
    if not place:
        return None
    scheme, separator, host = place.partition("://")
    if separator:
        if scheme not in ("http", "https") or not host:
            problem = f"{mask_urls(place)!r} is not an address of http: or https:."
            raise ConfigError("ingest.files", problem=problem, origin="settings")
        # Here, since the client's import takes longer than that of all kinds of jobs.
        from penstock.ingest.file_mirror import MirrorSource  # noqa: PLC0415

        return MirrorSource(place, Path(settings.collect.data_dir), settings.requests, clock)
    folder = Path(place).expanduser()
    if not folder.is_dir():
        problem = f"there is no folder {place!r}."
        raise ConfigError("ingest.files", problem=problem, origin="settings")
    return FolderSource(folder)
