"""What one slot holds of one series, from its records and the markers of lost connections."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from penstock.coverage.batches import StreamBatch, TapRecord
from penstock.coverage.causes import Why, gap_row, why
from penstock.coverage.model import MOST_POSITION, By, GapRow, Run
from penstock.coverage.timed_runs import TimedRuns
from penstock.errors import UnknownInterval
from penstock.market.channels import find
from penstock.market.events import Disconnect
from penstock.market.interval import Interval
from penstock.storage.log.keys import Stream, id_of_key

_MS_NS = 1_000_000

Consecutive = Callable[[str], Collection[str]]
"""Returns the channels of an exchange whose ids are consecutive."""


def kind_of(stream: Stream, consecutive: Consecutive) -> By | None:
    """What the positions of a stream's records are; None for a stream without coverage."""
    row = find(stream.channel)
    if row is None or not row.is_subscribed:
        return None
    if stream.channel in consecutive(stream.exchange):
        return "id"
    return "open_ms" if row.id_kind == "opening_time" else "received_ns"


class Series:
    """What a slot holds of one series."""

    def __init__(self, stream: Stream, by: By, number: int = 0, runs: Iterable[Run] = ()) -> None:
        self.stream, self.by, self.runs = stream, by, TimedRuns(runs)
        self.number = number
        """All records up to this number are in it."""
        self.is_changed = False
        self.written = 0
        """When it was last taken to be written, as a count of such times; 0 for never …"""
        self.written_runs = 0
        """… and the number of its runs then."""
        self.is_behind = False
        """Whether the log has records that are to be read first."""
        self.is_left_out = False
        """Whether some were recorded meanwhile, and are to be read too."""
        self.is_live = False
        """Whether this process has received any of it."""
        self._absence: Why | None = None
        """Why the stream is interrupted; None while it is connected."""
        self._marked_ns = 0
        self._interval = _interval(stream) if by == "open_ms" else None

    @property
    def is_only_longer(self) -> bool:
        """Whether a run has grown since it was written, and there is no gap more or less."""
        return self.written > 0 and len(self.runs) == self.written_runs

    def take(self, batch: StreamBatch, markers: Sequence[Disconnect] = ()) -> Iterator[GapRow]:
        """Add records, with the markers that were recorded among them; return gaps by time."""
        batch = batch.above(self.number)
        records = batch.records
        for marker in markers:
            at_ns = marker.received_at_ns
            before = [each for each in records if each.event.received_at_ns < at_ns]
            yield from self._add(before)
            self._interrupt(marker)
            records = records[len(before) :]
        whole = len(records) == len(batch.records)
        yield from self._add(records, batch if whole else None)

    def cover(self, since_ms: int, until_ms: int) -> None:
        """Add the time range [since, until) of candles: all that exist in it are recorded."""
        if since_ms < until_ms:
            self._put(since_ms, until_ms - 1, since_ms, until_ms)

    def alive(self, until_ns: int) -> None:
        """Note that everything was received up to a time, though perhaps there was nothing."""
        last = self.runs.last
        if self.by != "received_ns" or self._absence is not None or last is None:
            return
        if until_ns > last.last:
            self._put(last.last + 1, until_ns, last.until_ms, until_ns // _MS_NS)

    def _interrupt(self, marker: Disconnect) -> None:
        """Note a marker: by receive time, what follows is a run of its own."""
        if marker.received_at_ns <= self._marked_ns or marker.cause == "damaged":
            return
        self._marked_ns = marker.received_at_ns
        lost_ns = marker.received_at_ns if marker.since_ns is None else marker.since_ns
        self.alive(min(lost_ns, marker.received_at_ns))
        self._absence = self._absence or why(marker)

    def _add(
        self, records: Sequence[TapRecord], batch: StreamBatch | None = None
    ) -> Iterator[GapRow]:
        if not records:
            return
        self.number, self.is_changed = records[-1].number, True
        batch = batch or StreamBatch(self.stream, records)
        gap = self._resumed(records) if self._absence is not None else None
        if gap is not None:
            yield gap
        match self.by:
            case "id":
                for first, last, begin, end in batch.ranges:
                    if last <= MOST_POSITION:
                        self._put(first, last, begin.event.market_ms, end.event.market_ms)
            case "open_ms":
                for first, last, _, _ in batch.ranges:
                    self.cover(first, self._next_open(last))
            case "received_ns" if self._absence is None:
                self._extend(records)

    def _resumed(self, records: Sequence[TapRecord]) -> GapRow | None:
        """End an interruption with the next live record; return the gap that is known by it."""
        live = next((each for each in records if each.event.source == "live"), None)
        absence, last = self._absence, self.runs.last
        if live is None or absence is None:
            return None
        self._absence = None
        first = live.event.received_at_ns
        if self.by == "received_ns":
            self._put(first, first, first // _MS_NS, first // _MS_NS)
        else:
            first = id_of_key(live.key) or 0
        if self.by == "id" or last is None or first <= last.last + 1:
            return None
        return gap_row(self.stream, self.by, (last.last + 1, first - 1), absence)

    def _extend(self, records: Sequence[TapRecord]) -> None:
        """Extend the last run to these records, or begin the first."""
        first_ns, last_ns = records[0].event.received_at_ns, records[-1].event.received_at_ns
        last = self.runs.last
        if last is None:
            self._put(first_ns, max(first_ns, last_ns), first_ns // _MS_NS, last_ns // _MS_NS)
        else:
            self.alive(last_ns)

    def _put(self, first: int, last: int, since_ms: int, until_ms: int) -> None:
        self.is_changed |= self.runs.add(Run(first, last, since_ms, until_ms))

    def _next_open(self, open_ms: int) -> int:
        return open_ms + 1 if self._interval is None else self._interval.next_open(open_ms)


def _interval(stream: Stream) -> Interval | None:
    row = find(stream.channel)
    try:
        return None if row is None else Interval.parse(row.suffix_in(stream.channel))
    except UnknownInterval:
        return None
