"""Passes what was recorded to taps that work by stream, several records of a stream at once.

A collector writes hundreds of small batches a second, each with a record or two of many streams. A
tap costs as much for one record of a stream as for ten. So the records of each stream are kept for
a moment and passed on together: ten of them, so that few are in memory, or what came in half a
second. Streams become due one after the other, so the event loop is never blocked for long.
"""

from collections.abc import Callable, Sequence

from penstock.coverage.batches import StreamBatch, by_stream
from penstock.market.events import Disconnect
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream

WITHIN_S = 0.5
"""How long records of a collector are kept, while others follow."""
_ENOUGH = 10
"""With so many records a stream is due."""

StreamTap = Callable[[Sequence[StreamBatch]], None]
"""Called with new records by stream, in the order of recording within each."""


class StreamTaps:
    """A tap of the recorder. For one event loop."""

    def __init__(self, taps: Sequence[StreamTap], within_s: float) -> None:
        self._taps, self._within_ns = tuple(taps), round(within_s * 1_000_000_000)
        self._kept: dict[Stream, list[Stored]] = {}
        """The stream whose records have been kept for longest comes first."""
        self.failed: Callable[[StreamTap, Exception], None]
        """Called with a tap that raised."""

    def __call__(self, recorded: Sequence[Stored]) -> None:
        """Keep newly recorded events until their streams are due."""
        if not self._within_ns:
            self._pass(by_stream(recorded))
        elif Disconnect in {type(stored.known) for stored in recorded}:
            # What a marker says depends on which records were before it.
            self.pass_on()
            self._pass(by_stream(recorded))
        elif due := [*self._keep(recorded), *self._outdated(recorded[-1])]:
            self._pass(due)

    def pass_on(self) -> None:
        """Pass on what is kept; due before anything is read from a tap."""
        if self._kept:
            kept, self._kept = self._kept, {}
            self._pass([StreamBatch(*each) for each in kept.items()])

    def _keep(self, recorded: Sequence[Stored]) -> list[StreamBatch]:
        """Keep records; return those of streams that have enough of them."""
        kept, due = self._kept, list[StreamBatch]()
        for stored in recorded:
            records = kept.get(stored.stream)
            if records is None:
                kept[stored.stream] = [stored]
            elif len(records) + 1 < _ENOUGH:
                records.append(stored)
            else:
                del kept[stored.stream]
                due.append(StreamBatch(stored.stream, [*records, stored]))
        return due

    def _outdated(self, latest: Stored) -> list[StreamBatch]:
        """Take the records of streams that were kept for long enough."""
        until_ns, due = latest.event.received_at_ns - self._within_ns, list[StreamBatch]()
        for stream, records in self._kept.items():
            if records[0].event.received_at_ns > until_ns:
                break
            due.append(StreamBatch(stream, records))
        for batch in due:
            del self._kept[batch.stream]
        return due

    def _pass(self, batches: Sequence[StreamBatch]) -> None:
        for tap in self._taps:
            try:
                tap(batches)
            except Exception as error:
                self.failed(tap, error)
