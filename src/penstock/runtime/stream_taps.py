"""Passes what was recorded to taps that work by stream, all records of some seconds at once.

A collector writes hundreds of small batches a second, each with a record or two of many streams. A
tap costs as much for one record of a stream as for a hundred. So the records of each stream are
gathered for a moment: only the first and the last of them are kept, and which ids they have.
Streams become due one after the other, so the event loop is never blocked for long. Records whose
ids are not consecutive are passed on at once, since there may be a gap.
"""

from collections.abc import Callable, Sequence

from penstock.coverage.batches import GrowingBatch, StreamBatch, by_stream, new_gatherer
from penstock.market.events import Disconnect
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream

WITHIN_S = 3.0
"""How long records of a collector are gathered, while others follow, unless somebody asks."""

StreamTap = Callable[[Sequence[StreamBatch]], None]
"""Called with new records by stream, in the order of recording within each."""


class StreamTaps:
    """A tap of the recorder. For one event loop."""

    def __init__(
        self, taps: Sequence[StreamTap], within_s: float, has_ids: Callable[[Stream], bool]
    ) -> None:
        """``has_ids``: whether the taps ask for the ids of a stream's records."""
        self._taps, self._within_ns = tuple(taps), round(within_s * 1_000_000_000)
        self._has_ids = has_ids
        self._kept: dict[Stream, GrowingBatch] = {}
        """The stream whose records have been kept for longest comes first."""
        self._ended: list[StreamBatch] = []
        """Batches that are passed on at once, or could not grow any more."""
        self._gatherer = new_gatherer()
        self._due_ns = 0
        """When the first of what is kept is due, at the earliest."""
        self.failed: Callable[[StreamTap, Exception], None]
        """Called with a tap that raised."""

    def __call__(self, recorded: Sequence[Stored]) -> None:
        """Keep newly recorded events until their streams are due."""
        if not self._within_ns:
            self._pass(by_stream(recorded))
        elif not self._keep(recorded):
            # What a marker says depends on which records were before it.
            self.pass_on()
            self._pass(by_stream(recorded))
        else:
            due, self._ended = self._ended, []
            if (now_ns := recorded[-1].event.received_at_ns) >= self._due_ns:
                due += self._outdated(now_ns)
            if due:
                self._pass(due)

    def pass_on(self) -> None:
        """Pass on what is kept; due before anything is read from a tap."""
        if self._kept:
            kept, self._kept = self._kept, {}
            self._pass([each.take() for each in kept.values()])

    def _keep(self, recorded: Sequence[Stored]) -> bool:
        """Keep records; False, and none is kept, if there is a marker among them."""
        if self._gatherer is not None:
            return self._gatherer.gather(recorded, self._kept, self._keep_one)
        if Disconnect in {type(stored.known) for stored in recorded}:
            return False
        for stored in recorded:
            self._keep_one(stored)
        return True

    def _keep_one(self, stored: Stored) -> None:
        stream, kept = stored.stream, self._kept
        growing = kept.get(stream)
        if growing is not None:
            has_grown = growing.add(stored)
            if has_grown and not growing.has_skipped:
                return
            self._ended.append(growing.take())
            del kept[stream]
            if has_grown:
                return
        kept[stream] = GrowingBatch(stored, by_id=self._has_ids(stream))

    def _outdated(self, now_ns: int) -> list[StreamBatch]:
        """Take the records of streams that were kept for long enough."""
        due, self._due_ns = list[StreamBatch](), now_ns + self._within_ns
        for growing in self._kept.values():
            due_ns = growing.first.event.received_at_ns + self._within_ns
            if due_ns > now_ns:
                self._due_ns = due_ns
                break
            due.append(growing.take())
        for batch in due:
            del self._kept[batch.stream]
        return due

    def _pass(self, batches: Sequence[StreamBatch]) -> None:
        for tap in self._taps:
            try:
                tap(batches)
            except Exception as error:
                self.failed(tap, error)
