"""Fetches the chunks of a queue concurrently, and commits its batches in order."""

import asyncio
from collections.abc import Awaitable, Callable

from penstock.errors import RateLimited
from penstock.ingest.chunks import Batch, Chunk, ChunkQueue
from penstock.ingest.trade_pages import Covered


class ParallelFetch:
    """Tasks, one for each chunk in flight, and one that commits a batch meanwhile.

    After a failure no more chunks are requested. Those in flight are awaited, since they have used
    their tokens, and batches that they complete are committed; then the failure is raised.
    """

    def __init__(
        self,
        queue: ChunkQueue,
        fetch: Callable[[Chunk], Awaitable[Covered]],
        commit: Callable[[Batch], Awaitable[bool]],
        concurrency: Callable[[], int],
    ) -> None:
        """``commit`` returns whether to continue; ``concurrency`` is how many chunks to fetch."""
        self._queue, self._fetch, self._commit = queue, fetch, commit
        self._concurrency = concurrency
        self._most: int | None = None
        """How many requests the gate had room for when it rejected one, and one more for each
        response since: other jobs may need less by now."""
        self._fetching: dict[asyncio.Task[Covered], Chunk] = {}
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
                tasks: set[asyncio.Task[Covered] | asyncio.Task[bool]] = {*self._fetching}
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

    def _settle(self, task: asyncio.Task[Covered], chunk: Chunk) -> None:
        try:
            covered = task.result()
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
        if covered.ended:
            self._queue.put_back(chunk, covered.ended)
        else:
            self._queue.fetched(chunk, covered.ids, covered.trades)

    async def _cancel(self) -> None:
        tasks = [*self._fetching, *([self._committing] if self._committing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
