"""The SHA-256 of each data file, to find bytes that change later: Parquet has no checksums of them.

Digests are rows of the table ``digests``. A file gets one only after its rows were compared with
their source, so after it was committed. If the process is killed in between, the file has none
until its rows are compared again, and is reported as unverified.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.fs import DeltaStorageHandler

from penstock.storage.lake import FileProblem

if TYPE_CHECKING:
    import pyarrow.dataset as ds  # takes half a second, since it imports pandas

DIGESTS = "digests"
DIGESTS_SCHEMA = pa.schema(
    [("exchange", pa.string()), ("table", pa.string()), ("path", pa.string()),
     ("sha256", pa.string())]
)  # fmt: skip
_UNUSED_HOURS = 24
"""After which files that the table of digests no longer uses are removed."""
_BLOCK = 1 << 20
_LOW = 0xFFFF_FFFF


def files_of(table: DeltaTable) -> pl.DataFrame:
    """The files of a table: ``path``, ``num_records``, ``partition.exchange`` and so on."""
    found = pl.DataFrame(table.get_add_actions(flatten=True))
    return found.with_columns(pl.Series("path", map(unquote, found["path"]), pl.String))


def store_digests(digests: DeltaTable, name: str, sums: Iterable[tuple[str, str, str]]) -> None:
    """Add rows of (exchange, path, SHA-256) for a table."""
    rows = [(exchange, name, path, found) for exchange, path, found in sums]
    if rows:
        columns = zip(DIGESTS_SCHEMA, zip(*rows, strict=True), strict=True)
        arrays = [pa.array(values, field.type) for field, values in columns]
        write_deltalake(digests, pa.Table.from_arrays(arrays, schema=DIGESTS_SCHEMA), mode="append")


def stored_digests(digests: DeltaTable | None, name: str) -> dict[str, set[str]]:
    """The digests of a table's files, by path. A file that was compared twice may have two."""
    found: dict[str, set[str]] = {}
    if digests is not None:
        # Compared in polars: after a compaction Arrow has views of texts, which it cannot compare.
        rows = pl.DataFrame(pl.from_arrow(digests.to_pyarrow_dataset().to_table()))
        chosen = rows.filter(pl.col("table") == name).select("path", "sha256")
        for path, sha256 in chosen.iter_rows():
            found.setdefault(path, set()).add(sha256)
    return found


def trim_digests(digests: DeltaTable, name: str, unused: Collection[str]) -> None:
    """Delete the digests of these files of a table, and rewrite the rest as few files."""
    with suppress(CommitFailedError):  # another process wrote meanwhile: the next time does it
        if unused:
            paths = ", ".join("'" + path.replace("'", "''") + "'" for path in sorted(unused))
            digests.delete(f"\"table\" = '{name}' AND path IN ({paths})")
        digests.optimize.compact()
        digests.vacuum(_UNUSED_HOURS, dry_run=False, enforce_retention_duration=False)


def sha256_of(uri: str, options: Mapping[str, str] | None, path: str) -> str:
    """The digest of a table's file as it is now.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    handler = DeltaStorageHandler(uri, options=dict(options) if options else None)
    with handler.open_input_file(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def file_problems(
    table: DeltaTable,
    paths: Iterable[str],
    digests: Mapping[str, Collection[str]],
    options: Mapping[str, str] | None,
) -> Iterator[FileProblem]:
    """Those files of a table that are not proven to be as they were when they were written."""
    for path in paths:
        try:
            found = sha256_of(table.table_uri, options, path)
        except FileNotFoundError:
            yield FileProblem(path, "missing")
            continue
        if path not in digests:
            yield FileProblem(path, "unverified")
        elif digests[path] != {found}:
            yield FileProblem(path, "changed")


def fingerprint(rows: "ds.Dataset") -> tuple[int, int, int]:
    """The same for two datasets if they have the same rows, in any order."""
    count = low = high = 0
    for batch in rows.to_batches():
        hashes = pl.DataFrame(pl.from_arrow(batch)).hash_rows()
        count += len(hashes)
        low += int((hashes & _LOW).sum())
        high += int((hashes // (_LOW + 1)).sum())
    return count, low, high
