"""The keeper: seals the slots of its data folder, has the log trimmed, and keeps tables in order.

All it does is repeated every few minutes from what the log and the lake hold, and each step is one
transaction. So it may be killed at any time, and several keepers may work on one lake. What blocks
runs in one thread; a failure of one slot or table does not stop the others.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from penstock.clock import Clock, wait_for
from penstock.config import Settings
from penstock.errors import PenstockError, SlotInUse
from penstock.keep.coverage import CoverageCopy, covered_numbers
from penstock.keep.deletions import hot_ns, plan_deletions
from penstock.keep.facts import ChannelSealed, KeepingFailed, LakeMeasured, LogMeasured
from penstock.keep.planning import Planned
from penstock.keep.sealing import Sealer, rows_with_streams
from penstock.keep.upkeep import TableUpkeep, read_retention
from penstock.market.channels import BY_EVENT, Channel
from penstock.runtime.status import Report, read_processes, slot_status_id
from penstock.runtime.trimming import Trimmer
from penstock.storage.lake import Lake, TableStats
from penstock.storage.lake.documents import SealState, merge_seals, read_seals
from penstock.storage.log import EventLog, SlotStats
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore
from penstock.telemetry import Listener, quiet

P = ParamSpec("P")
T = TypeVar("T")

_FOREVER = (1 << 63) - 1
_DAY_S = 86_400.0
_ABANDONED_MS = 600_000
"""A slot whose owner was not seen for this long has none."""


@dataclass(frozen=True)
class KeeperServices:
    """What a keeper works with."""

    lake: Lake
    log: EventLog
    log_id: int
    store: StateStore
    clock: Clock
    emit: Listener = quiet


class Keeper:
    """Keeps one data folder and its lake. For one event loop."""

    def __init__(self, services: KeeperServices, settings: Settings) -> None:
        """Check the settings.

        Raises:
            ConfigError: a rule of retention is invalid.
        """
        self._services, self._keep, self._storage = services, settings.keep, settings.storage
        lake, emit = services.lake, services.emit
        self._upkeep = TableUpkeep(lake, read_retention(self._keep.retention), emit)
        self._reader = services.log.reader()
        reader, open_log = self._reader, services.log.reader
        self._sealer = Sealer(lake, reader, open_log, services.log_id, self._keep, emit)
        self._coverage = CoverageCopy(services.store, lake)
        self._thread = ThreadPoolExecutor(1, "keeper")
        self.rows = 0
        """Rows sealed since it was started."""
        self.log_bytes = self.lake_bytes = 0
        self.slots: list[SlotStats] = []
        """The slots of the log when they were last read; below, the tables of the lake."""
        self.tables: list[TableStats] = []
        self.problems: dict[str, str] = {}
        """By part of the work, until it succeeds."""
        self._deleted_ns = self._kept_ns = self._vacuumed_ns = -(10**18)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until stopped; what is being written is completed."""
        while not stop.is_set():
            await self.seal_all(stop)
            regularly_s = min(self._keep.hot / 24, self._keep.compact_every)
            if self._is_too_large() or self._due(self._deleted_ns, regularly_s):
                self._deleted_ns = self._services.clock.monotonic_ns()
                await self.trim_all(stop)
            if self._due(self._kept_ns, self._keep.compact_every):
                self._kept_ns = self._services.clock.monotonic_ns()
                await self.maintain(stop)
            await wait_for(stop, self._services.clock, self._keep.seal_every)

    def _is_too_large(self) -> bool:
        """Whether the log exceeded its maximum size when it was last read."""
        return 0 < self._storage.log_max_bytes < self.log_bytes

    async def run_once(self, stop: asyncio.Event | None = None) -> None:
        """Do all that is due now."""
        await self.seal_all(stop)
        await self.trim_all(stop)
        await self.maintain(stop)

    def _due(self, last_ns: int, every_s: float) -> bool:
        return self._services.clock.monotonic_ns() - last_ns >= every_s * 1e9

    async def seal_all(self, stop: asyncio.Event | None = None) -> None:
        """Seal what is closed of every slot, and copy the ledger of what is complete."""
        for slot in await self._slots():
            for row, streams in rows_with_streams(slot).items():
                if stop is not None and stop.is_set():
                    return
                with self._reported(f"sealing {row.name} of {slot.slot}"):
                    await self._seal(slot.slot, row, streams)
        with self._reported("copying the coverage"):
            await self._coverage.copy(self._blocking)
        with self._reported("reading the size of the lake"):
            self.tables = await self._blocking(self._services.lake.stats)
            tables = {each.name: each.size_bytes for each in self.tables}
            self.lake_bytes = sum(tables.values())
            self._services.emit(LakeMeasured(tables=tables))

    async def _seal(self, slot: str, row: Channel, streams: list[Stream]) -> None:
        verified = await self._verified(slot, row)
        numbers = {stream: verified.get(str(stream), 0) for stream in streams}
        before_ns = self._services.clock.now_ns() - round(self._keep.settle * 1e9)
        sealing = self._sealer.seal(row, slot, numbers, before_ns)
        before_ms = before_ns // 1_000_000
        while (done := await self._blocking(next, sealing, None)) is not None:
            self.rows += done.rows
            written = {str(stream): number for stream, number in done.numbers.items()}
            sealed_ms = before_ms if done.complete else 0
            state = self._state(slot, row, numbers=written, sealed_ms=sealed_ms)
            await merge_seals(self._services.store, state)
            if done.complete:
                sealed = ChannelSealed(slot=slot, table=row.name, before_ms=before_ms)
                self._services.emit(sealed)

    async def _verified(self, slot: str, row: Channel) -> dict[str, int]:
        states = await read_seals(self._services.store, self._services.log_id, slot)
        return next((state.numbers for state in states if state.channel == row.name), {})

    def _state(self, slot: str, row: Channel, **fields: object) -> SealState:
        log_id = f"{self._services.log_id:x}"
        return SealState(log_id=log_id, slot=slot, channel=row.name, **fields)  # type: ignore[arg-type]

    async def trim_all(self, stop: asyncio.Event | None = None) -> None:
        """Have every slot delete what is sealed and old enough."""
        slots, now_ns = await self._slots(), self._services.clock.now_ns()
        hot = hot_ns(slots, now_ns, self._keep.hot, self._storage.log_max_bytes)
        for slot in slots:
            if stop is not None and stop.is_set():
                return
            with self._reported(f"deleting sealed records of {slot.slot}"):
                await self._trim(slot, now_ns - hot)

    async def _trim(self, slot: SlotStats, before_ns: int) -> None:
        services = self._services
        covered = await covered_numbers(services.store, services.log_id, slot.slot)
        for row, streams in rows_with_streams(slot).items():
            if row.stays_in_log:
                continue
            numbers = await self._verified(slot.slot, row)
            # What the slot's ledger has not seen yet is read from the log once it catches up.
            verified = {
                stream: min(numbers.get(str(stream), 0), covered.get(stream, _FOREVER))
                for stream in streams
            }
            stats = [each for each in slot.streams if each.stream in verified]
            planned = await self._blocking(
                plan_deletions, self._reader, slot.slot, stats, verified, before_ns
            )
            if planned:
                deletions = {str(stream): each for stream, each in planned.items()}
                await merge_seals(services.store, self._state(slot.slot, row, deletions=deletions))
        if await self._is_abandoned(slot.slot):
            await self._trim_abandoned(slot.slot)

    async def _is_abandoned(self, slot: str) -> bool:
        id_ = slot_status_id(self._services.log_id, slot)
        seen = [each for each in await read_processes(self._services.store) if each.id == id_]
        return not seen or seen[0].silent_ms > _ABANDONED_MS

    async def _trim_abandoned(self, slot: str) -> None:
        """Delete from a slot without an owner; an owner that starts meanwhile is left alone."""
        services = self._services
        states = await read_seals(services.store, services.log_id, slot)
        if not any(state.deletions for state in states):
            return
        try:
            writer = services.log.writer(slot, briefly=True)
        except SlotInUse:
            return
        with closing(writer):
            await Trimmer(writer, services.log_id, services.clock, services.emit).trim(states)

    async def maintain(self, stop: asyncio.Event | None = None) -> None:
        """Apply the retention and compact; once a day, remove files that are no longer used."""
        vacuum = self._due(self._vacuumed_ns, _DAY_S)
        if vacuum:
            self._vacuumed_ns = self._services.clock.monotonic_ns()
        for row in BY_EVENT.values():
            with self._reported(f"maintaining {row.name}"):
                now_ms = self._services.clock.now_ms()
                planned = await self._blocking(self._upkeep.plan, row, now_ms)
                await self._blocking(self._upkeep.delete, planned)
                for each in planned.compact:
                    if stop is not None and stop.is_set():
                        return
                    await self._blocking(self._upkeep.compact, row, each)
                if vacuum:
                    lake, hours = self._services.lake, self._keep.vacuum_hours
                    await self._blocking(lake.vacuum, row, hours)

    async def plan(self) -> list[Planned]:
        """What is due now. Nothing is changed.

        Raises:
            StorageError: the log or the lake cannot be read.
        """
        services, clock = self._services, self._services.clock
        slots, planned = await self._slots(), list[Planned]()
        before_ns = clock.now_ns() - round(self._keep.settle * 1e9)
        for slot in slots:
            for row, streams in rows_with_streams(slot).items():
                count = await self._blocking(
                    self._sealer.unsealed, row, slot.slot, streams, before_ns
                )
                if count:
                    planned.append(
                        Planned(action="seal", table=row.name, where=slot.slot, records=count)
                    )
        for row in BY_EVENT.values():
            planned += await self._blocking(self._upkeep.planned, row, clock.now_ms())
            unused = await self._blocking(
                services.lake.vacuum, row, self._keep.vacuum_hours, dry_run=True
            )
            if unused:
                planned.append(Planned(action="vacuum", table=row.name, files=unused))
        return planned

    async def _slots(self) -> list[SlotStats]:
        self.slots = slots = await self._blocking(self._reader.stats)
        sizes = {slot.slot: slot.size_bytes for slot in slots}
        self.log_bytes = sum(sizes.values())
        self._services.emit(LogMeasured(slots=sizes, max_bytes=self._storage.log_max_bytes))
        return slots

    async def _blocking(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(work, *args, **kwargs))

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Report a failure instead of raising it."""
        try:
            yield
        except PenstockError as error:
            self.problems[what] = str(error)
            self._services.emit(KeepingFailed(what=what, reason=str(error)))
        else:
            self.problems.pop(what, None)

    def report(self) -> Report:
        """What it does, for its status."""
        most = self._storage.log_max_bytes
        bound = f" of {most / 1e6:,.1f} MB" if most else ""
        doing = (
            f"{self.rows:,} rows sealed; log {self.log_bytes / 1e6:,.1f} MB{bound};"
            f" lake {self.lake_bytes / 1e6:,.1f} MB"
        )
        problems = tuple(f"{what}: {reason}" for what, reason in self.problems.items())
        return Report(doing=doing, problems=problems, activity=self.rows)

    def close(self) -> None:
        """Wait for what is being written."""
        self._thread.shutdown()
        self._reader.close()
