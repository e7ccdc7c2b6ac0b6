"""Which processes run, and what each of them collects, as they report themselves.

There is one entry for every process and one for every symbol that is collected, by type and
component. Who registers a component again takes its entry over: a later report of the one before is
ignored. An entry is written at most every ``BEAT_S`` seconds, and at once when its status changes.
After three missed beats it is stale, and is no longer active; after ten it is removed.

Each call has a form for many entries, which are read and written in batches.
"""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from random import getrandbits
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.clock import Clock
from penstock.errors import UnknownProcess
from penstock.live.opening import LiveCache, StoreOrUrl
from penstock.live.process_model import (
    BEAT_S,
    Outcome,
    ProcessInfo,
    ProcessReport,
    ProcessStatus,
    ProcessType,
    Registration,
    checked_params,
    checked_status,
    is_due,
    key_of,
    shortened,
)
from penstock.storage.cache import LiveValue

SPACE = "processes"
_STALE_BEATS, _KEPT_BEATS = 3, 10
_AT_ONCE = 1000
"""The most entries in one batch, for which the store has a time limit."""

# A registration has a number: the store's time, and chance for those at the same time.
_LINE, _CHANCE_BITS = "r", 20

_Last = tuple[ProcessInfo, int]
"""The last entry that was written, and how many milliseconds ago."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(ProcessInfo).decode


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
        registration = Registration(
            process_type=process_type,
            component=component,
            params=params or {},
            message=message,
            status=status,
        )
        [process_id] = await self.register_processes([registration])
        return process_id

    async def register_processes(self, registrations: Sequence[Registration]) -> list[str]:
        """Register many in batches; return the id of each. See ``register_process``.

        Raises:
            BadProcess: an argument is invalid. Nothing was changed.
            StoreUnreachable, StorageFull, LoginRejected: the store does not take them all.
        """
        checked = [(key_of(each), each, checked_params(each.params)) for each in registrations]
        if not checked:
            return []
        there = await self._read([key for key, _, _ in checked])
        now = await self._opening.store.now_ms() << _CHANCE_BITS
        # Also if the store's clock was set back, or a component is named twice.
        least = {found.key: found.number + 1 for found in there if found is not None}
        infos: list[ProcessInfo] = []
        for key, each, params in checked:
            number = max(now + getrandbits(_CHANCE_BITS), least.get(key, 0))
            least[key] = number + 1
            infos.append(
                ProcessInfo(
                    process_id=f"{key}@{number}",
                    process_type=ProcessType(each.process_type),
                    component=each.component,
                    status=checked_status(each.status),
                    message=shortened(each.message),
                    params=params,
                    host=platform.node(),
                    pid=os.getpid(),
                    started_ms=self._clock.now_ms(),
                )
            )
        await self._write(infos)
        return [info.process_id for info in infos]

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
        report = ProcessReport(process_id=process_id, status=status, message=message)
        [outcome] = await self.update_processes([report])
        if outcome is Outcome.UNKNOWN:
            raise UnknownProcess(process_id)
        return outcome is Outcome.WRITTEN

    async def update_processes(self, reports: Sequence[ProcessReport]) -> list[Outcome]:
        """Report for many in batches; return what became of each. See ``update_process``.

        Raises:
            BadProcess: a status is none, or parameters are invalid. Nothing was changed.
            StoreUnreachable, StorageFull, LoginRejected: the store does not take them all.
        """
        params = [None if each.params is None else checked_params(each.params) for each in reports]
        statuses = [
            None if each.status is None else checked_status(each.status) for each in reports
        ]
        last = await self._last([each.process_id for each in reports])
        outcomes: list[Outcome] = []
        due: dict[int, ProcessInfo] = {}
        for number, (report, status) in enumerate(zip(reports, statuses, strict=True)):
            known = last[report.process_id]
            if isinstance(known, Outcome):
                outcomes.append(known)
                continue
            before, since_ms = known
            outcomes.append(Outcome.NOT_DUE)
            if is_due(before.status, status or before.status, since_ms, self._beat_s):
                message = before.message if report.message is None else shortened(report.message)
                due[number] = replace(
                    before,
                    status=status or before.status,
                    message=message,
                    params=params[number] or before.params,
                )
        for number, is_ours in zip(due, await self._write(list(due.values())), strict=True):
            outcomes[number] = Outcome.WRITTEN if is_ours else Outcome.TAKEN_OVER
        return outcomes

    async def stop_process(self, process_id: str, message: str = "Stopped") -> bool:
        """Report that it has stopped; return whether that was written.

        The entry is shown as stopped until it is removed. A process that is not registered any
        more, or was taken over, is left alone.

        Raises:
            StoreUnreachable, StorageFull, LoginRejected: the store does not take it.
        """
        return await self.stop_processes([process_id], message) == 1

    async def stop_processes(self, process_ids: Iterable[str], message: str = "Stopped") -> int:
        """Report that many have stopped, in batches; return how many. See ``stop_process``.

        Raises:
            StoreUnreachable, StorageFull, LoginRejected: the store does not take them all.
        """
        last = await self._last(list(process_ids))
        message = shortened(message)
        stopped = [
            replace(known[0], status=ProcessStatus.STOPPED, message=message)
            for known in last.values()
            if not isinstance(known, Outcome)
        ]
        written = await self._write(stopped)
        for info in stopped:
            self._written.pop(info.process_id.rpartition("@")[0], None)
        return sum(written)

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

    async def _last(self, process_ids: Sequence[str]) -> dict[str, _Last | Outcome]:
        """The last entry of each that was written, or why there is none.

        What this cache did not write itself is read: callers may open a cache for each report.
        """
        keys = {each: each.rpartition("@")[0] for each in process_ids}
        asked = [key for each, key in keys.items() if self._remembered(key, each) is None]
        there = await self._read(asked)
        found = {each.key: self._info(each) for each in there if each is not None}
        last: dict[str, _Last | Outcome] = {}
        for each, key in keys.items():
            # Looked up again: it may have been written while this one read.
            if known := self._remembered(key, each):
                last[each] = known
            elif (info := found.get(key)) is None:
                last[each] = Outcome.UNKNOWN
            else:
                ours = info.process_id == each
                last[each] = (info, info.age_ms) if ours else Outcome.TAKEN_OVER
        return last

    def _remembered(self, key: str, process_id: str) -> _Last | None:
        known = self._written.get(key)
        if known is None or known[0].process_id != process_id:
            return None
        return known[0], (self._clock.monotonic_ns() - known[1]) // 1_000_000

    async def _read(self, keys: Sequence[str]) -> list[LiveValue | None]:
        store, found = self._opening.store, list[LiveValue | None]()
        for at in range(0, len(keys), _AT_ONCE):
            found += await store.get_many(SPACE, keys[at : at + _AT_ONCE])
        return found

    async def _write(self, infos: Sequence[ProcessInfo]) -> list[bool]:
        """Write entries; return of each whether it was not taken over."""
        written: list[bool] = []
        for at in range(0, len(infos), _AT_ONCE):
            written += await self._write_batch(infos[at : at + _AT_ONCE])
        return written

    async def _write_batch(self, infos: Sequence[ProcessInfo]) -> list[bool]:
        ttl_ms = round(self._beat_s * _KEPT_BEATS * 1000)
        values: list[LiveValue] = []
        before: dict[str, tuple[ProcessInfo, int] | None] = {}
        for info in infos:
            key, _, number = info.process_id.rpartition("@")
            stored = replace(info, age_ms=0, stale=False)
            values.append(LiveValue(key, _encode(stored), ttl_ms, 0, _LINE, int(number)))
            before.setdefault(key, self._written.get(key))
            # Before it is written, so that no other report is due meanwhile; and also if it was
            # taken over, so that the store is not asked at every report.
            self._written[key] = stored, self._clock.monotonic_ns()
        store = self._opening.store
        try:
            if await store.put(SPACE, values) == len(values):
                return [True] * len(values)
            there = await store.get_many(SPACE, [value.key for value in values])
        except BaseException:
            for key, known in before.items():
                if known is None:
                    self._written.pop(key, None)
                else:
                    self._written[key] = known
            raise
        return [
            found is None or found.number <= value.number
            for found, value in zip(there, values, strict=True)
        ]

    def _info(self, found: LiveValue) -> ProcessInfo | None:
        """An entry; None if it was written by a newer version, or by another program."""
        try:
            info = _decode(found.value)
        except msgspec.DecodeError:
            return None
        stale = found.age_ms > self._beat_s * _STALE_BEATS * 1000
        return replace(info, age_ms=found.age_ms, stale=stale)
