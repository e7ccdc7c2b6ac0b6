"""The records of a log and a lake by receive time, each once: what a replay reads.

The log is read first, then the latest version of the lake: a record that moves from one to the
other meanwhile is found in at least one of them. What both hold has the same slot and number in
both. Of several records with one id one counts, as in every other read; see ``merging``. The others
may have been received at any other time, so they are looked for by the exchange's time.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec
import polars as pl
from msgspec import Struct

from penstock.dataset.cold import Cold, ColdTable
from penstock.dataset.merging import TIME, id_columns, merged, needed, time_of
from penstock.dataset.windows import Window
from penstock.market import channels
from penstock.market.channels import Channel
from penstock.market.codec import json_of
from penstock.market.symbol import Symbol
from penstock.publish.endpoints import find_log_id
from penstock.storage.lake.columns import key_columns, records_of, schema_of, slot_text, table_of
from penstock.storage.log import EventLog, Received, ReceivedPart, Span, Stored
from penstock.storage.log.keys import SECOND_NS, Stream, id_of_key, key_after, key_of_id

_MARGIN_NS = 5 * SECOND_NS
"""By how much the times of copies of one event may differ."""
_APART_NS = 3600 * SECOND_NS
"""Times of which rows are looked for together are at most this far apart."""
_PLACE = ["exchange", "symbol", "slot", "number", "received_ns"]
_ID = "_id"
"""The column with the id of a record, as a number."""


class _Part(NamedTuple):
    """Streams of one channel, and their table."""

    row: Channel
    table: ColdTable
    streams: list[Stream]


class LogAndLake:
    """Records by receive time, for a replay. Not thread-safe."""

    def __init__(self, log: EventLog | None, lake: Cold) -> None:
        folder = None if log is None else log.folder
        self._log_id = (find_log_id(folder) if folder is not None else None) or 0
        self._log, self._lake = None if log is None else log.reader(), lake
        self._tables: dict[Channel, ColdTable] = {}

    def streams(self) -> list[Stream]:
        """All streams that have records."""
        hot = [] if self._log is None else self._log.streams()
        return sorted({*hot, *self._lake.streams()})

    def received(
        self, streams: Collection[Stream], since_ns: int, until_ns: int, most: int
    ) -> ReceivedPart:
        """The records of some streams that were received in [since, until), in no fixed order.

        Or those of a shorter range; always, if they are more than ``most`` in several seconds.
        """
        hot = list[Received]()
        if self._log is not None:
            hot, until_ns = self._log.received(streams, since_ns, until_ns, most)
        tables = self._latest(streams)
        window = _shortened(tables, Window(since_ns, until_ns), most)
        by_topic: dict[str, list[Received]] = {}
        for each in hot:
            if each.received_at_ns < window.until_ns:
                by_topic.setdefault(each.topic, []).append(each)
        found = list[Received]()
        for part in tables:
            mine = [each for stream in part.streams for each in by_topic.pop(str(stream), ())]
            found += self._joined(part, mine, window)
        for rest in by_topic.values():
            found += rest
        return ReceivedPart(found, window.until_ns)

    def next_received_ns(self, streams: Collection[Stream], since_ns: int) -> int | None:
        """A time at or after ``since_ns``, and none of these records was received in between.

        None: there is no later record.
        """
        times = [] if self._log is None else [self._log.next_received_ns(streams, since_ns)]
        for _, table, some in self._latest(streams):
            times.append(table.next_received_ns(some, since_ns))
        return min((each for each in times if each is not None), default=None)

    def end_ns(self, streams: Collection[Stream]) -> int | None:
        """A time after every record of these streams; None without records."""
        times = [] if self._log is None else [self._log.end_ns(streams)]
        times += [table.received_until_ns(some) for _, table, some in self._latest(streams)]
        return max((each for each in times if each is not None), default=None)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def _latest(self, streams: Collection[Stream]) -> list[_Part]:
        """The latest versions of the tables of these streams."""
        by_row: dict[Channel, list[Stream]] = {}
        for stream in streams:
            if (row := channels.find(stream.channel)) is not None:
                by_row.setdefault(row, []).append(stream)
        found = list[_Part]()
        for row, some in by_row.items():
            table = self._tables.get(row)
            if table is not None:
                table.refresh()
            elif (table := self._lake.table(row)) is not None:
                self._tables[row] = table
            if table is not None:
                found.append(_Part(row, table, some))
        return found

    def _joined(self, part: _Part, hot: list[Received], window: Window) -> list[Received]:
        """What a window has of the streams of one channel; ``hot`` is what the log has."""
        row, table, streams = part
        place = _place(row)
        names, every = [*needed(row, key_columns(row)), TIME], [*schema_of(row).names, TIME]
        known = self._places(row, hot)
        whole = self._others(row, table.received(streams, window, every), known)
        cold = whole.select(names)
        copies = self._copies(part, known, cold) if id_columns(row) else []
        if not cold.height and not any(frame.height for frame in copies):
            return hot
        rows = self._rows(row, [_stored(row, each) for each in hot], names)
        copies += self._in_log(row, streams, cold, names)
        winners = merged(row, pl.concat([rows, cold, *copies]))
        kept = rows.with_row_index().join(winners, on=place, how="semi")
        found = [hot[index] for index in kept["index"]]
        found += _records(row, whole.join(winners, on=place, how="semi").drop(TIME))
        return found

    def _others(self, row: Channel, rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """The rows of the lake that are not of these records of the log."""
        if row.stays_in_log and self._log is not None:
            rows = rows.filter(~pl.col("slot").str.starts_with(slot_text(self._log_id, "")))
        return rows.join(known, on=_place(row), how="anti")

    def _copies(self, part: _Part, known: pl.DataFrame, cold: pl.DataFrame) -> list[pl.DataFrame]:
        """Other rows of the lake with the same ids, received at any time.

        ``known`` are the places of records of the log, and ``cold`` are rows of the lake.
        """
        row, table, streams = part
        names = [*needed(row, key_columns(row)), TIME]
        same = ["exchange", "symbol", _ID]
        wanted = pl.concat([known.select(*same, TIME), cold.select(*same[:2], _id(row), TIME)])
        found = list[pl.DataFrame]()
        for window in _near(wanted[TIME]):
            rows = self._others(row, table.frame(streams, window, names), known)
            found.append(rows.with_columns(_id(row)).join(wanted, on=same, how="semi").drop(_ID))
        return found

    def _places(self, row: Channel, hot: Sequence[Received]) -> pl.DataFrame:
        """What tells records of the log apart, their ids and times: decoding more takes longer."""
        streams = {topic: Stream(*topic.split(".", 2)) for topic in {each.topic for each in hot}}
        symbols = {topic: Symbol.parse(each.symbol).unified for topic, each in streams.items()}
        slots = {slot: slot_text(self._log_id, slot) for slot in {each.slot for each in hot}}
        columns: dict[str, Sequence[object]] = {
            "exchange": [streams[each.topic].exchange for each in hot],
            "symbol": [symbols[each.topic] for each in hot],
            "slot": [slots[each.slot] for each in hot],
            "number": [each.number for each in hot],
            "received_ns": [each.received_at_ns for each in hot],
        }
        if row.suffix_field is not None:
            columns[row.suffix_field] = [row.suffix_in(streams[each.topic].channel) for each in hot]
        if id_columns(row):
            columns[_ID], columns[TIME] = _ids_and_times(row, hot)
        numbers = {"number", "received_ns", TIME}
        types = {name: pl.Int64 if name in numbers else pl.String for name in columns}
        return pl.DataFrame(columns, schema=types)

    def _rows(self, row: Channel, stored: Sequence[Stored], names: list[str]) -> pl.DataFrame:
        """Records of the log as rows."""
        frame = pl.from_arrow(table_of(row, stored, self._log_id))
        assert isinstance(frame, pl.DataFrame)
        return frame.with_columns(time_of(row)).select(names)

    def _in_log(
        self, row: Channel, streams: list[Stream], rows: pl.DataFrame, names: list[str]
    ) -> Iterator[pl.DataFrame]:
        """The records of the log that have the same ids as these rows, received at any time."""
        if self._log is None or not id_columns(row):
            return
        for stream in streams:
            ids = _ids(row, rows, stream)
            if ids:
                span = Span(key_of_id(min(ids)), key_after(key_of_id(max(ids))))
                found = self._log.scan(stream, span)
                if same := [each for each in found if id_of_key(each.key) in ids]:
                    yield self._rows(row, same, names)


def _shortened(parts: Sequence[_Part], window: Window, most: int) -> Window:
    """A window with at most so many rows, unless one second has more."""
    while True:
        half_ns = sum(window) // 2 // SECOND_NS * SECOND_NS
        if half_ns <= window.since_ns:
            return window
        if sum(table.count_received(some, window) for _, table, some in parts) <= most:
            return window
        window = Window(window.since_ns, half_ns)


def _near(times: pl.Series) -> list[Window]:
    """The ranges of the exchange's time in which copies of these rows are."""
    if times.is_empty():
        return []
    ordered = times.unique().sort()
    gaps = (ordered.diff() > _APART_NS).fill_null(value=False).arg_true()
    edges = [0, *gaps, len(ordered)]
    return [
        Window(int(ordered[first]) - _MARGIN_NS, int(ordered[end - 1]) + _MARGIN_NS)
        for first, end in pairwise(edges)
    ]


def _place(row: Channel) -> list[str]:
    """The columns that no two rows agree in."""
    family = [] if row.suffix_field is None else [row.suffix_field]
    return [*_PLACE, *family]


def _stored(row: Channel, each: Received) -> Stored:
    stream = Stream("", row.name, "")
    return Stored(stream, each.slot, each.number, b"", each.record, each.topic)


def _ids(row: Channel, rows: pl.DataFrame, stream: Stream) -> set[int]:
    """The ids that some rows have of a stream."""
    mine = (pl.col("exchange") == stream.exchange) & (
        pl.col("symbol") == Symbol.parse(stream.symbol).unified
    )
    if row.suffix_field is not None:
        mine &= pl.col(row.suffix_field) == row.suffix_in(stream.channel)
    ids = rows.filter(mine).select(_id(row)).to_series().drop_nulls()
    return {int(each) // _scale(row) for each in ids}


def _id(row: Channel) -> pl.Expr:
    """The id of a row as text; it may have more than 64 bits."""
    first, *text = id_columns(row)
    return pl.coalesce(pl.col(first).cast(pl.Int64).cast(pl.String), *text).alias(_ID)


def _scale(row: Channel) -> int:
    """By what an id is multiplied in the lake: opening times are in microseconds there."""
    return 1000 if row.id_kind == "opening_time" else 1


class _Key(Struct):
    id: int | None
    at_ns: int | None = None


@lru_cache
def _decoder(row: Channel) -> Callable[[bytes], list[_Key]]:
    """Decodes the ids and times of records."""
    (key,) = (column.key for column in row.columns if column.field == row.id_field)
    named = msgspec.field(name=key, default=None)
    kind = msgspec.defstruct("Key", [("id", int | None, named)], bases=(_Key,), kw_only=True)
    decode: Callable[[bytes], list[_Key]] = msgspec.json.Decoder(list[kind]).decode  # type: ignore[valid-type]
    return decode


def _ids_and_times(row: Channel, hot: Sequence[Received]) -> tuple[list[str | None], list[int]]:
    """The ids of records as texts, and the exchange's times; no other field is decoded."""
    keys = _decoder(row)(b"[%b]" % b",".join([json_of(each.record) for each in hot]))
    scale = _scale(row)
    ids = [None if key.id is None else str(key.id * scale) for key in keys]
    if row.id_kind == "opening_time":
        return ids, [0 if key.id is None else key.id * 1_000_000 for key in keys]
    times = [
        each.received_at_ns if key.at_ns is None else key.at_ns
        for key, each in zip(keys, hot, strict=True)
    ]
    return ids, times


def _records(row: Channel, rows: pl.DataFrame) -> Iterator[Received]:
    """Rows of the lake as the records that the log had."""
    ending = [] if row.suffix_field is None else [row.suffix_field]
    names = rows.select("exchange", "symbol", *ending)
    topics: dict[tuple[str, ...], str] = {}
    for exchange, symbol, *suffix in names.unique().iter_rows():
        channel = row.named(*suffix) if suffix else row.name
        stream = Stream(exchange, channel, Symbol.parse(symbol).slug)
        topics[exchange, symbol, *suffix] = str(stream)
    slots = {slot: slot.partition("/")[2] for slot in rows["slot"].unique()}
    return map(
        Received,
        rows["received_ns"].to_list(),
        map(slots.__getitem__, rows["slot"].to_list()),
        rows["number"].to_list(),
        map(topics.__getitem__, names.rows()),
        records_of(row, rows.to_arrow()),
    )
