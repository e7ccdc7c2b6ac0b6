"""Sorts the rows of a dataset in bounded memory."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

_MEMORY = "1GB"
_BATCH_ROWS = 65_536


@contextmanager
def sorted_batches(dataset: ds.Dataset, columns: Sequence[str]) -> Iterator[pa.RecordBatchReader]:
    """The rows of a dataset sorted by some columns; what exceeds the memory is put on the disk."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-sort-") as folder,
        duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": folder}) as connection,
    ):
        order = ", ".join(f'"{name}"' for name in columns)
        found = connection.from_arrow(dataset).order(order)
        yield _as(dataset.schema, found.to_arrow_reader(_BATCH_ROWS))


def _as(schema: pa.Schema, reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    batches = (pa.Table.from_batches([batch]).select(schema.names).cast(schema) for batch in reader)
    return pa.RecordBatchReader.from_batches(
        schema, (piece for table in batches for piece in table.to_batches())
    )
