"""Lists the ids that no process has recorded, where an exchange's ids are consecutive."""

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from penstock.coverage.stored import SlotIds, StreamIds, claimed, confirmed, lacks_records
from penstock.storage.log import LogReader, Span
from penstock.storage.log.keys import Stream, id_of_key, key_of_id


class MissingIds(Struct, frozen=True, kw_only=True, tag="ids", tag_field="kind"):
    """Consecutive ids that exist and are not in the log, both ends included."""

    exchange: str
    symbol: str
    channel: str
    first_id: int
    last_id: int
    count: int


def missing_ids(
    statuses: Sequence[SlotIds], wanted: Collection[tuple[str, str]], log: LogReader
) -> Iterator[MissingIds]:
    """The ids known to any collector that no slot holds, for markets of these names."""
    for stream, ids in sorted(_seen(statuses, wanted, log).items()):
        for gap in ids.runs.gaps(ids.latest):
            # Other processes may have recorded some of it: a fetcher, for instance.
            for stored in log.scan(stream, Span(key_of_id(gap.first), key_of_id(gap.last + 1))):
                number = id_of_key(stored.key)
                if number is not None:
                    ids.runs.add(number)
        for gap in ids.runs.gaps(ids.latest):
            yield MissingIds(
                exchange=stream.exchange,
                symbol=stream.symbol,
                channel=stream.channel,
                first_id=gap.first,
                last_id=gap.last,
                count=gap.size,
            )


def _seen(
    statuses: Sequence[SlotIds], wanted: Collection[tuple[str, str]], log: LogReader
) -> dict[Stream, StreamIds]:
    """The ids of each stream in all slots together."""
    seen: dict[Stream, StreamIds] = {}
    for status in statuses:
        doubted = lacks_records(status, log)
        for stored in status.ids:
            stream = Stream(status.exchange, stored.channel, stored.symbol)
            if (stream.exchange, stream.symbol) in wanted:
                ids = confirmed(stored, stream, log) if doubted else claimed(stored)
                seen.setdefault(stream, StreamIds()).add(ids)
    return seen
