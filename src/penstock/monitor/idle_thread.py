"""A thread with one thing that it opens when it is needed, and closes when it is not."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from penstock.clock import Clock
from penstock.errors import PenstockError, StorageError


class Closes(Protocol):
    """What such a thread opens."""

    def close(self) -> None: ...


C = TypeVar("C", bound=Closes)
T = TypeVar("T")


class IdleThread(Generic[C]):
    """Opens something, such as a reader of the log, and uses it in one thread only.

    For one event loop. It is closed after an error of the storage, and when it was not used for a
    while.
    """

    def __init__(self, open_: Callable[[], C], clock: Clock, *, idle_s: float) -> None:
        self._open, self._clock, self._idle_s = open_, clock, idle_s
        self._thread: ThreadPoolExecutor | None = None
        self._opened: C | None = None
        self._running = 0
        self._used = 0
        """How often it was used."""
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    async def run(self, work: Callable[[C], T]) -> T:
        """Call this with what is opened, after the calls before it, and return the result."""

        def use() -> T:
            if self._opened is None:
                self._opened = self._open()
            try:
                return work(self._opened)
            except PenstockError as error:
                if isinstance(error, StorageError):
                    self._close()
                raise
            except BaseException:
                self._close()
                raise

        self._running += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            return await self._submit(use)
        finally:
            self._running -= 1
            self._used += 1

    async def close(self) -> None:
        """Close it, after the calls before."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        if self._thread is not None:
            await self._submit(self._close)
            self._thread.shutdown()
            self._thread = None

    def _submit(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="log-reader")
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    async def _watch(self) -> None:
        before = -1
        while self._running or self._used != before:
            before = self._used
            await self._clock.sleep(self._idle_s)
        # No await until the call is queued: whoever uses it next opens it again after that.
        self._watching = None
        await self._submit(self._close)
