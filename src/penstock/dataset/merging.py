"""Rows of the log and of the lake as one: each record once, in the order of time.

The rule is that of the log's readers. Of several rows with one id the one that was received first
counts; of a candle that the exchange corrected, its last correction. Rows without an id are told
apart by the slot and the number under which they were recorded.
"""

from collections.abc import Collection, Iterable, Sequence
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
_MOST_RUNS = 1000
_PLACE = ("exchange", "symbol", "slot", "number")
_RECEIVED = ("received_ns", "slot", "number")
_SHIFT = pl.lit(1 << 64, pl.Int128)
_LEAST = -(1 << 63)


def time_of(row: Channel) -> pl.Expr:
    """The time of a row in nanoseconds; of a candle, when it opens."""
    for column in row.columns:
        if column.field == "at_ns":
            return pl.coalesce("at_ns", "received_ns").alias(TIME)
        if column.field == "open_ms":
            return (pl.col(column.name).cast(pl.Int64) * 1000).alias(TIME)
    return pl.col("received_ns").alias(TIME)


def in_window(row: Channel, since_ns: int, until_ns: int) -> pl.Expr:
    """Whether the time of a row is in a window, such that whole groups of rows can be skipped."""

    def inside(name: str) -> pl.Expr:
        return pl.col(name).is_between(since_ns, until_ns, closed="left")

    if any(column.field == "at_ns" for column in row.columns):
        return inside("at_ns") | (pl.col("at_ns").is_null() & inside("received_ns"))
    return time_of(row).is_between(since_ns, until_ns, closed="left")


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
    frame, begins = _by_market(frame)
    if ids and _all_rise(frame[ids[0]], begins):
        return frame  # all ids of a market differ
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


def in_order(row: Channel, frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of the rows sorted by time, then by id; those without one, by receipt."""
    ids = id_columns(row)
    second = ids[0] if ids else "received_ns"
    wanted = frame.select(columns)
    if frame[TIME].is_sorted() and _all_rise(frame[second]):
        return wanted
    # One number is compared faster than all columns, and mostly decides.
    key = pl.col(TIME).cast(pl.Int128) * _SHIFT + pl.col(second).to_physical().fill_null(_LEAST)
    keys = frame.select(key).to_series()
    order = keys.arg_sort()
    keys = keys.gather(order)
    repeats = (keys.slice(1) == keys.slice(0, len(keys) - 1)).arg_true()
    if len(repeats):
        places = pl.concat([repeats, repeats + 1]).unique().sort()
        rows = order.gather(places)
        by_all = (TIME, *ids, "exchange", "symbol", *_RECEIVED)
        among = frame.select(pl.col(by_all).gather(rows)).select(pl.arg_sort_by(*by_all))
        order = order.scatter(places, rows.gather(among.to_series()))
    return wanted.select(pl.all().gather(order))


def _by_market(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[int]]:
    """The rows of each market together, and where each of them begins.

    Rows of a file are mostly in the order of market and time. So are all rows, if the parts of
    files are put in order, unless files overlap.
    """
    market = ("exchange", "symbol")
    changes = [pl.col(name).ne_missing(pl.col(name).shift()) for name in market]
    falls = pl.col(TIME) < pl.col(TIME).shift()
    found = frame.select(pl.any_horizontal(falls, *changes)).to_series().arg_true()
    if not 1 < len(found) <= _MOST_RUNS:
        return frame, [0]
    ends = [*found[1:], frame.height]
    runs = [frame.slice(begin, end - begin) for begin, end in zip(found, ends, strict=True)]
    runs.sort(key=lambda run: run.select(*market, TIME).row(0))
    begins, at, last = [], 0, None
    for run in runs:
        if (of := run.select(market).row(0)) != last:
            begins.append(at)
        last, at = of, at + run.height
    return pl.concat(runs), begins


def _all_rise(values: pl.Series, begins: Collection[int] = (0,)) -> bool:
    """Whether each value is greater than the one before it, except where a part begins."""
    if values.null_count():
        return False
    falls = (values.slice(1) <= values.slice(0, max(len(values) - 1, 0))).arg_true() + 1
    return len(falls) < len(begins) and {*falls}.issubset(begins)


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
