"""Where the status of a process is written."""

from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from penstock.clock import Clock
from penstock.config import Settings
from penstock.live import ProcessCache, ProcessReport, ProcessType, live_url
from penstock.live import ProcessStatus as LiveStatus
from penstock.live.process_model import LARGEST_PARAMS, LONGEST_NAME
from penstock.runtime.status import ProcessStatus, State, remove_outdated, write_process
from penstock.storage.cache import LiveStore, open_live_store
from penstock.storage.state import StateStore

_LIVE: dict[State, LiveStatus] = {
    "starting": LiveStatus.STARTING,
    "running": LiveStatus.RUNNING,
    "stopped": LiveStatus.STOPPED,
    "failed": LiveStatus.ERROR,
}


class Identified(NamedTuple):
    """A status, and its id in the stores."""

    id: str
    status: ProcessStatus


class Sink(Protocol):
    """Takes statuses. Every method may raise what its store raises."""

    async def write(self, found: Identified) -> None:
        """Write a status in place of the last one with its id."""
        ...

    async def clean(self) -> None:
        """Remove what is outdated."""
        ...

    async def close(self) -> None: ...


class StateSink:
    """The state store, which is opened and closed by others."""

    def __init__(self, store: StateStore) -> None:
        self.store = store

    async def write(self, found: Identified) -> None:
        """See ``Sink``."""
        await write_process(self.store, found.id, found.status)

    async def clean(self) -> None:
        """See ``Sink``."""
        await remove_outdated(self.store)

    async def close(self) -> None:
        """Nothing to do."""


class LiveSink:
    """An entry of the ``ProcessCache``, in a store that is opened when it is needed.

    The cache writes a report only if the state has changed, or 30 seconds after the last one.
    Entries expire by themselves.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._opened: LiveStore | None = None
        self._cache: ProcessCache | None = None
        self.process_id: str | None = None
        """The id of the entry; None until it is registered."""

    async def write(self, found: Identified) -> None:
        """See ``Sink``."""
        cache, status = await self._open(), found.status
        state, params = _LIVE[status.state], _params(found)
        message = status.problems[0] if status.problems else status.doing
        if self.process_id is None:
            kind, component = ProcessType(status.kind), component_of(found.id, status.name)
            self.process_id = await cache.register_process(kind, component, params, message, state)
            return
        report = ProcessReport(
            process_id=self.process_id, status=state, message=message, params=params
        )
        await cache.update_processes([report])

    async def _open(self) -> ProcessCache:
        if self._cache is None:
            self._opened = await open_live_store(
                live_url(self._settings), clock=self._clock, timeout_s=self._settings.live.timeout
            )
            self._cache = ProcessCache(self._opened, clock=self._clock)
        return self._cache

    async def clean(self) -> None:
        """Nothing to do: entries expire."""

    async def close(self) -> None:
        """Close the store, if it was opened."""
        store, self._opened, self._cache = self._opened, None, None
        if store is not None:
            await store.close()


def component_of(id_: str, name: str) -> str:
    """The component of a process: its id in the stores, shortened if its folder has a long name."""
    if len(id_) <= LONGEST_NAME and id_.isprintable():
        return id_
    return f"{blake2b(id_.encode(), digest_size=8).hexdigest()}/{name}"


def _params(found: Identified) -> dict[str, Any]:
    """The status as parameters of an entry, without details if they are too many."""
    # Connections and requests are read from the state store only: they would be too many.
    status = replace(found.status, connections=[], gates={})
    shorter = replace(status, problems=status.problems[:1], children=[], published={}, exchanges=[])
    for each in (status, shorter):
        params = {"id": found.id, "status": msgspec.to_builtins(each)}
        if len(msgspec.json.encode(params)) <= LARGEST_PARAMS:
            return params
    return {}
