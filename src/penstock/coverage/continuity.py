"""Tracks which ids were recorded, and so which are missing.

It is a tap of the recorder and receives only written records, so every id that it lists as seen can
be read back.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.coverage.batches import StreamBatch
from penstock.coverage.causes import Why, why
from penstock.coverage.facts import GapFound, RecordsLost
from penstock.coverage.id_runs import IdGap, IdRuns
from penstock.coverage.stored import GapCount, IdsStatus, StreamIds, claimed, confirmed
from penstock.market.channels import DISCONNECTS
from penstock.market.events import Disconnect, Event
from penstock.storage.log import LogReader, Span
from penstock.storage.log.keys import Stream, id_of, id_of_key, key_of_id, stream_of
from penstock.telemetry import Listener


class MissedIds(NamedTuple):
    """Ids that were skipped: they may still arrive."""

    stream: Stream
    first: int
    last: int
    since_ms: int | None
    """The market time of the record before them …"""
    until_ms: int | None
    """… and of the one after them. None: there is none."""
    why: Why


class Continuity:
    """The ids of every stream with consecutive ids."""

    def __init__(
        self,
        channels: Collection[str],
        emit: Listener,
        owns: Callable[[Stream], bool] = lambda _: True,
    ) -> None:
        """``owns`` says whether a stream is collected here; others record the rest."""
        self._channels, self._emit, self._owns = frozenset(channels), emit, owns
        self._ids: dict[Stream, StreamIds] = {}
        self._latest: dict[Stream, int] = {}
        """The latest ids of streams without a record yet."""
        self._absent: dict[Stream, Why] = {}
        """Streams with a marker of a possible gap, until their next record."""
        self._last_ms: dict[Stream, int] = {}
        """The market time of each stream's last record."""
        self.missed: Callable[[MissedIds], None] = lambda _: None
        """Called when ids are skipped."""
        self._gaps: Counter[tuple[str, str]] = Counter()
        """By channel and cause."""

    def resume(
        self, exchange: str, before: Iterable[IdsStatus], log: LogReader, *, doubted: bool = False
    ) -> None:
        """Restore the ids of a previous status, and those recorded after it was written.

        The previous collector may have been killed in between, and records come in any order. So
        all ids that the status does not list as seen are looked up in the log: below, between and
        above its runs. With ``doubted`` (the log lacks records that the status lists) the seen ids
        are looked up too, and those not found are missing.
        """
        for stored in before:
            stream = Stream(exchange, stored.channel, stored.symbol)
            if not self._owns(stream):
                continue
            ids = claimed(stored)
            if doubted:
                was, ids = len(ids.runs), confirmed(stored, stream, log)
                self._emit_lost(stream, was - len(ids.runs))
            self._ids[stream] = ids
        for stream in log.streams():
            is_counted = stream.exchange == exchange and stream.channel in self._channels
            if is_counted and self._owns(stream):
                runs = self._ids_of(stream).runs
                for key in log.keys_in(stream, _unseen(runs)):
                    number = id_of_key(key)
                    if number is not None:
                        runs.add(number)
                self._resume_absence(stream, log)

    def _resume_absence(self, stream: Stream, log: LogReader) -> None:
        """Find the last record of a stream, and whether a marker came after it."""
        last = next(log.scan(stream, reverse=True, limit=1), None)
        markers = log.scan(stream._replace(channel=DISCONNECTS.name), reverse=True, limit=1)
        if last is None:
            return
        self._last_ms[stream] = last.event.market_ms
        for stored in markers:
            marker = stored.event
            if (
                isinstance(marker, Disconnect)
                and marker.cause != "damaged"  # that is about an earlier range
                and stream.channel in marker.channels
                and marker.received_at_ns >= last.received_at_ns
            ):
                self._absent[stream] = why(marker)

    def take(self, batches: Sequence[StreamBatch]) -> None:
        """Update from newly recorded events, by stream."""
        marked: dict[Stream, Why] = {}
        for batch in batches:
            if batch.stream.channel == DISCONNECTS.name:
                for stored in batch.records:
                    self._mark(stored.event, marked)
        for batch in batches:
            if batch.stream.channel in self._channels:
                self._take_ids(batch, marked)
        self._absent |= marked

    def _take_ids(self, batch: StreamBatch, marked: dict[Stream, Why]) -> None:
        stream = batch.stream
        runs = (self._ids.get(stream) or self._ids_of(stream)).runs
        absence, later = self._absent.pop(stream, Why()), marked.get(stream)
        for first, last, begin, end in batch.ranges:
            if later is not None and later.marked_ns <= begin.event.received_at_ns:
                # The marker of this batch was recorded before these records.
                absence, later = later, None
            if runs.last is not None and first > runs.last + 1:
                self._gaps[stream.channel, absence.cause] += 1
                gap = IdGap(runs.last + 1, first - 1)
                self._emit_gap(stream, gap)
                since_ms, until_ms = self._last_ms.get(stream), begin.event.market_ms
                self.missed(MissedIds(stream, *gap, since_ms, until_ms, absence))
            if runs.first is not None and last < runs.first - 1:
                # Older than all others: what is between them is missing from now on.
                since_ms = end.event.market_ms
                self.missed(MissedIds(stream, last + 1, runs.first - 1, since_ms, None, Why()))
            if runs.last is None or last > runs.last:
                self._last_ms[stream] = end.event.market_ms
            runs.add_run(first, last)
            absence = Why()
        if later is None:
            marked.pop(stream, None)

    def recovered(self, events: Sequence[Event]) -> None:
        """Add events that are in the log; a failed attempt may have written some of them."""
        for event in events:
            stream = stream_of(event)
            number = id_of(event) if stream.channel in self._channels else None
            if number is not None:
                self._ids_of(stream).runs.add(number)

    def fill(self, stream: Stream, first: int, last: int) -> None:
        """Add ids that another process has recorded."""
        self._ids_of(stream).runs.add_run(first, last)

    def note_latest(self, stream: Stream, latest: int) -> None:
        """Note the latest id on the exchange, so that lost ids at the end count as missing."""
        if stream in self._ids:
            self._ids[stream].latest = latest
        else:
            self._latest[stream] = latest

    def behind(self, stream: Stream) -> bool:
        """Whether the latest id that is known to exist is not recorded yet."""
        ids = self._ids.get(stream)
        if ids is None or ids.latest is None or ids.runs.last is None:
            return False
        return ids.runs.last < ids.latest

    def still_missing(self, stream: Stream, first: int, last: int) -> list[tuple[int, int]]:
        """The ids of a range that are not recorded."""
        ids = self._ids.get(stream)
        return [(first, last)] if ids is None else ids.runs.lacking(first, last)

    def absence(self, stream: Stream) -> Why:
        """Why records of a stream are missing that were not followed by another yet."""
        return self._absent.get(stream, Why())

    def last_ms(self, stream: Stream) -> int | None:
        """The market time of a stream's last record."""
        return self._last_ms.get(stream)

    def known(self) -> Iterator[tuple[Stream, StreamIds]]:
        """The ids of every stream."""
        yield from self._ids.items()

    def last(self, stream: Stream) -> int | None:
        """The highest id recorded."""
        ids = self._ids.get(stream)
        return ids.runs.last if ids is not None else None

    def status(self) -> list[IdsStatus]:
        """Seen and missing ids, by stream."""
        return [ids.stored(stream) for stream, ids in self._ids.items()]

    def gaps(self) -> list[GapCount]:
        """Gaps since the start, by channel and cause; without ids, possible gaps."""
        return [
            GapCount(channel=channel, cause=cause, count=count)
            for (channel, cause), count in self._gaps.items()
        ]

    def _ids_of(self, stream: Stream) -> StreamIds:
        ids = self._ids.get(stream)
        if ids is None:
            ids = self._ids[stream] = StreamIds()
            ids.latest = self._latest.pop(stream, None)
        return ids

    def _mark(self, marker: Event, marked: dict[Stream, Why]) -> None:
        """Note why there may be a gap before the next record."""
        assert isinstance(marker, Disconnect), "nothing else is recorded there"
        for channel in marker.channels:
            if channel in self._channels:
                marked[Stream(marker.exchange, channel, marker.symbol.slug)] = why(marker)
            else:
                self._gaps[channel, marker.cause] += 1

    def _emit_lost(self, stream: Stream, count: int) -> None:
        if count:
            exchange, channel, symbol = stream
            self._emit(RecordsLost(exchange=exchange, channel=channel, symbol=symbol, count=count))

    def _emit_gap(self, stream: Stream, gap: IdGap) -> None:
        self._emit(
            GapFound(
                exchange=stream.exchange,
                channel=stream.channel,
                symbol=stream.symbol,
                first=gap.first,
                last=gap.last,
            )
        )


def _unseen(runs: IdRuns) -> list[Span]:
    """All key ranges outside the runs."""
    if runs.first is None or runs.last is None:
        return [Span()]
    below, above = Span(end=key_of_id(runs.first)), Span(first=key_of_id(runs.last + 1))
    holes = [Span(key_of_id(gap.first), key_of_id(gap.last + 1)) for gap in runs.gaps()]
    return [below, *holes, above]
