"""The entry of a daemon in the process cache."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from penstock.clock import Clock
from penstock.errors import StorageError, UnknownProcess
from penstock.live import ProcessCache, ProcessStatus, ProcessType

_REPORT_S = 5.0
"""How often it reports; the cache writes what is due."""


class DaemonEntry:
    """Registers a daemon, and reports for it until it ends."""

    def __init__(
        self, processes: ProcessCache, name: str, clock: Clock, doing: Callable[[], str]
    ) -> None:
        self._processes, self._name, self._clock, self._doing = processes, name, clock, doing
        self.process_id: str | None = None

    @asynccontextmanager
    async def registered(self, params: Mapping[str, Any]) -> AsyncIterator[None]:
        """Register it; at the end show it as stopped, if the store answers.

        Raises:
            StorageError: the store does not take it.
        """
        registering = asyncio.create_task(self._register(params, ProcessStatus.STARTING))
        tasks = [registering]
        try:
            # Shielded: a registration that is cancelled may succeed all the same.
            await asyncio.shield(registering)
            tasks.append(asyncio.create_task(self._report(params)))
            yield
        finally:
            for task in tasks[1:]:
                task.cancel()
            await asyncio.wait(tasks)
            process_id, self.process_id = self.process_id, None
            if process_id is not None:
                with suppress(StorageError):  # then it expires
                    await self._processes.stop_process(process_id)

    async def _register(self, params: Mapping[str, Any], status: ProcessStatus) -> None:
        self.process_id = await self._processes.register_process(
            ProcessType.TICKERS, self._name, params, self._doing(), status
        )

    async def _report(self, params: Mapping[str, Any]) -> None:
        while True:
            assert self.process_id is not None
            with suppress(StorageError):
                try:
                    await self._processes.update_process(
                        self.process_id, ProcessStatus.RUNNING, self._doing()
                    )
                except UnknownProcess:  # it expired while the store did not answer
                    await self._register(params, ProcessStatus.RUNNING)
            await self._clock.sleep(_REPORT_S)
