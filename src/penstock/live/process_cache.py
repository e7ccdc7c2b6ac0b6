"""Which processes run, and what each of them collects, as they report themselves.

There is one entry for every process and one for every symbol that is collected, by type and
component. Who registers a component again takes its entry over: a later report of the one before is
ignored. An entry is written at most every ``BEAT_S`` seconds, and at once when its status changes.
After three missed beats it is stale, and is no longer active; after ten it is removed.
"""

import os
import platform
from collections.abc import Mapping
from enum import StrEnum
from random import getrandbits
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.clock import Clock
from penstock.errors import BadProcess, UnknownProcess, mask_urls
from penstock.live.opening import LiveCache, StoreOrUrl
from penstock.storage.cache import LiveValue

SPACE = "processes"
BEAT_S = 30.0
_STALE_BEATS, _KEPT_BEATS = 3, 10

# A registration has a number: the store's time, and chance for those at the same time.
_LINE, _CHANCE_BITS = "r", 20
_LONGEST_NAME, _LONGEST_MESSAGE, _LARGEST_PARAMS = 200, 300, 4096


class ProcessType(StrEnum):
    """What an entry stands for: the collection of one symbol's ticks, or a kind of process."""

    TICK = "tick"
    TICKERS = "tickers"
    COLLECT = "collect"
    FETCH = "fetch"
    WORK = "work"
    KEEP = "keep"
    SERVE = "serve"
    BUS = "bus"
    SIM = "sim"


class ProcessStatus(StrEnum):
    """How it is."""

    STARTING = "starting"
    RUNNING = "running"
    ERROR = "error"
    STOPPED = "stopped"


class ProcessInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry."""

    process_id: str
    process_type: ProcessType
    component: str
    """What it is, unique among those of its type: ``sim:BTC/USDT``, or the name of a process."""
    status: ProcessStatus
    message: str = ""
    params: dict[str, Any] = {}
    host: str = ""
    pid: int = 0
    started_ms: int = 0
    """When it was registered, by the clock of its machine."""
    age_ms: int = 0
    """The time since its last report, by the store's clock. Not stored, as is the next."""
    stale: bool = False
    """Whether it missed three beats: it ended without saying so, or hangs."""

    @property
    def active(self) -> bool:
        return not self.stale and self.status is not ProcessStatus.STOPPED


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(ProcessInfo).decode


def is_due(
    written: ProcessStatus, status: ProcessStatus, since_ms: int, beat_s: float = BEAT_S
) -> bool:
    """Whether a report is written, so long after the last one that was."""
    return status != written or since_ms >= beat_s * 1000


class ProcessCache(LiveCache):
    """The entries, shared by all processes with the same store.

    Entered with ``async with``; with an open store it need not be entered.
    """

    def __init__(
        self, store: StoreOrUrl = None, *, beat_s: float = BEAT_S, clock: Clock | None = None
    ) -> None:
        """``store`` is an open one or its URL; without it, the file of the default data folder."""
        super().__init__(store, clock)
        self._beat_s = beat_s
        self._written: dict[str, tuple[ProcessInfo, int]] = {}
        """The last entry that was written for each component, and when."""

    async def register_process(
        self,
        process_type: ProcessType,
        component: str,
        params: Mapping[str, Any] | None = None,
        message: str = "",
        status: ProcessStatus = ProcessStatus.STARTING,
    ) -> str:
        """Register a process or a symbol; return the id for its reports.

        An entry of the same type and component is taken over. ``params`` are shown to everyone who
        can read the store: no secrets. Passwords in URLs within ``message`` are masked.

        Raises:
            BadProcess: an argument is invalid. Nothing was changed.
            StoreUnreachable, StorageFull, LoginRejected: the store does not take it.
        """
        store, key = self._opening.store, _key(process_type, component)
        checked = _checked_params(params or {})
        there = await store.get(SPACE, key)
        number = (await store.now_ms() << _CHANCE_BITS) + getrandbits(_CHANCE_BITS)
        if there is not None:
            # Also if the store's clock was set back.
            number = max(number, there.number + 1)
        info = ProcessInfo(
            process_id=f"{key}@{number}",
            process_type=ProcessType(process_type),
            component=component,
            status=_checked_status(status),
            message=_shortened(message),
            params=checked,
            host=platform.node(),
            pid=os.getpid(),
            started_ms=self._clock.now_ms(),
        )
        await self._write(info)
        return info.process_id

    async def update_process(
        self, process_id: str, status: ProcessStatus | None = None, message: str | None = None
    ) -> bool:
        """Report how it is; return whether the report was written.

        It is not, if the status is the same and the last one was written less than a beat ago, or
        if another process has registered the component since. Call it as often as you like.

        Raises:
            UnknownProcess: no such process is registered, or it was removed.
            BadProcess: the status is none.
            StoreUnreachable, StorageFull, LoginRejected: the store does not take it.
        """
        last = await self._last(process_id)
        if last is None:
            return False
        before, since_ms = last
        status = before.status if status is None else _checked_status(status)
        if not is_due(before.status, status, since_ms, self._beat_s):
            return False
        message = before.message if message is None else _shortened(message)
        return await self._write(replace(before, status=status, message=message))

    async def stop_process(self, process_id: str, message: str = "Stopped") -> bool:
        """Report that it has stopped; return whether that was written.

        The entry is shown as stopped until it is removed. A process that is not registered any
        more, or was taken over, is left alone.

        Raises:
            StoreUnreachable, StorageFull, LoginRejected: the store does not take it.
        """
        try:
            last = await self._last(process_id)
        except UnknownProcess:
            return False
        if last is None:
            return False
        stopped = replace(last[0], status=ProcessStatus.STOPPED, message=_shortened(message))
        is_ours = await self._write(stopped)
        self._written.pop(process_id.rpartition("@")[0], None)
        return is_ours

    async def get_active_processes(
        self, process_type: ProcessType | None = None
    ) -> list[ProcessInfo]:
        """All entries that are neither stopped nor stale, by type and component.

        Raises:
            StoreUnreachable, LoginRejected: the store cannot be read.
        """
        return [each for each in await self.get_processes(process_type) if each.active]

    async def get_processes(self, process_type: ProcessType | None = None) -> list[ProcessInfo]:
        """All entries, also those that are stopped or stale and not removed yet.

        Raises:
            StoreUnreachable, LoginRejected: the store cannot be read.
        """
        found = map(self._info, await self._opening.store.find(SPACE))
        return [
            info for info in found if info is not None and process_type in (None, info.process_type)
        ]

    async def _last(self, process_id: str) -> tuple[ProcessInfo, int] | None:
        """The last entry that was written, and how long ago; None if it was taken over.

        A cache that did not write it itself reads it: callers may open a cache for each report.
        """
        key, _, _ = process_id.rpartition("@")
        if known := self._remembered(key, process_id):
            return known
        found = await self._opening.store.get(SPACE, key)
        if known := self._remembered(key, process_id):  # written while this one read
            return known
        info = None if found is None else self._info(found)
        if info is None:
            raise UnknownProcess(process_id)
        return (info, info.age_ms) if info.process_id == process_id else None

    def _remembered(self, key: str, process_id: str) -> tuple[ProcessInfo, int] | None:
        known = self._written.get(key)
        if known is None or known[0].process_id != process_id:
            return None
        return known[0], (self._clock.monotonic_ns() - known[1]) // 1_000_000

    async def _write(self, info: ProcessInfo) -> bool:
        key, _, number = info.process_id.rpartition("@")
        stored = replace(info, age_ms=0, stale=False)
        value = LiveValue(
            key, _encode(stored), round(self._beat_s * _KEPT_BEATS * 1000), 0, _LINE, int(number)
        )
        before = self._written.get(key)
        # Before it is written, so that no other report is due meanwhile; and also if it was taken
        # over, so that the store is not asked at every report.
        self._written[key] = stored, self._clock.monotonic_ns()
        try:
            return await self._opening.store.put(SPACE, [value]) == 1
        except BaseException:
            if before is None:
                self._written.pop(key, None)
            else:
                self._written[key] = before
            raise

    def _info(self, found: LiveValue) -> ProcessInfo | None:
        """An entry; None if it was written by a newer version, or by another program."""
        try:
            info = _decode(found.value)
        except msgspec.DecodeError:
            return None
        stale = found.age_ms > self._beat_s * _STALE_BEATS * 1000
        return replace(info, age_ms=found.age_ms, stale=stale)


def _key(process_type: ProcessType, component: object) -> str:
    if process_type not in list(ProcessType):
        raise BadProcess("process_type", f"is one of {', '.join(ProcessType)}")
    if not isinstance(component, str) or not component.strip() or not component.isprintable():
        raise BadProcess("component", "is a text that can be printed")
    if len(component) > _LONGEST_NAME:
        raise BadProcess("component", f"has at most {_LONGEST_NAME} characters")
    return f"{ProcessType(process_type)}:{component}"


def _checked_status(status: ProcessStatus) -> ProcessStatus:
    if status not in list(ProcessStatus):
        raise BadProcess("status", f"is one of {', '.join(ProcessStatus)}")
    return ProcessStatus(status)


def _checked_params(params: Mapping[str, Any]) -> dict[str, Any]:
    try:
        encoded = _encode(params)
        found = msgspec.json.decode(encoded, type=dict[str, Any])
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadProcess("params", "is an object of values that JSON can hold") from error
    if len(encoded) > _LARGEST_PARAMS:
        raise BadProcess("params", f"has at most {_LARGEST_PARAMS} bytes as JSON")
    return found


def _shortened(message: str) -> str:
    masked = mask_urls(str(message))
    return masked if len(masked) <= _LONGEST_MESSAGE else masked[:_LONGEST_MESSAGE] + "…"
