"""Rows of the log and of the lake as one: each record once, in the order of time.

The rule is that of the log's readers. Of several rows with one id the one that was received first
counts; of a candle that the exchange corrected, its last correction. Rows without an id are told
apart by the slot and the number under which they were recorded.
"""

from collections.abc import Iterable
from functools import reduce
from operator import xor

import polars as pl

from penstock.market.channels import Channel
from penstock.storage.lake.columns import key_columns, records_of, schema_of
from penstock.storage.log import Stored
from penstock.storage.log.corrections import last_corrected
from penstock.storage.log.keys import Stream

TIME = "time_ns"
"""The column that is added to the stored ones: the exchange's time, or the time of receipt."""
_MOST_FILES = 100
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


def needed(row: Channel, columns: Iterable[str]) -> list[str]:
    """The stored columns that are read for these: those that tell rows apart and order them too."""
    if row.is_final is not None:
        return [*schema_of(row).names]  # whether a row corrects another is decided by all
    named = {*columns, *key_columns(row), *_PLACE, *_RECEIVED, *time_of(row).meta.root_names()}
    return [name for name in schema_of(row).names if name in named]


def merged(row: Channel, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of a frame, each record once."""
    ids = id_columns(row)
    if ids:
        frame = _files_in_order(frame)
        if _rises(frame[ids[0]], strictly=True):
            return frame  # all ids differ
    # Rows of one record have equal hashes. Those few that have are then compared exactly.
    found = _same_hash(key_columns(row))
    if ids:
        has_id = pl.any_horizontal(pl.col(name).is_not_null() for name in ids)
        found = pl.when(has_id).then(found).otherwise(_same_hash(_PLACE))
    suspects = frame.select(found).to_series()
    if not suspects.any():
        return frame
    family = () if row.suffix_field is None else (row.suffix_field,)
    several = frame.filter(suspects).unique((*_PLACE, *family, "received_ns"), keep="first")
    if ids:
        several = _by_id(row, several.sort(_RECEIVED), ids)
    return pl.concat([frame.filter(~suspects), several])


def in_order(row: Channel, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted by time, then by id; those without one, by receipt."""
    ids = id_columns(row)
    # Two numbers are compared faster than all columns, and mostly decide.
    first = [TIME, ids[0] if ids else "received_ns"]
    frame = _files_in_order(frame)
    if _rises(frame[first[0]]) and _rises(frame[first[1]], strictly=True):
        return frame
    ordered = frame.sort(first)
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift()) for name in first)
    if ordered.height < 2 or not ordered.select(same.slice(1).any()).item():
        return ordered
    return frame.sort(TIME, *ids, "exchange", "symbol", *_RECEIVED)


def _files_in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of each file are mostly in order already: so are all, if the files are ordered."""
    times = frame[TIME]
    falls = (times.slice(1) < times.slice(0, max(len(times) - 1, 0))).arg_true() + 1
    if not 0 < len(falls) <= _MOST_FILES:
        return frame
    begins = [0, *falls]
    ends = [*falls, frame.height]
    files = [frame.slice(begin, end - begin) for begin, end in zip(begins, ends, strict=True)]
    return pl.concat(sorted(files, key=lambda each: int(each[TIME][0])))


def _rises(values: pl.Series, *, strictly: bool = False) -> bool:
    if values.null_count() or not values.is_sorted():
        return False
    return not strictly or bool((values.slice(1) > values.slice(0, max(len(values) - 1, 0))).all())


def _same_hash(columns: Iterable[str]) -> pl.Expr:
    hashes = [pl.col(name).hash(seed) for seed, name in enumerate(columns)]
    return reduce(xor, hashes).is_duplicated()


def _by_id(row: Channel, several: pl.DataFrame, ids: list[str]) -> pl.DataFrame:
    """One row for each id; rows without an id stay."""
    keys = list(key_columns(row))
    has_id = pl.any_horizontal(pl.col(name).is_not_null() for name in ids)
    without, several = several.filter(~has_id), several.filter(has_id)
    if row.is_final is None:
        chosen = several.unique(keys, keep="first", maintain_order=True)
    else:
        chosen = _corrected(row, several, keys)
    return pl.concat([without, chosen])


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
