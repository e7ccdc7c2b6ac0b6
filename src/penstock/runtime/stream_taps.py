"""Passes what was recorded to taps that work by stream, many batches at once.

A collector writes hundreds of small batches a second, each with a record or two of many streams. A
tap costs as much for one record of a stream as for hundreds. So records are kept for a moment and
passed on together.
"""

from collections.abc import Callable, Sequence

from penstock.clock import Clock
from penstock.coverage.batches import StreamBatch, by_stream
from penstock.market.events import Disconnect
from penstock.storage.log import Stored

WITHIN_S = 0.1
"""How long records of a collector are kept, while others follow."""
_MOST = 1_000
"""Records that are kept, at most: more are passed on at once, so that the event loop is not blocked
for long."""

StreamTap = Callable[[Sequence[StreamBatch]], None]
"""Called with new records by stream, in the order of recording within each."""


class StreamTaps:
    """A tap of the recorder. For one event loop."""

    def __init__(self, taps: Sequence[StreamTap], clock: Clock, within_s: float) -> None:
        self._taps, self._clock = tuple(taps), clock
        self._within_ns = round(within_s * 1_000_000_000)
        self._kept: list[Stored] = []
        self._first_ns = 0
        self.failed: Callable[[StreamTap, Exception], None]
        """Called with a tap that raised."""

    def __call__(self, recorded: Sequence[Stored]) -> None:
        """Keep newly recorded events until they are passed on."""
        if Disconnect in {type(stored.known) for stored in recorded}:
            # What a marker says depends on which records were before it.
            self.pass_on()
            self._pass(recorded)
            return
        now_ns = self._clock.monotonic_ns()
        if not self._kept:
            self._first_ns = now_ns
        self._kept += recorded
        if len(self._kept) >= _MOST or now_ns - self._first_ns >= self._within_ns:
            self.pass_on()

    def pass_on(self) -> None:
        """Pass on what is kept; due before anything is read from a tap."""
        if self._kept:
            kept, self._kept = self._kept, []
            self._pass(kept)

    def _pass(self, recorded: Sequence[Stored]) -> None:
        batches = by_stream(recorded)
        for tap in self._taps:
            try:
                tap(batches)
            except Exception as error:
                self.failed(tap, error)
