"""Computes which keys to read for a part of a stream, and filters their records.

Records are found by key and by receive time. There is no index of market times:

- Where records are keyed by their market time, as candles are, its bounds are keys.
- Where ids rise with market time (``Span.rising``), its bounds are found by binary search among the
  ids, an hour wider than requested.
- Elsewhere no record is received before its market time: records received since the lower bound
  are read, and those of the day before it, in case a clock was wrong. Old records may be fetched at
  any later time, so an upper bound of market time does not reduce what is read.

Records outside of the requested times are filtered out.
"""

from bisect import bisect_left
from collections.abc import Callable

import msgspec
from msgspec import Struct

from penstock.errors import NotOurRecord
from penstock.market import channels
from penstock.storage.log import Span, Stored, keys
from penstock.storage.log.keys import SECOND_NS, Stream

_MS_NS = 1_000_000
_CLOCKS_DIFFER_NS = 86_400 * SECOND_NS
"""How far the clocks of an exchange and of this machine may differ."""
_IDS_DIFFER_NS = 3600 * SECOND_NS
"""How far market times may go back while ids rise."""
_END_OF_TIME_NS = 1 << 63
_MOST_INTERVALS = 4096

Interval = tuple[bytes, bytes]
"""Keys from the first, inclusive, to the second, exclusive."""
Nearest = Callable[[bytes, bool], Stored | None]
"""Returns the first record at or after a key or, with True, the last one before it."""


class _Happened(Struct, gc=False):
    """The fields in which records have the exchange's time; for a candle, its open time."""

    received_at_ns: int
    at_ns: int | None = None
    at_ms: int | None = None
    open_ms: int | None = None


_decode_happened = msgspec.json.Decoder(_Happened).decode


def market_ns(record: bytes) -> int:
    """When it happened by the exchange's clock; the receive time if the exchange gave no time.

    Raises:
        NotOurRecord: it is damaged.
    """
    try:
        found = _decode_happened(memoryview(record)[1:])
    except msgspec.DecodeError as error:
        raise NotOurRecord(f"a damaged record: {error}") from error
    if found.at_ns is not None:
        return found.at_ns
    at_ms = found.open_ms if found.at_ms is None else found.at_ms
    return found.received_at_ns if at_ms is None else at_ms * 1_000_000


class Intervals:
    """Intervals collected within ``whole``; if they are many, pairs of neighbours are joined.

    So a search over years takes little memory. Records between joined neighbours are read too, and
    filtered out.
    """

    def __init__(self, whole: Interval) -> None:
        self._whole = whole
        self._gathered: list[Interval] = []

    def add(self, interval: Interval) -> None:
        begin, end = max(interval[0], self._whole[0]), min(interval[1], self._whole[1])
        if begin >= end:
            return
        self._gathered.append((begin, end))
        if len(self._gathered) >= _MOST_INTERVALS:
            united = self.united()
            if len(united) > _MOST_INTERVALS // 2:
                pairs = zip(united[::2], [*united[1::2], united[-1]], strict=False)
                united = [(first[0], second[1]) for first, second in pairs]
            self._gathered = united

    def united(self) -> list[Interval]:
        """The same intervals without overlaps, in order."""
        united: list[Interval] = []
        for begin, end in sorted(self._gathered):
            if united and begin <= united[-1][1]:
                united[-1] = (united[-1][0], max(end, united[-1][1]))
            else:
                united.append((begin, end))
        return united


def by_keys(stream: Stream, span: Span, nearest: Nearest) -> Span:
    """The same span, with market times converted to keys where keys rise with them."""
    since_ns, until_ns = span.market_since_ns, span.market_until_ns
    if since_ns is None and until_ns is None:
        return span
    low: bytes | None = None
    high: bytes | None = None
    channel = channels.find(stream.channel)
    if channel is not None and channel.id_kind == "opening_time":
        # Their keys are their market times: nothing is left to filter.
        low = None if since_ns is None else _opening_key(since_ns)
        high = None if until_ns is None else _opening_key(until_ns)
        span = span._replace(market_since_ns=None, market_until_ns=None)
    elif span.rising:
        low = None if since_ns is None else _key_at(since_ns - _IDS_DIFFER_NS, nearest)
        high = None if until_ns is None else _key_at(until_ns + _IDS_DIFFER_NS, nearest)
    first = max(span.first or b"", low or b"")
    end = min(span.end or keys.AFTER_ALL, high or keys.AFTER_ALL)
    return span._replace(first=first, end=end)


def _key_at(at_ns: int, nearest: Nearest) -> bytes | None:
    """The first key with this market time or a later one; None if there is none."""
    first, last = nearest(b"", False), nearest(keys.FIRST_ARRIVAL, True)
    lowest = None if first is None else keys.id_of_key(first.key)
    highest = None if last is None else keys.id_of_key(last.key)
    if lowest is None or highest is None:
        return None

    def happened(number: int) -> int:
        found = nearest(keys.key_of_id(number), False)
        return _END_OF_TIME_NS if found is None else market_ns(found.record)

    place = lowest + bisect_left(range(lowest, highest + 1), at_ns, key=happened)
    return None if place > highest else keys.key_of_id(place)


def _opening_key(at_ns: int) -> bytes:
    """The lowest key of a candle that opens at this time or later."""
    return keys.key_of_id(max(0, -(-at_ns // _MS_NS)))


def received(span: Span) -> tuple[int, int] | None:
    """[since, until) in which everything in a span was received; None if that is unbounded."""
    since_ns, until_ns = span.since_ns, span.until_ns
    if span.market_since_ns is not None and not span.rising:
        since_ns = max(since_ns or 0, span.market_since_ns - _CLOCKS_DIFFER_NS)
    if since_ns is None and until_ns is None:
        return None
    return since_ns or 0, _END_OF_TIME_NS if until_ns is None else until_ns


def times_wanted(span: Span) -> Callable[[Stored], bool] | None:
    """A filter for records whose times are within a span; None if no filter is needed."""
    by_receipt = span.since_ns is not None or span.until_ns is not None
    by_market = span.market_since_ns is not None or span.market_until_ns is not None
    if not by_receipt and not by_market:
        return None
    since_ns, market_since_ns = span.since_ns or 0, span.market_since_ns or 0
    until_ns, market_until_ns = (
        _END_OF_TIME_NS if each is None else each for each in (span.until_ns, span.market_until_ns)
    )

    def wanted(stored: Stored) -> bool:
        if by_receipt and not since_ns <= stored.received_at_ns < until_ns:
            return False
        return not by_market or market_since_ns <= market_ns(stored.record) < market_until_ns

    return wanted
