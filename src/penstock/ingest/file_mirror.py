"""Published files at the address of an exchange or a mirror.

Downloads are written to temporary files without a name in the data folder, which no crash leaves
behind. They are on another host than the exchange's requests and count against none of its limits.
"""

import asyncio
import errno
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import random
from typing import IO, TypeVar

import aiohttp
from yarl import URL

from penstock import __version__
from penstock.clock import Clock
from penstock.config import Requests
from penstock.errors import (
    BadFile,
    ExchangeError,
    ExchangeUnreachable,
    NoAnswer,
    StorageError,
    StorageFull,
    is_failure,
    mask_urls,
)
from penstock.resilience.backoff import Backoff

MOST_DOWNLOADS = 4
"""Downloads of one process at a time."""
_LARGEST = 32 * 1024**3
_CHUNK = 1 << 20

T = TypeVar("T")


class MirrorSource:
    """Files at an address. A failed request is repeated with increasing delays."""

    def __init__(self, url: str, folder: Path, settings: Requests, clock: Clock) -> None:
        """Downloads are written to ``folder``."""
        self._url, self._folder, self._clock = URL(url), folder, clock
        self._timeout = aiohttp.ClientTimeout(
            connect=settings.connect_timeout,
            sock_connect=settings.connect_timeout,
            sock_read=settings.read_timeout,
        )
        self._backoff = Backoff(
            attempts=settings.attempts,
            first_s=settings.first_delay,
            multiplier=settings.multiplier,
            longest_s=settings.longest_delay,
            jitter=settings.jitter,
        )
        self._turns = asyncio.Semaphore(MOST_DOWNLOADS)
        self._session: aiohttp.ClientSession | None = None

    async def size(self, path: str) -> int | None:
        """See ``FileSource``."""

        async def ask() -> int | None:
            async with self._request("HEAD", path) as response:
                return None if response is None else response.content_length or 0

        return await self._repeated(ask)

    async def head(self, path: str, most: int) -> bytes | None:
        """See ``FileSource``."""

        async def ask() -> bytes | None:
            async with self._request("GET", path) as response:
                if response is None:
                    return None
                found = b""
                async for chunk in response.content.iter_any():
                    found += chunk
                    if len(found) >= most:
                        break
                return found[:most]

        return await self._repeated(ask)

    async def open(self, path: str) -> IO[bytes] | None:
        """See ``FileSource``."""

        async def ask() -> IO[bytes] | None:
            async with self._request("GET", path) as response:
                return None if response is None else await self._download(path, response)

        return await self._repeated(ask)

    async def aclose(self) -> None:
        """See ``FileSource``."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _download(self, path: str, response: aiohttp.ClientResponse) -> IO[bytes]:
        size = response.content_length or 0
        with self._disk_errors():
            if size > shutil.disk_usage(self._folder).free:
                raise OSError(errno.ENOSPC, f"there is no space for {size:,} bytes")
            # Without a name, so that it is gone with this process, however that ends.
            target = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        try:
            with self._disk_errors():
                size = 0
                async for chunk in response.content.iter_chunked(_CHUNK):
                    size += len(chunk)
                    if size > _LARGEST:
                        raise BadFile(path, f"it has more than {_LARGEST:,} bytes")
                    await asyncio.to_thread(target.write, chunk)
                await asyncio.to_thread(target.flush)
        except BaseException:
            with suppress(OSError):
                target.close()
            raise
        return target

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except (TimeoutError, aiohttp.ClientError):
            raise  # Errors of the network, some of which are an OSError too.
        except OSError as error:
            kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
            raise kind(str(self._folder), f"a download failed: {error.strerror}") from error

    @asynccontextmanager
    async def _request(
        self, method: str, path: str
    ) -> AsyncIterator[aiohttp.ClientResponse | None]:
        """The response; None for a missing file."""
        url = self._url.joinpath(*path.split("/"))
        what = mask_urls(str(url))
        try:
            async with self._turns, self._open().request(method, url) as response:
                if response.status == 404:
                    yield None
                elif response.status != 200:
                    problem = f"{what}: the response has status {response.status}"
                    raise ExchangeError(problem, status=response.status)
                else:
                    yield response
        except (TimeoutError, aiohttp.ClientError) as error:
            words = str(error) or type(error).__name__
            raise NoAnswer(f"No whole answer from {what}: {words}") from error

    async def _repeated(self, ask: Callable[[], Awaitable[T]]) -> T:
        delays = self._backoff.delays(random)
        while True:
            try:
                return await ask()
            except (ExchangeError, ExchangeUnreachable) as error:
                delay_s = next(delays, None)
                if delay_s is None or not is_failure(error):
                    raise
                await self._clock.sleep(delay_s)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                headers={"User-Agent": f"penstock/{__version__}"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session
