"""Merges any streams into one order: by receive time, then slot, number, topic and bytes.

The order depends on nothing but the records, so every replay of the same records is the same. They
are read in windows of time, each sorted by itself: that needs no heap, and memory for one window.
A window is as long as it takes to hold some thousands of records.
"""

from collections.abc import Collection, Iterator

from penstock.playback.sources import RecordSource
from penstock.storage.log import Received
from penstock.storage.log.keys import SECOND_NS, Stream

_MOST = 50_000
"""Records of one window, unless one second has more."""
_FEW = _MOST // 2
"""A window with fewer records is followed by one that is twice as long."""
_LONGEST_NS = 3600 * SECOND_NS


def merged(
    source: RecordSource,
    streams: Collection[Stream],
    since_ns: int | None = None,
    until_ns: int | None = None,
) -> Iterator[list[Received]]:
    """The records received in [since, until), in order, in batches that are never empty.

    What is written after the first batch was read is not included.
    """
    end_ns = source.end_ns(streams) or 0
    if until_ns is not None:
        end_ns = min(end_ns, until_ns)
    at_ns, length_ns, found = since_ns or 0, SECOND_NS, list[Received]()
    while at_ns < end_ns:
        if not found:
            next_ns = source.next_received_ns(streams, at_ns)
            if next_ns is None or next_ns >= end_ns:
                return
            at_ns = next_ns
        # Windows end with a second, as sources find records by second.
        window_end_ns = min(end_ns, (at_ns + length_ns) // SECOND_NS * SECOND_NS)
        found, at_ns = source.received(streams, at_ns, window_end_ns, _MOST)
        if found:
            found.sort()
            yield found
        if len(found) < _FEW:
            length_ns = min(2 * length_ns, _LONGEST_NS)
        elif at_ns < window_end_ns:
            length_ns = max(length_ns // 2, SECOND_NS)
