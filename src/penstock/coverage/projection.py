"""Gathers what a process records into the coverage of its slot, series by series.

It is a tap of the recorder. What it has gathered is written to the state store after the log is
synced, so the store may lag behind the log and never leads. After a restart it continues from the
stored numbers by reading the log; a log of an older version is read once as a whole.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import cast

from penstock.coverage.batches import StreamBatch
from penstock.coverage.model import By, GapRow, Run, SlotCoverage
from penstock.coverage.series import Consecutive, Series, kind_of
from penstock.market.channels import DISCONNECTS, recorded_in
from penstock.market.events import Disconnect, Event
from penstock.storage.log import LogReader, Span, Stored, StreamStats
from penstock.storage.log.keys import Stream, id_of_key

QUIET_NS = 10_000_000_000
"""How far the coverage of a stream without new records may lag."""
_AT_ONCE = 2_000
"""Records of the log to read before other tasks run."""
_TOGETHER = 20
"""Streams to catch up with before other tasks run, once their earlier records are read."""


class Projection:
    """The coverage of one slot. For one event loop."""

    def __init__(
        self, log_id: int, slot: str, consecutive: Consecutive, *, is_streamed: bool
    ) -> None:
        """``is_streamed``: without it, series by receive time are left out, since they were polled.

        What lies between two polls is not known.
        """
        self.log_id, self.slot, self._consecutive = log_id, slot, consecutive
        self._is_streamed = is_streamed
        self._series: dict[Stream, Series | None] = {}
        """None for streams without coverage."""
        self._covered: list[tuple[Stream, int, int]] = []
        """Ranges of candles that were told before it was resumed."""
        self._taken = 0
        """How often changes were taken to be written."""
        self.is_resumed = False
        self.found: Callable[[GapRow], None] = lambda _: None
        """Called with gaps that are known by time."""

    def take(self, batches: Sequence[StreamBatch]) -> None:
        """Update from newly recorded events, by stream.

        What is not resumed yet is read from the log later.
        """
        if not self.is_resumed:
            return
        markers = _markers(batches)
        for batch in batches:
            series = self._of(batch.stream)
            if series is None:
                continue
            # Numbers that are left out were written by an attempt that failed.
            series.is_behind |= batch.records[0].number > series.number + 1
            series.is_left_out |= series.is_behind
            if not series.is_behind:
                self._take(series, batch, markers.pop(batch.stream, ()))
                series.is_live = True
        for stream, some in markers.items():
            series = self._series.get(stream)
            if series is not None:
                series.is_left_out |= series.is_behind
            if series is not None and not series.is_behind:
                self._take(series, StreamBatch(stream, ()), some)

    def cover(self, stream: Stream, since_ms: int, until_ms: int) -> None:
        """Note that all candles of [since, until) are recorded: without one, there was no trade."""
        if not self.is_resumed:
            self._covered.append((stream, since_ms, until_ms))
            return
        series = self._of(stream)
        if series is not None and series.by == "open_ms":
            series.cover(since_ms, until_ms)

    def alive(self, until_ns: int, *, at_least_ns: int = QUIET_NS) -> None:
        """Note that everything that was sent up to a time is recorded.

        Streams without new records are extended by ``at_least_ns`` at a time, so that they are
        rarely written.
        """
        for series in self._series.values():
            if series is not None and series.is_live:
                last = series.runs.last
                if last is not None and until_ns - last.last >= at_least_ns:
                    series.alive(until_ns)

    def resume(
        self,
        stored: Iterable[SlotCoverage],
        numbers: Mapping[Stream, int],
        sealed: Mapping[str, int] = MappingProxyType({}),
        begins: Mapping[Stream, StreamStats] = MappingProxyType({}),
    ) -> None:
        """Continue from what is stored; ``numbers`` are the last ones that the slot has assigned.

        If the log has fewer records than were stored, it was damaged or replaced: then all of it is
        read again. What is sealed stays in it: everything, if ``sealed`` (the last sealed numbers)
        says so; else, of a collector, what is before the first record in the log (``begins``),
        since that was deleted from it. What workers recorded there may be newer, and lost.
        """
        known = {each.stream: each for each in stored}
        self.is_resumed = True
        for stream in {*known, *numbers}:
            by = self._kind_of(stream)
            if by is None:
                continue
            doc, last = known.get(stream), numbers.get(stream, 0)
            series = Series(stream, by)
            if doc is not None and doc.by == by:
                if doc.number <= last or doc.number <= sealed.get(str(stream), 0):
                    series = Series(stream, by, min(doc.number, last), doc.runs)
                elif self._is_streamed and stream in begins:
                    begin = _first_position(begins[stream], by)
                    series = Series(stream, by, 0, _below(doc.runs, begin))
            series.is_changed = doc is None or doc.by != by or doc.number > last
            # By time, markers after the last record are to be read too.
            series.is_behind = series.number < last or by != "id"
            self._series[stream] = series
        for each in self._covered:
            self.cover(*each)
        self._covered.clear()

    def catch_up(self, log: LogReader) -> Iterator[None]:
        """Read what is not in it yet; pauses after every few records, so that others may run.

        The log is looked at once for all streams. What is recorded meanwhile is read for a few at a
        time, without a pause after the look: otherwise busy streams would never be caught up with.
        """
        is_first = True
        while behind := [each for each in self._series.values() if each and each.is_behind]:
            held = log.held()
            behind = behind if is_first else behind[:_TOGETHER]
            for series in behind:
                series.is_left_out = False
            for series in behind:
                yield from self._read(series, held)
                if is_first:
                    yield
            is_first = False
            yield

    @property
    def is_behind(self) -> bool:
        """Whether the log has records that are not in it and do not come by the tap."""
        return any(series is not None and series.is_behind for series in self._series.values())

    def changed(self, most_longer: int | None = None) -> list[SlotCoverage]:
        """What has changed since the last call; to be written once the log is synced.

        Of series that only got longer, at most so many, those that waited longest; others follow.
        """
        found = [each for each in self._series.values() if each is not None and each.is_changed]
        if most_longer is not None and len(found) > most_longer:
            longer = [each for each in found if each.is_only_longer]
            longer.sort(key=attrgetter("written"))
            found = [each for each in found if not each.is_only_longer] + longer[:most_longer]
        self._taken += 1
        for series in found:
            series.is_changed, series.written = False, self._taken
            series.written_runs = len(series.runs)
        return [
            SlotCoverage(
                **series.stream._asdict(),
                log_id=self.log_id,
                slot=self.slot,
                number=series.number,
                by=series.by,
                runs=series.runs.all(),
            )
            for series in found
        ]

    def not_written(self, documents: Iterable[SlotCoverage]) -> None:
        """Note that these are to be written again."""
        for each in documents:
            series = self._series.get(each.stream)
            if series is not None:
                series.is_changed, series.written = True, 0

    def _read(self, series: Series, log: LogReader) -> Iterator[None]:
        found = log.numbers(series.stream, self.slot, series.number + 1)
        while records := list(islice(found, _AT_ONCE)):
            until_ns = records[-1].received_at_ns + 1
            self._add(
                series, log, records, Span(since_ns=self._since_ns(series), until_ns=until_ns)
            )
            if len(records) == _AT_ONCE:
                yield
        since_ns = self._since_ns(series)
        if series.by == "open_ms":
            newest = next(log.scan(series.stream, reverse=True, limit=1), None)
            since_ns = 0 if newest is None else newest.received_at_ns
        self._add(series, log, records, Span(since_ns=since_ns))
        # Whatever is recorded from now on comes by the tap.
        series.is_behind = series.is_left_out

    def _since_ns(self, series: Series) -> int:
        last = series.runs.last
        return last.last if series.by == "received_ns" and last is not None else 0

    def _add(self, series: Series, log: LogReader, records: Sequence[Stored], span: Span) -> None:
        markers = [] if series.by == "id" else _markers_of(log, series.stream, span)
        self._take(series, StreamBatch(series.stream, records), markers)

    def _take(self, series: Series, batch: StreamBatch, markers: Sequence[Disconnect]) -> None:
        for gap in series.take(batch, markers):
            self.found(gap)

    def _of(self, stream: Stream) -> Series | None:
        if stream not in self._series:
            by = self._kind_of(stream)
            self._series[stream] = None if by is None else Series(stream, by)
        return self._series[stream]

    def has_ids(self, stream: Stream) -> bool:
        """Whether the ids of a stream's records count, not only when they were received."""
        return self._kind_of(stream) in ("id", "open_ms")

    def _kind_of(self, stream: Stream) -> By | None:
        by = kind_of(stream, self._consecutive)
        return None if by == "received_ns" and not self._is_streamed else by


def _first_position(stats: StreamStats, by: By) -> int:
    first = None if by == "received_ns" else id_of_key(stats.first_key)
    return stats.first_received_ns if first is None else first


def _below(runs: Iterable[Run], position: int) -> Iterator[Run]:
    """The parts of runs before a position."""
    for run in runs:
        if run.first < position:
            yield run._replace(last=min(run.last, position - 1))


def _markers(batches: Iterable[StreamBatch]) -> dict[Stream, list[Disconnect]]:
    """The markers in a batch, by the streams that they are about."""
    found: dict[Stream, list[Disconnect]] = {}
    for batch in batches:
        if batch.stream.channel == DISCONNECTS.name:
            for stored in batch.records:
                for channel in _channels(stored.event):
                    stream = batch.stream._replace(channel=channel)
                    found.setdefault(stream, []).append(cast("Disconnect", stored.event))
    return found


def _markers_of(log: LogReader, stream: Stream, span: Span) -> list[Disconnect]:
    """The markers of one stream that were recorded in a time span."""
    return [
        cast("Disconnect", stored.event)
        for stored in log.scan(stream._replace(channel=DISCONNECTS.name), span)
        if stream.channel in _channels(stored.event)
    ]


def _channels(event: Event) -> set[str]:
    """The channels whose records may be missing after a marker."""
    assert isinstance(event, Disconnect), "nothing else is recorded there"
    return {each for channel in event.channels for each in recorded_in(channel)}
