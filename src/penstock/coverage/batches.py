"""Splits what the recorder has written into streams, once for all who track ids.

The usual batch of a stream has consecutive ids. That is found by comparing its first and last id
with the number of records, without a look at each id.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import starmap
from operator import attrgetter, lt
from typing import NamedTuple

from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream, id_of_key

_key: Callable[[Stored], bytes] = attrgetter("key")


class IdRange(NamedTuple):
    """Consecutive ids, both ends included, and their first and last record."""

    first: int
    last: int
    begin: Stored
    end: Stored


class StreamBatch:
    """The new records of one stream, in the order in which they were recorded."""

    def __init__(self, stream: Stream, records: Sequence[Stored]) -> None:
        self.stream, self.records = stream, records

    @cached_property
    def ranges(self) -> list[IdRange]:
        """Their ids; records without an id are left out."""
        records = self.records
        first, last = id_of_key(records[0].key), id_of_key(records[-1].key)
        if first is not None and last is not None and last - first + 1 == len(records):
            keys = list(map(_key, records))
            # Rising as well, so that they are all ids in between.
            if all(map(lt, keys, keys[1:])):
                return [IdRange(first, last, records[0], records[-1])]
        return _ranges(records)


def _ranges(records: Sequence[Stored]) -> list[IdRange]:
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
