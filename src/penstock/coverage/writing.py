"""Writes the coverage of a slot and its gaps to the state store, every second.

Nothing here stops the process: while the store cannot be reached, coverage and gaps wait in memory,
and what a killed process had not written is read from the log by the next one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from penstock.clock import Clock
from penstock.coverage.facts import CoverageNotStored
from penstock.coverage.gap_reports import GapReports
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_runs import IdRuns
from penstock.coverage.model import GapRow, SlotCoverage, as_coverage, as_document
from penstock.coverage.projection import QUIET_NS, Projection
from penstock.storage.lake.documents import read_seals
from penstock.storage.log import EventLog, StreamStats
from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, StateStore, Write
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import COVERAGE
from penstock.telemetry import Listener, quiet

_STEP_S = 0.25
_WRITE_NS = 1_000_000_000
_REFRESH_NS = 5_000_000_000
_READ_NS = 500_000_000
"""How long the log is read before what is found so far is written."""
_AGAIN_S = 2.0
_LAST_S = 2.0
"""How long the last write may take."""
_PAGE = 200
STREAMED = "collect-"
"""Slots of collectors begin so; others poll or fetch."""
_LONGER_AT_ONCE = 100
"""Series that only got longer and are written in one second; with more, each is written less often.
"""


@dataclass
class CoverageWriter:
    """Writes what a process has gathered. For one event loop."""

    projection: Projection
    reports: GapReports | None
    """None for a process that finds no gaps."""
    log: EventLog
    numbers: Callable[[], Mapping[Stream, int]]
    """Returns the last numbers of the slot's streams."""
    clock: Clock
    emit: Listener = quiet
    sync: Callable[[], Awaitable[None]] = field(init=False)
    """Waits until everything recorded so far survives a power cut."""
    take_recorded: Callable[[], None] = lambda: None
    """Passes on records that projection and reports have not received yet."""
    store: StateStore | None = None
    """None until it is open."""
    alive_ns: Callable[[], int | None] = lambda: None
    """Returns the time up to which everything that was sent is recorded; None if not known."""
    _written_ns: int = field(init=False, default=0)
    _refreshed_ns: int = field(init=False, default=0)
    _is_reported: bool = field(init=False, default=False)
    _catching_up: Generator[None, None, None] | None = field(init=False, default=None)
    """Continues where it was when time was up."""
    _missing: dict[Stream, int] = field(init=False, default_factory=dict)
    """By stream, the last number that the store knows and the slot lacks."""
    _elsewhere: dict[Stream, list[str]] = field(init=False, default_factory=dict)
    """The documents of other collectors' slots about streams that are collected here now."""
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Write every second, for ever."""
        while True:
            await self.clock.sleep(_STEP_S if await self._try() else _AGAIN_S)

    async def finish(self) -> None:
        """Write what is left, if the store answers in time."""
        self.take_recorded()
        if self.reports is not None:
            self.reports.finish()
        self._advance(at_least_ns=1)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_S):
                self._written_ns = 0
                await self._try(most_longer=None)
        if self._catching_up is not None:
            self._catching_up.close()

    async def write(self) -> None:
        """Write everything now.

        Raises:
            StorageError: the log or the store failed.
        """
        if self.store is not None:
            async with self._turn:
                await self._resume(self.store)
                self.take_recorded()
                self._advance()
                await self._write_gaps(self.store)
                await self._write_documents(self.store)

    async def missing_numbers(self) -> Mapping[Stream, int]:
        """The last number of each stream of which the store knows more than the slot has.

        Then the log is an older copy. Its ledger is corrected first. Call this before anything is
        recorded.

        Raises:
            StorageError: the log or the store failed.
        """
        assert self.store is not None
        async with self._turn:
            await self._begin(self.store)
            if self._missing:
                await self._write_documents(self.store)
            return self._missing

    async def take_up_others(self, exchange: str, owns: Callable[[Stream], bool]) -> None:
        """Take up what other collectors recorded of streams that are now collected here.

        A stream moves to another slot when the number of shards changes. What it lacks here is no
        gap if the slot before has it, also if that was deleted from the log, being in the lake.
        Call this before anything is recorded, once the state store is open.

        Raises:
            StorageError: the store failed.
        """
        assert self.store is not None
        assert self.reports is not None
        own = self.projection
        self._elsewhere.clear()
        for each in await read_coverage(self.store, exchange=exchange):
            is_other = each.slot != own.slot and each.slot.startswith(STREAMED)
            if is_other and each.log_id == own.log_id and owns(each.stream):
                self._elsewhere.setdefault(each.stream, []).append(each.id)
                self.reports.take_up(each)

    async def _held_elsewhere(self, store: StateStore, gap: GapRow) -> IdRuns:
        """The positions of a gap's series that other slots hold."""
        held = IdRuns()
        for id_ in self._elsewhere.get(gap.stream, ()):
            document = await store.get(COVERAGE, id_)
            found = as_coverage(document) if document is not None else None
            if found is not None and found.by == gap.by:
                for run in found.runs:
                    held.add_run(run.first, run.last)
        return held

    async def _try(self, most_longer: int | None = _LONGER_AT_ONCE) -> bool:
        """Write what is due; return whether that was possible."""
        if self.reports is not None:
            if self.reports.has_skipped:
                self.take_recorded()
            self.reports.confirm()
        if self.store is None:
            return True
        try:
            async with self._turn:
                await self._write_gaps(self.store)
                await self._resume(self.store)
                is_due = self.clock.monotonic_ns() - self._written_ns >= _WRITE_NS
                if is_due:
                    self._advance()
                # Those found just now too: a document says that all gaps before are reported.
                await self._write_gaps(self.store)
                if is_due:
                    await self._write_documents(self.store, most_longer)
                    self._written_ns = self.clock.monotonic_ns()
        except Exception as error:
            # Whatever it is: the process is more important, and the log has it all.
            if not self._is_reported:
                self.emit(CoverageNotStored(reason=f"{type(error).__name__}: {error}"))
            self._is_reported = True
            return False
        self._is_reported = False
        return True

    def _advance(self, at_least_ns: int = QUIET_NS) -> None:
        """Extend silent series up to now; markers, which end that, are passed on at once."""
        if (alive_ns := self.alive_ns()) is not None:
            self.projection.alive(alive_ns, at_least_ns=at_least_ns)

    async def _write_gaps(self, store: StateStore) -> None:
        if self.reports is not None:
            rows = GapRows(store)
            await self.reports.explain(rows, self.log)
            await self.reports.write(rows, partial(self._held_elsewhere, store))
            if self.clock.monotonic_ns() - self._refreshed_ns >= _REFRESH_NS:
                await self.reports.refresh(rows)
                self._refreshed_ns = self.clock.monotonic_ns()

    async def _resume(self, store: StateStore) -> None:
        """Continue from the store and the log, as far as other tasks leave time for it."""
        await self._begin(store)
        if not self.projection.is_behind:
            return
        until_ns = self.clock.monotonic_ns() + _READ_NS
        if self._catching_up is None:
            self._catching_up = self._catch_up()
        try:
            for _ in self._catching_up:
                await self.clock.sleep(0)
                if self.clock.monotonic_ns() > until_ns:
                    return
        except BaseException:
            self._catching_up.close()
            self._catching_up = None
            raise
        self._catching_up = None

    def _catch_up(self) -> Generator[None, None, None]:
        with closing(self.log.reader()) as log:
            yield from self.projection.catch_up(log)

    async def _begin(self, store: StateStore) -> None:
        """Read what is stored, once."""
        projection = self.projection
        if projection.is_resumed:
            return
        stored = await read_slot(store, projection.log_id, projection.slot)
        seals = await read_seals(store, projection.log_id, projection.slot)
        sealed = {name: number for each in seals for name, number in each.numbers.items()}
        here, begins = self.numbers(), dict[Stream, StreamStats]()
        known = {Stream(*name.split(".", 2)): number for name, number in sealed.items()}
        for each in stored:
            known[each.stream] = max(each.number, each.above, known.get(each.stream, 0))
        self._missing = {s: number for s, number in known.items() if number > here.get(s, 0)}
        if self._missing:
            with closing(self.log.reader()) as log:
                slots = [each for each in log.stats() if each.slot == projection.slot]
            begins = {each.stream: each for slot in slots for each in slot.streams}
        projection.resume(stored, here, sealed, begins)

    async def _write_documents(self, store: StateStore, most_longer: int | None = None) -> None:
        documents = self.projection.changed(most_longer)
        try:
            if documents:
                # First the log: the store never has what a power cut may remove from it.
                await self.sync()
                await write_coverage(store, [self._with_above(each) for each in documents])
        except BaseException:
            self.projection.not_written(documents)
            raise

    def _with_above(self, document: SlotCoverage) -> SlotCoverage:
        """The document with the number that is missing, until the slot has skipped it."""
        above = self._missing.get(document.stream, 0)
        return replace(document, above=above) if above else document


async def read_slot(store: StateStore, log_id: int, slot: str) -> list[SlotCoverage]:
    """What is stored about one slot of one log.

    Raises:
        StorageError: the store failed.
    """
    found = await read_coverage(store, slot=slot)
    return [each for each in found if each.log_id == log_id]


async def read_coverage(store: StateStore, **asked: str | None) -> list[SlotCoverage]:
    """The coverage of all slots; ``asked`` are fields and their required values, None for any.

    Raises:
        StorageError: the store failed.
    """
    where = [Condition(name, "=", value) for name, value in asked.items() if value is not None]
    found: list[SlotCoverage] = []
    after: Document | None = None
    while page := await store.find(COVERAGE, [where], limit=_PAGE, after=after):
        found += map(as_coverage, page)
        after = {"id": page[-1]["id"]}
    return found


async def write_coverage(store: StateStore, documents: Sequence[SlotCoverage]) -> None:
    """Write the coverage of series, in place of what was stored before.

    Raises:
        StorageError: the store failed.
    """
    for start in range(0, len(documents), _PAGE):
        page = {each.id: as_document(each) for each in documents[start : start + _PAGE]}
        patches = [
            Write(id_, {}, {name: value for name, value in each.items() if name != "id"})
            for id_, each in page.items()
        ]
        written = await store.write(COVERAGE, patches)
        for document, patched in zip(page.values(), written, strict=True):
            if patched is None:
                await store.insert_if_absent(COVERAGE, document)
