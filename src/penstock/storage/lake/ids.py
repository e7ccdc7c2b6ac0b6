"""Reads which ids of a stream a table has."""

from collections.abc import Iterator

import polars as pl
import pyarrow.compute as pc
from deltalake import DeltaTable

from penstock.market.channels import Channel
from penstock.storage.lake import SealedIds
from penstock.storage.lake.columns import schema_of
from penstock.storage.lake.coverage import unified
from penstock.storage.log.keys import Stream


def sealed_ids(table: DeltaTable, row: Channel, stream: Stream, first: int, last: int) -> SealedIds:
    """The ids of a stream in a range, both ends included."""
    ids = pc.field("id")
    of_stream = (pc.field("exchange") == stream.exchange) & (pc.field("symbol") == unified(stream))
    dataset = table.to_pyarrow_dataset(schema=schema_of(row)).filter(of_stream)
    found = dataset.to_table(columns=["id"], filter=(ids >= first) & (ids <= last))
    runs = list(runs_of(pl.Series(pl.from_arrow(found["id"]))))
    if not is_trimmed(table):
        return SealedIds(runs, is_trimmed=False)
    return SealedIds(runs, True, pc.min(dataset.to_table(columns=["id"])["id"]).as_py())


def is_trimmed(table: DeltaTable) -> bool:
    """Whether rows were deleted from a table."""
    return any(each.get("operation") == "DELETE" for each in table.history())


def runs_of(numbers: pl.Series) -> Iterator[tuple[int, int]]:
    """The runs of consecutive numbers in a series of any order."""
    ordered = numbers.unique().sort()
    if ordered.is_empty():
        return
    begins = (ordered.diff().fill_null(2) != 1).arg_true()
    firsts = ordered.gather(begins)
    lasts = [*ordered.gather(begins[1:] - 1), ordered[-1]]
    yield from zip(firsts, lasts, strict=True)
