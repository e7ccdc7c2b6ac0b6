"""Sorts the rows of a dataset in bounded memory."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_MEMORY = "1GB"
_BATCH_ROWS = 65_536


@contextmanager
def sorted_batches(
    dataset: "ds.Dataset", columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatchReader]:
    """The rows of a dataset sorted by some columns; what exceeds the memory is put on the disk.

    The reader fails at its end if there are not as many rows as there should be, so that whoever
    replaces them with what it reads does not lose any.
    """
    with (
        tempfile.TemporaryDirectory(prefix="penstock-sort-") as folder,
        duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": folder}) as connection,
    ):
        order = ", ".join(f'"{name}"' for name in columns)
        found = connection.from_arrow(dataset).order(order)
        batches = _checked(dataset.schema, found.to_arrow_reader(_BATCH_ROWS), rows)
        yield pa.RecordBatchReader.from_batches(dataset.schema, batches)


def _checked(
    schema: pa.Schema, batches: pa.RecordBatchReader, rows: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows -= batch.num_rows
        yield from pa.Table.from_batches([batch]).select(schema.names).cast(schema).to_batches()
    if rows:
        raise OSError(f"{abs(rows):,} rows too {'few' if rows > 0 else 'many'} were read")
