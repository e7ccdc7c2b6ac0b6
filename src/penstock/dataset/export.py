"""Writes rows batch by batch as CSV, JSON lines, Parquet or an Arrow stream."""

from collections.abc import Iterable, Iterator
from typing import IO, Literal

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

Format = Literal["csv", "jsonl", "parquet", "arrow"]
_TIME = "%Y-%m-%dT%H:%M:%S%.6fZ"


def write_frames(
    frames: Iterable[pl.DataFrame], schema: pl.Schema, form: Format, to: IO[bytes]
) -> int:
    """Write frames of one schema to a binary file; return the number of rows.

    In CSV and JSON, times are ISO 8601 in UTC and exact decimals are texts; in CSV, lists are JSON.
    """
    match form:
        case "csv":
            return _write_csv(frames, schema, to)
        case "jsonl":
            return _write_lines(frames, to)
        case "parquet" | "arrow":
            return _write_arrow(frames, schema, form, to)


def _write_csv(frames: Iterable[pl.DataFrame], schema: pl.Schema, to: IO[bytes]) -> int:
    to.write(pl.DataFrame(schema=schema).select(_flat(schema)).write_csv().encode())
    rows = 0
    for frame in frames:
        to.write(frame.select(_flat(schema)).write_csv(include_header=False).encode())
        rows += frame.height
    return rows


def _write_lines(frames: Iterable[pl.DataFrame], to: IO[bytes]) -> int:
    rows = 0
    for frame in frames:
        frame.select(_text_of(name, kind) for name, kind in frame.schema.items()).write_ndjson(to)
        rows += frame.height
    return rows


def _write_arrow(
    frames: Iterable[pl.DataFrame], schema: pl.Schema, form: Format, to: IO[bytes]
) -> int:
    kinds = pl.DataFrame(schema=schema).to_arrow().schema
    writer = (
        pq.ParquetWriter(to, kinds, compression="zstd")
        if form == "parquet"
        else pa.ipc.new_stream(to, kinds)
    )
    rows = 0
    with writer:
        for frame in frames:
            writer.write_table(frame.to_arrow().cast(kinds))
            rows += frame.height
    return rows


def _flat(schema: pl.Schema) -> Iterator[pl.Expr]:
    for name, kind in schema.items():
        yield _json_of(name) if isinstance(kind, pl.List | pl.Struct) else _text_of(name, kind)


def _text_of(name: str, kind: pl.DataType) -> pl.Expr:
    if isinstance(kind, pl.Datetime):
        return pl.col(name).dt.strftime(_TIME)
    if isinstance(kind, pl.Decimal):
        text = pl.col(name).cast(pl.String)
        return text.str.strip_chars_end("0").str.strip_chars_end(".")
    return pl.col(name)


def _json_of(name: str) -> pl.Expr:
    whole = pl.struct(name).struct.json_encode()
    head = len(f'{{"{name}":')
    return whole.str.slice(head, whole.str.len_chars() - head - 1).alias(name)
