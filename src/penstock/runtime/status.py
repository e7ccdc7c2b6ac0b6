"""The status of every process, in the state store and in the store of live values.

A status is small and complete, so that one that could not be written is made up for by the next.
Its age is measured by the store's clock: clocks of machines may differ.

The state store remembers failures, and is shared by all machines of a fleet. In the store of live
values each process has an entry of the ``ProcessCache``, which is written seldom and expires.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.config import Settings
from penstock.connectors.limits import GateReport
from penstock.errors import mask_urls
from penstock.live import BEAT_S, ProcessCache, is_there, live_url
from penstock.publish import PublishedCounts
from penstock.runtime.identity import has_ended
from penstock.runtime.reports import ConnectionReport
from penstock.storage.cache import open_live_store
from penstock.storage.state import Document, StateStore, Write
from penstock.storage.state.documents import Condition, StoreNow
from penstock.storage.state.schema import PROCESSES

State = Literal["starting", "running", "stopped", "failed"]
Health = Literal["healthy", "impaired", "failed"]

GONE_MS = 15_000
"""A process whose status is older than this has ended without stopping, or hangs."""
LIVE_GONE_MS = round(3 * BEAT_S * 1000)
"""The same for an entry in the store of live values: three missed beats."""
_STOPPED_MS = 3_600_000
_OTHERS_MS = 86_400_000
"""A status is removed when it is older than this; that of a stopped process sooner."""
_MOST_PROBLEMS, _LONGEST = 5, 300
_AT_ONCE = 1000


class ChildStatus(Struct, frozen=True, kw_only=True):
    """A process that a supervisor runs."""

    name: str
    state: str
    """waiting (to be started again), starting, running, stopping, stopped or given up."""
    pid: int | None = None
    since_ms: int = 0
    """When the state began."""
    restarts: int = 0
    reason: str = ""
    """Why it last ended or was restarted."""
    lines_dropped: int = 0
    """Lines of its log that were not written, since nobody read them fast enough."""


class ExchangeActivity(Struct, frozen=True, kw_only=True):
    """What a process receives of one exchange."""

    exchange: str
    messages: int = 0
    """Recorded or received since its start."""
    counted_ms: int | None = None
    """When they were counted, if that was before the status was written."""
    markets: int = 0
    connections: int = 0
    connections_up: int = 0
    lag_ms: int | None = None
    """From a trade's time, by the exchange's clock, to its receipt; None if it is not known."""
    last_data_ms: int | None = None
    """When data of this exchange was last received, if the process receives that of several."""


class Report(Struct, frozen=True, kw_only=True):
    """What a process currently does, as it reports itself."""

    doing: str
    """In one line."""
    problems: tuple[str, ...] = ()
    """The current problems, worst first."""
    state: State = "running"
    activity: int | None = None
    """A count that grows with the data; None if it is not known."""
    children: tuple[ChildStatus, ...] = ()
    """The processes that it supervises."""
    exchanges: tuple[ExchangeActivity, ...] = ()
    """What it receives of exchanges."""
    connections: Sequence[ConnectionReport] = ()
    """Its connections to streams."""


class ProcessStatus(Struct, frozen=True, kw_only=True):
    """Who a process is, and how it is."""

    kind: str
    """The command that started it: collect, fetch, tickers, work, keep, serve, bus, up or
    sim."""
    name: str
    """Unique in its data folder; the slot of the log if it has one."""
    host: str
    pid: int
    folder: str
    """Its data folder."""
    started_ms: int
    at_ms: int
    """When this was written, by the clock of its machine, as ``started_ms`` and below."""
    state: State
    doing: str = ""
    last_data_ms: int | None = None
    """When it last recorded, forwarded or sent data; None if it has not, or does not count it."""
    health: Health = "healthy"
    problems: list[str] = []
    """Why it is impaired or has failed, worst first."""
    published: Mapping[str, PublishedCounts] = {}
    """Counts of its publishers, by name."""
    children: list[ChildStatus] = []
    """The processes that it supervises."""
    exchanges: list[ExchangeActivity] = []
    """What it receives of exchanges; empty in statuses of earlier versions."""
    connections: list[ConnectionReport] = []
    """Its connections to streams."""
    gates: Mapping[str, GateReport] = {}
    """Its requests, by exchange."""
    identity: str = ""
    """What its own machine knows it by; see ``identity_of``."""


class SeenProcess(NamedTuple):
    """A status that was found in a store."""

    id: str
    status: ProcessStatus
    silent_ms: int
    """Its age, by the store's clock."""
    gone_ms: int = GONE_MS
    """The age from which its process is gone."""

    @property
    def gone(self) -> bool:
        """Whether it should be running and is not. A process of this machine is looked up."""
        status = self.status
        return status.state in ("starting", "running") and (
            self.silent_ms > self.gone_ms or has_ended(status.identity, status.pid)
        )


def this_machine() -> tuple[str, int]:
    """The name of this machine, and the id of this process on it."""
    return platform.node(), os.getpid()


def slot_status_id(log_id: int, slot: str) -> str:
    """The id of the status of a slot's owner: a slot belongs to the log, wherever it is mounted."""
    return f"{log_id:016x}/{slot}"


def shortened(problems: tuple[str, ...]) -> list[str]:
    """The first problems, without passwords, so that a status stays small."""
    more = len(problems) - _MOST_PROBLEMS
    masked = map(mask_urls, problems[:_MOST_PROBLEMS])
    kept = [each if len(each) <= _LONGEST else each[:_LONGEST] + "…" for each in masked]
    return [*kept, *([f"and {more} more"] if more > 0 else [])]


async def write_process(store: StateStore, id_: str, status: ProcessStatus) -> None:
    """Write a status in place of the last one with this id.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    fields: dict[str, Any] = {"state": status.state, "status": msgspec.to_builtins(status)}
    [written] = await store.write(PROCESSES, [Write(id_, {}, {**fields, "seen_at": StoreNow()})])
    if written is None:
        seen_at = await store.now_ms()
        await store.insert_if_absent(PROCESSES, {"id": id_, "seen_at": seen_at, **fields})


async def read_processes(store: StateStore) -> list[SeenProcess]:
    """All processes that ran lately, by machine, folder and name.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    documents, now_ms = await store.find(PROCESSES, limit=_AT_ONCE), await store.now_ms()
    found = [
        seen
        for document in documents
        if not _is_outdated(document, now_ms) and (seen := _read(document, now_ms)) is not None
    ]
    return _sorted(found)


async def read_live_processes(cache: ProcessCache) -> list[SeenProcess]:
    """All processes in the store of live values, by machine, folder and name.

    Raises:
        StoreUnreachable, LoginRejected: the store cannot be read.
    """
    found = []
    for each in await cache.get_processes():
        try:
            id_ = msgspec.convert(each.params.get("id"), str)
            status = msgspec.convert(each.params.get("status"), ProcessStatus)
        except msgspec.ValidationError:
            continue  # the entry of a symbol, or of another version
        found.append(SeenProcess(id_, status, each.age_ms, LIVE_GONE_MS))
    return _sorted(found)


async def read_configured_live(settings: Settings, timeout_s: float) -> list[SeenProcess]:
    """The same, from the store that the settings name; none if nobody has written to it.

    Raises:
        StoreUnreachable, LoginRejected: the store cannot be read.
        ConfigError, MissingExtra: its URL is wrong, or its library is not installed.
    """
    url = live_url(settings)
    if not is_there(url):
        return []
    store = await open_live_store(url, timeout_s=timeout_s)
    try:
        return await read_live_processes(ProcessCache(store))
    finally:
        await store.close()


def merged(*found: Iterable[SeenProcess]) -> list[SeenProcess]:
    """Each process once, as it reported last, whichever store has that report."""
    latest: dict[str, SeenProcess] = {}
    for each in (each for some in found for each in some):
        known = latest.get(each.id)
        if known is None or each.silent_ms < known.silent_ms:
            latest[each.id] = each
    return _sorted(latest.values())


def looked_up(found: Iterable[SeenProcess]) -> list[SeenProcess]:
    """The same processes, of which those that run are not looked up again by ``gone``."""
    return [
        each if each.gone else each._replace(status=replace(each.status, identity=""))
        for each in found
    ]


def _sorted(found: Iterable[SeenProcess]) -> list[SeenProcess]:
    return sorted(found, key=lambda each: (each.status.host, each.status.folder, each.status.name))


async def remove_outdated(store: StateStore) -> None:
    """Remove the statuses of processes that ended long ago.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    old = [[Condition("seen_at", "<=", StoreNow(-_STOPPED_MS))]]
    documents, now_ms = await store.find(PROCESSES, old, limit=_AT_ONCE), await store.now_ms()
    for document in documents:
        if _is_outdated(document, now_ms):
            await store.delete(PROCESSES, document["id"], {"seen_at": document["seen_at"]})


def _is_outdated(document: Document, now_ms: int) -> bool:
    kept_ms = _STOPPED_MS if document["state"] == "stopped" else _OTHERS_MS
    return bool(now_ms - document["seen_at"] > kept_ms)


def _read(document: Document, now_ms: int) -> SeenProcess | None:
    """A status; None if a newer version wrote it and it cannot be read."""
    try:
        status = msgspec.convert(document["status"], ProcessStatus)
    except msgspec.ValidationError:
        return None
    return SeenProcess(document["id"], status, now_ms - document["seen_at"])
