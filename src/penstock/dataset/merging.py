"""Rows of the log and of the lake as one: each record once, in the order of time.

The rule is that of the log's readers. Of several rows with one id the one that was received first
counts; of a candle that the exchange corrected, its last correction. Rows without an id are told
apart by the slot and the number under which they were recorded.
"""

import polars as pl

from penstock.market.channels import Channel
from penstock.storage.lake.columns import key_columns, records_of
from penstock.storage.log import Stored
from penstock.storage.log.corrections import last_corrected
from penstock.storage.log.keys import Stream

TIME = "time_ns"
"""The column that is added to the stored ones: the exchange's time, or the time of receipt."""
_PLACE = ("exchange", "symbol", "slot", "number")
_RECEIVED = ("received_ns", "slot", "number")


def time_of(row: Channel) -> pl.Expr:
    """The time of a row in nanoseconds; of a candle, when it opens."""
    for column in row.columns:
        if column.field == "at_ns":
            return pl.coalesce("at_ns", "received_ns").alias(TIME)
        if column.field == "open_ms":
            return (pl.col(column.name).cast(pl.Int64) * 1000).alias(TIME)
    return pl.col("received_ns").alias(TIME)


def id_columns(row: Channel) -> list[str]:
    """The columns of a record's id; none if its records have no ids."""
    if "slot" in key_columns(row):
        return []
    return [
        name for name in key_columns(row) if name not in ("exchange", "symbol", row.suffix_field)
    ]


def merged(row: Channel, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of a frame, each record once."""
    family = () if row.suffix_field is None else (row.suffix_field,)
    frame = frame.unique((*_PLACE, *family, "received_ns"), keep="first")
    ids = id_columns(row)
    if not ids:
        return frame
    keys = list(key_columns(row))
    if not frame.select(pl.struct(keys).is_duplicated().any()).item():
        return frame
    has_id = pl.any_horizontal(pl.col(name).is_not_null() for name in ids)
    again = pl.struct(keys).is_duplicated() & has_id
    once, several = frame.filter(~again), frame.filter(again).sort(_RECEIVED)
    if row.is_final is None:
        chosen = several.unique(keys, keep="first")
    else:
        chosen = _corrected(row, several, keys)
    return pl.concat([once, chosen])


def in_order(row: Channel, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted by time, then by id; those without one, by receipt."""
    return frame.sort(TIME, *id_columns(row), "exchange", "symbol", *_RECEIVED)


def _corrected(row: Channel, several: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """One row for each key: the last correction among its rows."""
    several = several.with_row_index("_index")
    records = records_of(row, several.drop("_index", TIME).to_arrow())
    stream = Stream("", row.named("") if row.suffix_of is not None else row.name, "")
    by_key: dict[tuple[object, ...], list[Stored]] = {}
    for index, (key, slot, record) in enumerate(
        zip(several.select(keys).iter_rows(), several["slot"], records, strict=True)
    ):
        by_key.setdefault(key, []).append(Stored(stream, slot, index, b"", record, ""))
    chosen = [last_corrected(same).number for same in by_key.values()]
    return several[sorted(chosen)].drop("_index")
