"""Fetches the chunks of a queue concurrently, and commits its batches in order."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from penstock.errors import RateLimited

C = TypeVar("C")
P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


class Queue(Protocol[C, P_contra, B_co]):
    """Chunks to request, in any order, and batches of their pages, in order."""

    concurrency: int
    """How many chunks are fetched at a time. The pages in memory are limited by it."""

    @property
    def is_done(self) -> bool:
        """Whether all batches were handed out."""
        ...

    def take(self) -> C | None:
        """The next chunk to request; None if there is none until another one is fetched."""
        ...

    def put_back(self, chunk: C, reason: str, *, was_sent: bool = True) -> None:
        """Return a chunk that was refused. An attempt is counted if a request was sent.

        Raises:
            ExchangeError: it was requested too often.
        """
        ...

    def fetched(self, chunk: C, page: P_contra) -> None:
        """Add the page of a chunk.

        Raises:
            ExchangeError: it was requested too often, without a page of it.
        """
        ...

    def next_batch(self) -> B_co | None:
        """The oldest batch, once it is complete."""
        ...


class ConcurrentFetches:
    """Counts the fetches of this process that share the limit of an exchange."""

    def __init__(self) -> None:
        self._count: Counter[str] = Counter()

    def of(self, exchange_id: str) -> int:
        """How many there are now."""
        return self._count[exchange_id]

    @contextmanager
    def one_more(self, exchange_id: str) -> Iterator[None]:
        """Count one while the context lasts."""
        self._count[exchange_id] += 1
        try:
            yield
        finally:
            self._count[exchange_id] -= 1


class ParallelFetch(Generic[C, P, B]):
    """Tasks, one for each chunk in flight, and one that commits a batch meanwhile.

    After a failure no more chunks are requested. Those in flight are awaited, since they have used
    their tokens, and batches that they complete are committed; then the failure is raised.
    """

    def __init__(
        self,
        queue: Queue[C, P, B],
        fetch: Callable[[C], Awaitable[P]],
        commit: Callable[[B], Awaitable[bool]],
        concurrency: Callable[[], int],
    ) -> None:
        """``commit`` returns whether to continue; ``concurrency`` is how many chunks to fetch."""
        self._queue, self._fetch, self._commit = queue, fetch, commit
        self._concurrency = concurrency
        self._most: int | None = None
        """How many requests the gate had room for when it rejected one, and one more for each
        response since: other jobs may need less by now."""
        self._fetching: dict[asyncio.Task[P], C] = {}
        self._committing: asyncio.Task[bool] | None = None
        self._is_stopped = False
        self._failure: Exception | None = None

    async def run(self) -> bool:
        """Fetch and commit until the queue is done; return whether it is.

        Raises:
            PenstockError: a chunk or a commit failed. All batches before it are committed.
        """
        try:
            while True:
                self._start()
                tasks: set[asyncio.Task[P] | asyncio.Task[bool]] = {*self._fetching}
                if self._committing is not None:
                    tasks.add(self._committing)
                if not tasks:
                    break
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                self._gather()
        finally:
            await self._cancel()
        if self._failure is not None:
            raise self._failure
        return self._queue.is_done

    def _start(self) -> None:
        queue = self._queue
        if not self._is_stopped and self._failure is None:
            wanted = self._concurrency()
            queue.concurrency = wanted if self._most is None else min(wanted, self._most)
            while len(self._fetching) < queue.concurrency and (chunk := queue.take()) is not None:
                self._fetching[asyncio.ensure_future(self._fetch(chunk))] = chunk
        if self._committing is None and (batch := queue.next_batch()) is not None:
            self._committing = asyncio.ensure_future(self._commit(batch))

    def _gather(self) -> None:
        if self._committing is not None and self._committing.done():
            # Nothing may be committed after a batch that was not: its exception ends the run.
            self._is_stopped = not self._committing.result() or self._is_stopped
            self._committing = None
        for task in [task for task in self._fetching if task.done()]:
            try:
                self._settle(task, self._fetching.pop(task))
            except Exception as error:
                self._failure = self._failure or error

    def _settle(self, task: asyncio.Task[P], chunk: C) -> None:
        try:
            page = task.result()
        except RateLimited as error:
            if error.status is not None:
                # The exchange refused it. The gate is blocked by now, also for the next attempt.
                self._queue.put_back(chunk, str(error))
            elif self._fetching:
                self._queue.put_back(chunk, str(error), was_sent=False)
                self._most = len(self._fetching)
            else:
                raise
            return
        if self._most is not None:
            self._most += 1
        self._queue.fetched(chunk, page)

    async def _cancel(self) -> None:
        tasks = [*self._fetching, *([self._committing] if self._committing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
