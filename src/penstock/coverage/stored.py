"""The ids of a stream as a process stores them, checked against the log, which takes precedence.

A status is written after the log is synced, so a power cut removes nothing from the log that a
status lists as seen. A damaged disk may, and so may a folder that is restored from an older copy. A
status contains how many numbers its slot had assigned. If the log has fewer, every id that the
status lists as seen is looked up.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from penstock.coverage.id_runs import IdRuns
from penstock.storage.log import LogReader, Span
from penstock.storage.log.keys import Stream, id_of_key, key_of_id


class IdsStatus(Struct, frozen=True, kw_only=True):
    """The ids of one stream: runs that were seen, and the missing ids between and after them."""

    channel: str
    symbol: str
    seen: list[tuple[int, int]]
    missing: list[tuple[int, int]]


class GapCount(Struct, frozen=True, kw_only=True):
    """The number of gaps, or possible gaps, of a channel for one cause."""

    channel: str
    cause: str
    count: int


class SlotIds(Protocol):
    """What the status of a process says about the ids that it has recorded in its slot."""

    @property
    def exchange(self) -> str: ...

    @property
    def slot(self) -> str: ...

    @property
    def ids(self) -> Sequence[IdsStatus]: ...

    @property
    def numbered(self) -> int | None:
        """Numbers the slot had assigned at the log's last sync. None: an older version."""
        ...


class StreamIds:
    """The ids of one stream: those that were seen, and the latest that is known to exist."""

    __slots__ = ("latest", "runs")

    def __init__(self) -> None:
        self.runs = IdRuns()
        self.latest: int | None = None
        """None if only the ids seen are known to exist."""

    def add(self, other: "StreamIds") -> None:
        """Add the ids that another process has of the same stream."""
        for run in other.runs.runs():
            self.runs.add_run(*run)
        begins = [each.runs.begin for each in (self, other) if each.runs.begin is not None]
        if begins:
            self.runs.begin_with(min(begins))
        self.latest = max((each for each in (self.latest, other.latest) if each), default=None)

    def missing(self) -> list[tuple[int, int]]:
        """The ids that exist and were not seen, as ranges with both ends included."""
        return self.runs.missing(self.latest)

    def stored(self, stream: Stream) -> IdsStatus:
        """Return the form in which the ids of a stream are stored."""
        seen, missing = self.runs.runs(), self.missing()
        return IdsStatus(channel=stream.channel, symbol=stream.symbol, seen=seen, missing=missing)


def lacks_records(status: SlotIds | None, log: LogReader) -> bool:
    """Whether a slot holds fewer records than its status states."""
    if status is None:
        return False
    if status.numbered is None:
        # An older version, which did not sync the log first: the latest record is lost first.
        return not all(_holds_last(ids, status.exchange, log) for ids in status.ids)
    given = (
        each.last_number
        for stats in log.stats()
        if stats.slot == status.slot
        for each in stats.streams
    )
    return sum(given) < status.numbered


def _holds_last(ids: IdsStatus, exchange: str, log: LogReader) -> bool:
    if not ids.seen:
        return True
    last, stream = ids.seen[-1][1], Stream(exchange, ids.channel, ids.symbol)
    return any(True for _ in log.keys_in(stream, [Span(key_of_id(last), key_of_id(last + 1))]))


def claimed(ids: IdsStatus) -> StreamIds:
    """The ids as stored: those listed as seen, and the latest one listed as missing."""
    found = StreamIds()
    for first, last in ids.seen:
        found.runs.add_run(first, last)
    _begin(found.runs, ids)
    if ids.missing:
        found.latest = ids.missing[-1][1]
    return found


def confirmed(ids: IdsStatus, stream: Stream, log: LogReader) -> StreamIds:
    """The stored ids of which the log holds those seen; the latest one listed at all exists."""
    found = StreamIds()
    found.runs = logged(stream, ids.seen, log)
    _begin(found.runs, ids)
    found.latest = max((last for _, last in (*ids.seen, *ids.missing)), default=None)
    return found


def logged(stream: Stream, ranges: Iterable[tuple[int, int]], log: LogReader) -> IdRuns:
    """The ids in these ranges, both ends included, that the log holds."""
    runs = IdRuns()
    spans = [Span(key_of_id(first), key_of_id(last + 1)) for first, last in ranges]
    for key in log.keys_in(stream, spans):
        number = id_of_key(key)
        if number is not None:
            runs.add(number)
    return runs


def still_logged(ids: IdsStatus, exchange: str, log: LogReader) -> IdsStatus:
    """The stored ids, seen if the log holds them and missing if not."""
    known = [*ids.seen, *ids.missing]
    if not known:
        return ids
    first, last = min(low for low, _ in known), max(high for _, high in known)
    stream = Stream(exchange, ids.channel, ids.symbol)
    found = StreamIds()
    found.runs, found.latest = logged(stream, [(first, last)], log), last
    found.runs.begin_with(first)
    return found.stored(stream)


def _begin(runs: IdRuns, ids: IdsStatus) -> None:
    firsts = [first for first, _ in (*ids.seen[:1], *ids.missing[:1])]
    if firsts:
        runs.begin_with(min(firsts))
