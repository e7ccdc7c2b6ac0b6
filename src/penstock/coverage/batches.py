"""Splits what the recorder has written into streams, once for all who track ids.

The usual batch of a stream has consecutive ids. That is found by comparing its first and last id
with the number of records, without a look at each id. Of a batch that has grown over many writes
only the ends are kept, and the ranges of its ids.
"""

from collections.abc import Callable, Sequence
from itertools import starmap
from operator import attrgetter, lt
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct

from penstock import compiled
from penstock.market.events import Disconnect, Event
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream, id_of_key, key_of_id, place_of

if TYPE_CHECKING:
    from penstock.compiled._hot import Gatherer

_key: Callable[["TapRecord"], bytes] = attrgetter("key")


class Seen(Struct, frozen=True, gc=False):
    """What is kept of a record after which others came."""

    number: int
    event: Event
    id: int | None
    """None if it has none, or if the ids of its stream do not matter."""

    @property
    def key(self) -> bytes:
        """Its key, or that of the first event that was received at the same time."""
        return place_of(self.event)[1] if self.id is None else key_of_id(self.id)


TapRecord: TypeAlias = Stored | Seen
"""A record, as taps receive it."""


class IdRange(NamedTuple):
    """Consecutive ids, both ends included, and their first and last record."""

    first: int
    last: int
    begin: TapRecord
    end: TapRecord


class StreamBatch:
    """New records of one stream, in the order in which they were recorded."""

    def __init__(
        self,
        stream: Stream,
        records: Sequence[TapRecord],
        count: int | None = None,
        ranges: list[IdRange] | None = None,
    ) -> None:
        """With ``count``, ``records`` are only the first and the last of so many."""
        self.stream, self.records = stream, records
        self.count = len(records) if count is None else count
        self._ranges = ranges

    @property
    def ranges(self) -> list[IdRange]:
        """Their ids; records without an id are left out."""
        if self._ranges is None:
            assert self.count == len(self.records), "of these only the ends were kept"
            self._ranges = _ranges_of(self.records)
        return self._ranges

    def above(self, number: int) -> "StreamBatch":
        """The records with higher numbers; of a batch that has only its ends, all if there are any.

        To add what is known already has no effect.
        """
        records = self.records
        if not records or records[0].number > number:
            return self
        if self.count > len(records) and records[-1].number > number:
            return self
        return StreamBatch(self.stream, [each for each in records if each.number > number])


class GrowingBatch:
    """A batch of which only the ends are kept: its numbers are consecutive, its source is one."""

    __slots__ = (
        "_begin",
        "_first_id",
        "_last",
        "_next_id",
        "_next_number",
        "_ranges",
        "_source",
        "first",
    )

    def __init__(self, first: Stored, *, by_id: bool) -> None:
        """``by_id``: the ranges of ids are wanted."""
        self.first = first
        self._begin: TapRecord = first
        """The first record of the last range of ids."""
        self._last = first.event
        self._source = first.event.source
        self._next_number = first.number + 1
        """-1 once the batch is taken."""
        self._ranges: list[IdRange] | None = [] if by_id else None
        """Those that have ended: the last one grows until then."""
        found = id_of_key(first.key) if by_id else None
        self._first_id, self._next_id = found, None if found is None else found + 1

    def add(self, stored: Stored) -> bool:
        """Add the next record; False, without effect, if it does not fit: take the batch then."""
        event = stored.event
        if stored.number != self._next_number or event.source != self._source:
            return False
        if self._ranges is not None:
            found = id_of_key(stored.key)
            if found is None or found != self._next_id:
                self._end_range(self._ranges)
                self._begin, self._first_id = stored, found
            self._next_id = None if found is None else found + 1
        self._last = event
        self._next_number += 1
        return True

    @property
    def has_skipped(self) -> bool:
        """Whether a record did not have the next id: then there may be a gap."""
        return bool(self._ranges)

    def take(self) -> StreamBatch:
        """The batch; nothing can be added afterwards."""
        first, count = self.first, self._next_number - self.first.number
        records = (first,) if count == 1 else (first, self._end)
        if self._ranges is not None:
            self._end_range(self._ranges)
        self._next_number = -1
        return StreamBatch(first.stream, records, count, self._ranges)

    @property
    def _end(self) -> TapRecord:
        """The last record."""
        number = self._next_number - 1
        if number == self._begin.number:
            return self._begin
        return Seen(number, self._last, None if self._next_id is None else self._next_id - 1)

    def _end_range(self, ranges: list[IdRange]) -> None:
        if self._first_id is not None and self._next_id is not None:
            ranges.append(IdRange(self._first_id, self._next_id - 1, self._begin, self._end))


def new_gatherer() -> "Gatherer | None":
    """What adds records to their growing batches; None if each has to be added by itself."""
    if compiled.Gatherer is None:
        return None
    return compiled.Gatherer(
        Stored(Stream("", "", ""), "", 0, b"", b"", ""),
        tuple(getattr(Stored, name) for name in ("stream", "number", "key", "known")),
        GrowingBatch.__new__(GrowingBatch),
        tuple(
            getattr(GrowingBatch, name)
            for name in ("_source", "_last", "_next_number", "_next_id", "_ranges")
        ),
        "source",
        Disconnect,
    )


def _ranges_of(records: Sequence[TapRecord]) -> list[IdRange]:
    first, last = id_of_key(records[0].key), id_of_key(records[-1].key)
    if first is not None and last is not None and last - first + 1 == len(records):
        keys = list(map(_key, records))
        # Rising as well, so that they are all ids in between.
        if all(map(lt, keys, keys[1:])):
            return [IdRange(first, last, records[0], records[-1])]
    found: list[IdRange] = []
    for stored in records:
        number = id_of_key(stored.key)
        if number is None:
            continue
        if found and number == found[-1].last + 1:
            found[-1] = found[-1]._replace(last=number, end=stored)
        else:
            found.append(IdRange(number, number, stored, stored))
    return found


def by_stream(recorded: Sequence[Stored]) -> list[StreamBatch]:
    """The streams of one or several batches."""
    found: dict[Stream, list[Stored]] = {}
    for stored in recorded:
        stream = stored.stream
        if stream in found:
            found[stream].append(stored)
        else:
            found[stream] = [stored]
    return list(starmap(StreamBatch, found.items()))
