"""Records as Arrow columns, and columns as the same records again, byte for byte.

Every table has the columns of ``SHARED`` and those that the channel's row declares. A record that
its columns cannot express exactly, such as one of an older format, is also kept whole in
``record``: then that column is the record, and its other columns are as good as they can be.

A batch is converted column by column; only decoding an event runs per record in Python.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.market.channels import Channel
from penstock.market.codec import VERSION, encode_many
from penstock.market.columns import Column
from penstock.storage.lake.decoding import decode_exact
from penstock.storage.log import Stored

NUMBER = pa.decimal128(38, 18)
INSTANT = pa.timestamp("us", tz="UTC")

SHARED = (
    ("exchange", pa.string(), "the exchange; the table is partitioned by it"),
    ("date", pa.date32(), "the UTC day of the row's time, or the first of its month; likewise"),
    ("symbol", pa.string(), "the market, such as `BTC/USDT`"),
    ("received_ns", pa.int64(), "when it was received, in nanoseconds since 1970"),
    ("source", pa.string(), "`live`, `rest`, or `backfill` if it fills a gap"),
    ("slot", pa.string(), "the log and the slot of the log that recorded it: `LOG/SLOT`"),
    ("number", pa.int64(), "its broadcast number in that slot; numbers rise by stream"),
    ("record", pa.binary(), "the whole record, where the other columns do not give it exactly"),
)
"""The columns of every table: name, type, meaning."""

_TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "number": (NUMBER, pa.int8(), pa.string()),
    "id": (pa.int64(), pa.string()),
    "ns": (INSTANT, pa.int64()),
    "ms": (INSTANT,),
    "count": (pa.int64(),),
    "flag": (pa.bool_(),),
    "json": (pa.string(),),
    "text": (pa.string(),),
    "texts": (pa.list_(pa.string()),),
}

# Texts that are rebuilt from a number and its digits: no sign, no needless zero in front.
_EXACT = r"^(?:0|[1-9][0-9]{0,19})(?:\.[0-9]{1,18})?$"
# Of the rest, those whose value a number can hold.
_IN_RANGE = r"^-?[0-9]{1,20}(?:\.[0-9]{0,18})?$"
_INT64 = range(-(1 << 63), 1 << 63)
_MS = range(-62_135_596_800_000, 253_402_300_800_000)  # the years 1 to 9999


def slot_text(log_id: int, slot: str) -> str:
    """The value of the column ``slot``."""
    return f"{log_id:x}/{slot}"


@lru_cache
def schema_of(row: Channel) -> pa.Schema:
    """The schema of a channel's table."""
    own = [
        pa.field(name, held)
        for column in row.columns
        for name, held in zip(column.names, _TYPES[column.kind], strict=True)
    ]
    shared = {name: pa.field(name, held) for name, held, _ in SHARED}
    head = [shared.pop(name) for name in ("exchange", "date", "symbol")]
    return pa.schema([*head, *own, *shared.values()])


def time_column(row: Channel) -> str:
    """The column by which rows are ordered in time.

    It is the exchange's time, a timestamp, if all events of the channel have one. Otherwise it is
    ``received_ns``.
    """
    for column in row.columns:
        if column.kind in ("ns", "ms") and column.field in ("at_ns", "open_ms"):
            return "received_ns" if column.optional else column.name
    return "received_ns"


def key_columns(row: Channel) -> tuple[str, ...]:
    """The columns that identify a record: rows that agree in all of them are one record.

    Rows without an id, and rows of channels that have none, are always different records.
    """
    if row.id_field is None:
        return ("exchange", "symbol", "slot", "number")
    (own,) = (column for column in row.columns if column.field == row.id_field)
    family = () if row.suffix_field is None else (row.suffix_field,)
    return ("exchange", "symbol", *family, *own.names)


def table_of(row: Channel, stored: Sequence[Stored], log_id: int) -> pa.Table:
    """The rows of some records of a channel, in the same order.

    Raises:
        NotOurRecord: one of them is damaged, or of another version.
    """
    records = [each.record for each in stored]
    values, unfit = decode_exact(row.event, records), set[int]()
    if values is None:
        values = _decode_each(row, stored, unfit)
    arrays: dict[str, pa.Array] = {
        "exchange": _names(values["exchange"]),
        "symbol": _names(values["symbol"]),
        "received_ns": _integers(values["received_at_ns"], _INT64, unfit),
        "source": _names(values["source"]),
        "slot": _names([each.slot for each in stored], lambda slot: slot_text(log_id, slot)),
        "number": pa.array([each.number for each in stored], pa.int64()),
    }
    for column in row.columns:
        own = _arrays(column, values[column.field], unfit)
        arrays.update(zip(column.names, own, strict=True))
    arrays["date"] = _dates(row, arrays)
    whole = [records[i] if i in unfit else None for i in range(len(records))] if unfit else None
    arrays["record"] = pa.array(whole, pa.binary()) if whole else pa.nulls(len(stored), pa.binary())
    schema = schema_of(row)
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _decode_each(row: Channel, stored: Sequence[Stored], unfit: set[int]) -> dict[str, list[Any]]:
    """The values of each field; adds to ``unfit`` where columns cannot express a record."""
    events = [each.event for each in stored]
    written = encode_many(events)
    # Older versions recorded events of one channel in the stream of another.
    unfit.update(
        i
        for i, event in enumerate(events)
        if written[i] != stored[i].record or type(event) is not row.event
    )
    values: dict[str, list[Any]] = {
        name: list(map(attrgetter(name), events)) for name in row.event.__struct_fields__
    }
    return {**values, "symbol": [event.symbol.unified for event in events]}


def _arrays(column: Column, values: list[Any], unfit: set[int]) -> Iterable[pa.Array]:
    match column.kind:
        case "number":
            return _numbers(values)
        case "id":
            return _ids(values)
        case "ns":
            ns = _integers(values, _INT64, unfit)
            return pc.divide(ns, 1000).cast(INSTANT), ns
        case "ms":
            return (pc.multiply(_integers(values, _MS, unfit), 1000).cast(INSTANT),)
        case "count":
            return (_integers(values, _INT64, unfit),)
        case "json":
            return (_json(values, unfit),)
        case _:
            return (pa.array(values, _TYPES[column.kind][0]),)


def _names(values: list[str], written: Callable[[str], str] = str) -> pa.Array:
    """Texts of which a batch has few different ones."""
    if len(different := {*values}) == 1:
        return pa.repeat(pa.scalar(written(different.pop()), pa.string()), len(values))
    texts = {each: written(each) for each in different}
    return pa.array(list(map(texts.__getitem__, values)), pa.string())


def _numbers(values: list[str | None]) -> tuple[pa.Array, pa.Array, pa.Array]:
    texts = pl.Series(values, dtype=pl.String)
    exact = texts.str.contains(_EXACT)
    after = texts.str.len_bytes() - 1 - texts.str.find(".", literal=True)
    digits = after.cast(pl.Int8, strict=False)
    if exact.null_count() == 0 and exact.all():
        value = texts.cast(pl.Decimal(38, 18))
        return value.to_arrow(), digits.fill_null(0).to_arrow(), pa.nulls(len(texts), pa.string())
    found = pl.select(
        pl.when(texts.str.contains(_IN_RANGE)).then(texts).cast(pl.Decimal(38, 18)).alias("value"),
        pl.when(exact).then(digits.fill_null(0)).alias("digits"),
        pl.when(~exact).then(texts).alias("text"),
    )
    return found["value"].to_arrow(), found["digits"].to_arrow(), found["text"].to_arrow()


def _ids(values: list[int | None]) -> tuple[pa.Array, pa.Array]:
    try:
        return pa.array(values, pa.int64()), pa.nulls(len(values), pa.string())
    except OverflowError:
        fit = [value if value is None or value in _INT64 else None for value in values]
        long = [
            str(value) if value is not None and value not in _INT64 else None for value in values
        ]
        return pa.array(fit, pa.int64()), pa.array(long, pa.string())


def _integers(values: list[int | None], within: range, unfit: set[int]) -> pa.Array:
    try:
        array = pa.array(values, pa.int64())
        if within is _INT64 or _all_within(array, within):
            return array
    except OverflowError:
        pass
    unfit.update(i for i, n in enumerate(values) if n is not None and n not in within)
    return pa.array([n if n is None or n in within else None for n in values], pa.int64())


def _all_within(array: pa.Array, within: range) -> bool:
    bounds = pc.min_max(array).as_py()
    return bounds["min"] is None or (bounds["min"] in within and bounds["max"] in within)


def _json(values: list[msgspec.Raw], unfit: set[int]) -> pa.Array:
    texts = list(map(bytes, values))
    try:
        return pa.array(texts, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        pass
    wrong = {i for i, text in enumerate(texts) if not _is_text(text)}
    unfit |= wrong
    return pa.array([None if i in wrong else text for i, text in enumerate(texts)], pa.string())


def _is_text(text: bytes) -> bool:
    try:
        return text.decode() is not None
    except UnicodeDecodeError:
        return False


def _dates(row: Channel, arrays: dict[str, pa.Array]) -> pa.Array:
    """The partition of each row, by the exchange's time; by receipt where there is none."""
    times = [_series(arrays[name]) for name in ("open_at", "at") if name in arrays]
    if times and times[0].null_count() == 0:
        found = times[0]
    else:
        received = _series(pc.divide(arrays["received_ns"], 1000).cast(INSTANT))
        found = pl.select(pl.coalesce(*times, received)).to_series()
    days = found.fill_null(pl.lit(0).cast(found.dtype)).cast(pl.Date)
    return (days if row.partition == "day" else days.dt.month_start()).to_arrow()


def records_of(row: Channel, table: pa.Table) -> list[bytes]:
    """The records of some rows of a channel's table, in the same order."""
    if table.num_rows == 0:
        return []
    table = table.combine_chunks()
    pieces: list[Any] = [
        f'{{"kind":{_quoted(row.event.__struct_config__.tag)},"exchange":',
        _encoded(_column(table, "exchange")),
        ',"symbol":',
        _encoded(_column(table, "symbol")),
        ',"received_at_ns":',
        _column(table, "received_ns").cast(pa.string()),
        _optional(',"source":', _encoded(_column(table, "source")), _quoted("live")),
    ]
    for column in row.columns:
        name, text = f',"{column.key}":', _json_of(column, table)
        if column.optional:
            pieces.append(_optional(name, text, _quoted(column.default)))
        else:
            pieces += [name, text]
    pieces.append("}")
    joined = pc.binary_join_element_wise(
        *(_large(piece) for piece in pieces), pa.scalar("", pa.large_string()),
        null_handling="replace", null_replacement="",
    )  # fmt: skip
    prefix = bytes([VERSION])
    records: list[bytes] = list(map(prefix.__add__, joined.cast(pa.large_binary()).to_pylist()))
    whole = _column(table, "record")
    if whole.null_count < len(whole):
        for i, record in enumerate(whole.to_pylist()):
            if record is not None:
                records[i] = record
    return records


def _json_of(column: Column, table: pa.Table) -> pa.Array:
    """The JSON of a field in every row; null where it has no value."""
    first = _column(table, column.name)
    match column.kind:
        case "number":
            return _encoded_numbers(first, *(_column(table, name) for name in column.names[1:]))
        case "id":
            text = first.cast(pa.string())
            longer = _column(table, column.names[1])
            return text if longer.null_count == len(longer) else pc.coalesce(text, longer)
        case "ns":
            return _column(table, column.names[1]).cast(pa.string())
        case "ms":
            return pc.divide(first.cast(pa.int64()), 1000).cast(pa.string())
        case "count" | "flag":
            return first.cast(pa.string())
        case "json":
            return first
        case _:
            return _encoded(first)


def _encoded_numbers(values: pa.Array, digits: pa.Array, texts: pa.Array) -> pa.Array:
    written = _series(values).cast(pl.String)
    places = _series(digits)
    # All have 18 digits after the point: what is too many is cut off, for none with the point.
    cut = 18 - places.cast(pl.Int64) + (places == 0).cast(pl.Int64)
    length = (written.str.len_bytes().cast(pl.Int64) - cut).cast(pl.UInt64)
    exact = _large(written.str.slice(0, length).to_arrow())
    quoted = pc.binary_join_element_wise(_large('"'), exact, _large('"'), _large(""))
    if texts.null_count == len(texts):
        return quoted
    return pc.coalesce(_large(_encoded(texts)), quoted)


def _series(array: pa.Array) -> pl.Series:
    series = pl.from_arrow(array)
    assert isinstance(series, pl.Series)
    return series


def _encoded(texts: pa.Array) -> pa.Array:
    """Texts as JSON. A batch has few different ones."""
    found = texts.dictionary_encode() if texts.type.num_fields == 0 else None
    if found is None:
        return pa.array([None if t is None else _quoted(t) for t in texts.to_pylist()], pa.string())
    quoted = pa.array([_quoted(text) for text in found.dictionary.to_pylist()], pa.string())
    return quoted.take(found.indices)


def _optional(name: str, values: pa.Array, omitted: str) -> pa.Array:
    """A field with its name; nothing where it has no value, or the one that records omit."""
    values = _large(values)
    there = pc.and_kleene(pc.is_valid(values), pc.not_equal(values, _large(omitted)))
    named = pc.binary_join_element_wise(_large(name), values, _large(""))
    return pc.if_else(pc.fill_null(there, False), named, _large(""))


def _large(value: Any) -> Any:
    """A text or texts with 64-bit offsets: the levels of one batch may exceed 2 GB."""
    if isinstance(value, str):
        return pa.scalar(value, pa.large_string())
    return value.cast(pa.large_string())


def _column(table: pa.Table, name: str) -> pa.Array:
    found = table.column(name)
    return found.chunk(0) if found.num_chunks else pa.array([], found.type)


def _quoted(value: object) -> str:
    return msgspec.json.encode(value).decode()
