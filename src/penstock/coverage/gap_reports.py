"""Reports what a collector did not receive as gaps, and keeps late records out of them.

Ids that were skipped may only be late, so a gap opens after two seconds. From then on it belongs to
its row in the state store: the job that fills it records these ids, and a live event with one of
them is dropped, so that every trade is recorded and published once. Gaps wait in memory while the
store cannot be reached.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from penstock.clock import Clock
from penstock.coverage.causes import explained, gap_row
from penstock.coverage.continuity import Continuity, MissedIds
from penstock.coverage.facts import LateDropped
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_runs import IdRuns
from penstock.coverage.model import MOST_POSITION, GapRow, SlotCoverage
from penstock.market.channels import find
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog
from penstock.storage.log.keys import Stream, id_of, stream_of
from penstock.telemetry import Listener, quiet

GRACE_NS = 2_000_000_000
"""How long skipped ids may be late."""


class ReportingSlot(Struct, frozen=True):
    """The slot whose owner reports gaps, and its log."""

    slot: str
    log_id: int


class _Skipped(NamedTuple):
    seen_ns: int
    ids: MissedIds


class GapReports:
    """The gaps that a process has found. For one event loop."""

    def __init__(
        self, continuity: Continuity, reporting: ReportingSlot, clock: Clock, emit: Listener = quiet
    ) -> None:
        self._continuity, self._reporting, self._clock, self._emit = (
            continuity, reporting, clock, emit,
        )  # fmt: skip
        self._skipped: deque[_Skipped] = deque()
        self._waiting: deque[GapRow] = deque()
        self._before: list[tuple[Stream, int, int]] = []
        """Ids that were missing at the start."""
        self._closed: dict[tuple[type[Event], Symbol], IdRuns] = {}
        """Ids that are recorded, or belong to a row: live events with one of these are dropped."""
        self._highest: dict[type[Event], dict[Symbol, int]] = {}
        """The highest of these ids: almost every event is above it."""
        self._unfilled: set[Stream] = set()
        """Streams with gaps that were open when they were last looked up."""
        self.late: Counter[Stream] = Counter()
        """Live events that were dropped although they are not recorded."""
        continuity.missed = self._miss

    @property
    def waiting(self) -> int:
        """Gaps that are not in the store yet."""
        return len(self._waiting)

    @property
    def has_skipped(self) -> bool:
        """Whether ids were skipped that may still arrive; then the latest records are needed."""
        return bool(self._skipped)

    def resume(self) -> None:
        """Take up everything that was missing when the process before this one ended."""
        for stream, ids in self._continuity.known():
            if ids.runs.first is not None and ids.runs.last is not None:
                self._close(stream, ids.runs.first, ids.runs.last)
            for first, last in ids.missing():
                self._close(stream, first, last)
                self._before.append((stream, first, last))
                self._unfilled.add(stream)

    def take_up(self, coverage: SlotCoverage) -> None:
        """Take up the ids that another slot holds; call this before ``resume``."""
        if coverage.by == "id":
            for run in coverage.runs:
                self._continuity.fill(coverage.stream, run.first, run.last)

    async def explain(self, rows: GapRows, log: EventLog) -> None:
        """Report what was missing before, unless it has a row already.

        Raises:
            StorageError: the log or the store failed.
        """
        if not self._before:
            return
        with closing(log.reader()) as reader:
            while self._before:
                stream = self._before[-1][0]
                reported = await rows.find(**stream._asdict())
                known = IdRuns()
                for row in reported:
                    known.add_run(row.first, row.last)
                while self._before and self._before[-1][0] == stream:
                    _, first, last = self._before.pop()
                    for part in known.lacking(first, last):
                        found = explained(reader, stream, *part)
                        self._open(
                            MissedIds(stream, *part, found.since_ms, found.until_ms, found.why)
                        )

    def find(self, gap: GapRow) -> None:
        """Report a gap that needs no grace: its end has been received."""
        self._waiting.append(self._stamped(gap))

    def confirm(self, *, at_once: bool = False) -> None:
        """Open the gaps that are older than the grace, or all."""
        due_ns = self._clock.monotonic_ns() - GRACE_NS
        while self._skipped and (at_once or self._skipped[0].seen_ns <= due_ns):
            missed = self._skipped.popleft().ids
            for first, last in self._continuity.still_missing(
                missed.stream, missed.first, missed.last
            ):
                self._open(missed._replace(first=first, last=last))

    def finish(self) -> None:
        """Open all gaps, also those after the last record: nothing is received any more."""
        self.confirm(at_once=True)
        for stream, ids in self._continuity.known():
            last = ids.runs.last
            if ids.latest is not None and last is not None and ids.latest > last:
                since_ms, found = self._continuity.last_ms(stream), self._continuity.absence(stream)
                self._open(MissedIds(stream, last + 1, ids.latest, since_ms, None, found))

    def admitted(self, events: Sequence[Event]) -> Sequence[Event]:
        """The live events to record: without those whose ids belong to a gap."""
        highest = self._highest
        if not highest:
            return events
        low = [
            event
            for event in events
            if (channel := highest.get(type(event))) is not None
            and event.id <= channel.get(event.symbol, -1)  # type: ignore[attr-defined]
        ]
        late = [event for event in low if id_of(event) in self._closed[type(event), event.symbol]]
        return self._without(events, late) if late else events

    async def write(
        self, rows: GapRows, held_elsewhere: Callable[[GapRow], Awaitable[IdRuns]]
    ) -> None:
        """Write the gaps to the store, in order; what is not written yet stays.

        What another slot holds (``held_elsewhere``) is not missing.

        Raises:
            StorageError: the store failed.
        """
        while self._waiting:
            gap = self._waiting[0]
            held = await held_elsewhere(gap)
            for first, last in held.lacking(gap.first, gap.last):
                await rows.open(replace(gap, first=first, last=last))
            if gap.by == "id":
                for first, last in held.runs():
                    self._continuity.fill(gap.stream, first, last)
            self._waiting.popleft()

    async def refresh(self, rows: GapRows) -> None:
        """Take up which gaps were filled meanwhile: their ids are not missing any more.

        Raises:
            StorageError: the store failed.
        """
        for stream, ids in list(self._continuity.known()):
            if stream not in self._unfilled:
                continue
            missing = ids.missing()
            found = (
                await rows.around(stream, "id", missing[0][0], missing[-1][1]) if missing else []
            )
            for row in found:
                if row.state == "filled":
                    self._continuity.fill(stream, row.first, row.last)
            if not any(row.state == "open" for row in found):
                self._unfilled.discard(stream)

    def _without(self, events: Sequence[Event], late: Sequence[Event]) -> list[Event]:
        # Others are recorded already, in this slot or by a job.
        counts = Counter(stream_of(event) for event in late if self._is_missing(event))
        self.late += counts
        for (exchange, channel, symbol), count in counts.items():
            self._emit(LateDropped(exchange=exchange, channel=channel, symbol=symbol, count=count))
        dropped = set(map(id, late))
        return [event for event in events if id(event) not in dropped]

    def _is_missing(self, event: Event) -> bool:
        number = id_of(event)
        if number is None:
            return False
        return bool(self._continuity.still_missing(stream_of(event), number, number))

    def _miss(self, missed: MissedIds) -> None:
        self._skipped.append(_Skipped(self._clock.monotonic_ns(), missed))

    def _open(self, missed: MissedIds) -> None:
        if missed.last > MOST_POSITION:
            return  # such an id is no id
        self._close(missed.stream, missed.first, missed.last)
        gap = gap_row(missed.stream, "id", (missed.first, missed.last), missed.why)
        times = {"since_ms": missed.since_ms, "until_ms": missed.until_ms}
        self._waiting.append(self._stamped(replace(gap, **times)))
        self._unfilled.add(missed.stream)

    def _close(self, stream: Stream, first: int, last: int) -> None:
        row = find(stream.channel)
        if row is not None:
            symbol = Symbol.parse(stream.symbol)
            runs = self._closed.setdefault((row.event, symbol), IdRuns())
            runs.add_run(first, last)
            self._highest.setdefault(row.event, {})[symbol] = max(last, runs.last or 0)

    def _stamped(self, gap: GapRow) -> GapRow:
        now_ms, (slot, log_id) = (
            self._clock.now_ms(),
            (self._reporting.slot, self._reporting.log_id),
        )
        closed_ms = None if gap.state == "open" else now_ms
        return replace(gap, slot=slot, log_id=log_id, opened_ms=now_ms, closed_ms=closed_ms)
