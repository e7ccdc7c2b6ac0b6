"""A lake of Delta tables.

A seal is one commit: the files of its rows, and for each stream a transaction whose application id
is ``LOG/SLOT/STREAM`` and whose version is the last sealed number. Delta rejects a commit if one of
its application ids was committed after the table was read. So the version is read and the rows are
appended with the same table object; appending to a path instead would store the rows twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from penstock.errors import SealConflict, StorageError
from penstock.market.channels import BY_EVENT, Channel
from penstock.storage.lake import FORMAT, FileProblem, NumberRange, Partition, SealedIds, TableStats
from penstock.storage.lake.columns import schema_of, time_column
from penstock.storage.lake.coverage import COVERAGE, COVERAGE_SCHEMA, series_keys
from penstock.storage.lake.digests import (
    DIGESTS,
    DIGESTS_SCHEMA,
    file_problems,
    files_of,
    fingerprint,
    sha256_of,
    store_digests,
    stored_digests,
    trim_digests,
)
from penstock.storage.lake.failures import lake_errors
from penstock.storage.lake.ids import sealed_ids
from penstock.storage.lake.probe import check_conditional_put
from penstock.storage.lake.sorting import sorted_batches
from penstock.storage.lake.versions import FORMAT_KEY, check_format
from penstock.storage.log.keys import Stream

PARTITIONS = ["exchange", "date"]
_ATTEMPTS = 20
_FILE_BYTES = 256 * 1024 * 1024
_LEVEL, _COMPACTED_LEVEL = 1, 3
"""Of the compression: a seal is rewritten by a later compaction."""
_GROUP_ROWS = 131_072
"""Readers skip groups of rows of other symbols or times, and hold a few groups in memory."""
_FILE = "__filename"
"""The column in which Arrow gives the path of a row's file."""
_PACKED = ColumnProperties(dictionary_enabled=False, encoding="DELTA_BINARY_PACKED")
_PACKED_TYPES = (pa.int64(), pa.timestamp("us", tz="UTC"))


def open_url(url: str, options: Mapping[str, str], *, alone: bool) -> "DeltaLake":
    """The lake at a URL; see ``open_lake``."""
    if "://" not in url:
        url = str(Path(url).absolute())
    elif not alone:
        check_conditional_put(url, options)
    return DeltaLake(url.rstrip("/"), options)


class DeltaLake:
    """Delta tables in one folder or bucket."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self.url, self._options = url, dict(options) or None
        self._tables: dict[str, DeltaTable] = {}

    def sealed(self, row: Channel, slot: str, streams: Sequence[Stream]) -> dict[Stream, int]:
        table = self._current(row.name)
        if table is None:
            return dict.fromkeys(streams, 0)
        with lake_errors(self._uri(row.name)):
            return {stream: _sealed(table, slot, stream) for stream in streams}

    def seal(
        self, row: Channel, slot: str, rows: pa.Table, ranges: Mapping[Stream, NumberRange]
    ) -> None:
        table = self._writable(row.name, schema_of(row))
        rows = _sorted(rows, ["symbol", time_column(row), "number"])
        commit = CommitProperties(
            app_transactions=[
                Transaction(_app_id(slot, stream), last) for stream, (_, last) in ranges.items()
            ]
        )
        with lake_errors(self._uri(row.name)):
            for _ in range(_ATTEMPTS):
                for stream, (first, _) in ranges.items():
                    sealed = _sealed(table, slot, stream)
                    if sealed != first - 1:
                        raise SealConflict(str(stream), slot, first, sealed)
                with suppress(CommitFailedError):
                    self._append(table, rows, commit)
                    return
                table.update_incremental()
        raise StorageError(self._uri(row.name), "others write to the table without a pause")

    def _append(self, table: DeltaTable, rows: pa.Table, commit: CommitProperties) -> None:
        known = {field.name for field in table.schema().fields}
        write_deltalake(
            table,
            rows,
            mode="append",
            schema_mode=None if known.issuperset(rows.column_names) else "merge",
            writer_properties=_writer_properties(rows.schema),
            target_file_size=_FILE_BYTES,
            commit_properties=commit,
        )

    def equal(self, row: Channel, rows: pa.Table) -> bool:
        table = self._current(row.name)
        if table is None:
            return bool(rows.num_rows == 0)
        identity = ["exchange", "symbol", "slot", "number"]
        identity += [row.suffix_field] if row.suffix_field is not None else []
        wanted = pl.DataFrame(pl.from_arrow(rows))
        numbers = pc.field("number")
        filters = (
            pc.field("slot").isin(pc.unique(rows["slot"]))
            & pc.field("exchange").isin(pc.unique(rows["exchange"]))
            & pc.field("date").isin(pc.unique(rows["date"]))
            & (numbers >= pc.min(rows["number"]))
            & (numbers <= pc.max(rows["number"]))
        )
        with lake_errors(self._uri(row.name)):
            dataset = table.to_pyarrow_dataset(schema=schema_of(row))
            names = [*dataset.schema.names, _FILE]
            found = dataset.to_table(columns=names, filter=filters)
        # All rows of these records, so that one that is stored twice is seen.
        there = pl.DataFrame(pl.from_arrow(found)).join(wanted, on=identity, how="semi")
        if not there.select(wanted.columns).sort(identity).equals(wanted.sort(identity)):
            return False
        compared = there.group_by(_FILE).len().rename({_FILE: "path", "len": "compared"})
        files = files_of(table).join(compared, on="path")
        # A file that other rows are in was not compared as a whole.
        self._store_digests(
            table, row.name, files.filter(pl.col("num_records") == pl.col("compared"))
        )
        return True

    def _store_digests(self, table: DeltaTable, name: str, files: pl.DataFrame) -> None:
        """Store the digests of these files, if they have none."""
        with lake_errors(self._uri(DIGESTS)):
            digests = self._writable(DIGESTS, DIGESTS_SCHEMA)
            known = stored_digests(digests, name)
            new = files.filter(~pl.col("path").is_in([*known]))
            sums = [
                (exchange, path, sha256_of(table.table_uri, self._options, path))
                for exchange, path in new.select("partition.exchange", "path").iter_rows()
            ]
            store_digests(digests, name, sums)

    def check_files(self, row: Channel) -> Iterator[FileProblem]:
        table, digests = self._current(row.name), self._current(DIGESTS)
        if table is not None:
            with lake_errors(self._uri(row.name)):
                paths, known = files_of(table)["path"], stored_digests(digests, row.name)
                yield from file_problems(table, paths, known, self._options)

    def stats(self) -> list[TableStats]:
        found = []
        for name in self.names():
            table = self._current(name)
            if table is not None:
                files = files_of(table)
                rows, size = int(files["num_records"].sum()), int(files["size_bytes"].sum())
                found.append(TableStats(name, table.version(), files.height, rows, size))
        return found

    def names(self) -> list[str]:
        """The names of tables that may exist."""
        return [*(row.name for row in BY_EVENT.values()), COVERAGE]

    def partitions(self, row: Channel) -> list[Partition]:
        table = self._current(row.name)
        if table is None:
            return []
        grouped = files_of(table).group_by("partition.date", "partition.exchange").agg(
            pl.len(), pl.sum("num_records"), pl.sum("size_bytes")
        )  # fmt: skip
        return [
            Partition(exchange, day, files, rows, size)
            for day, exchange, files, rows, size in grouped.sort(
                "partition.date", "partition.exchange"
            ).iter_rows()
        ]

    def ids(self, row: Channel, stream: Stream, first: int, last: int) -> SealedIds | None:
        table = self._current(row.name)
        with lake_errors(self._uri(row.name)):
            return None if table is None else sealed_ids(table, row, stream, first, last)

    def compact(self, row: Channel, partition: Partition) -> bool:
        table = self._current(row.name)
        if table is None:
            return False
        predicate = f"exchange = {_quoted(partition.exchange)} AND date = '{partition.date}'"
        in_partition = (pc.field("exchange") == partition.exchange) & (
            pc.field("date") == pa.scalar(partition.date, pa.date32())
        )
        files = _files_in(table, partition)
        with lake_errors(self._uri(row.name)):
            verified = self._check_sources(table, row.name, files)
            dataset = table.to_pyarrow_dataset(schema=schema_of(row)).filter(in_partition)
            before = fingerprint(dataset) if verified else None
            order = ["symbol", time_column(row), "number"]
            with sorted_batches(dataset, order, int(files["num_records"].sum())) as batches:
                try:
                    write_deltalake(
                        table,
                        batches,
                        mode="overwrite",
                        predicate=predicate,
                        writer_properties=_writer_properties(schema_of(row), _COMPACTED_LEVEL),
                        target_file_size=_FILE_BYTES,
                    )
                except CommitFailedError:
                    return False
            compacted = table.to_pyarrow_dataset(schema=schema_of(row)).filter(in_partition)
            # It differs, too, if another process appended meanwhile: then all stay unverified.
            if before is not None and fingerprint(compacted) == before:
                new = _files_in(table, partition).filter(~pl.col("path").is_in(files["path"]))
                self._store_digests(table, row.name, new)
        return True

    def _check_sources(self, table: DeltaTable, name: str, files: pl.DataFrame) -> bool:
        """Whether all of these files have the right digests.

        Raises:
            StorageError: one of them has changed: it must not become a new file with a new digest.
        """
        digests = stored_digests(self._current(DIGESTS), name)
        problems = list(file_problems(table, files["path"], digests, self._options))
        for path, problem in problems:
            if problem == "changed":
                raise StorageError(
                    f"{self._uri(name)}/{path}",
                    "the file has changed since it was written",
                    "Nothing was changed. Check all with: penstock verify",
                )
        return not problems

    def delete(self, row: Channel, partitions: Sequence[Partition]) -> bool:
        table = self._current(row.name)
        if table is None or not partitions:
            return False
        predicate = " OR ".join(
            f"(exchange = {_quoted(each.exchange)} AND date = '{each.date}')" for each in partitions
        )
        with lake_errors(self._uri(row.name)):
            try:
                table.delete(predicate)
            except CommitFailedError:
                return False
        return True

    def vacuum(self, row: Channel, retention_hours: int, *, dry_run: bool = False) -> int:
        table = self._current(row.name)
        if table is None:
            return 0
        with lake_errors(self._uri(row.name)):
            # All files are listed: killed writers leave some that the table never knew.
            try:
                removed = table.vacuum(
                    retention_hours, dry_run, enforce_retention_duration=False, full=True
                )
            except CommitFailedError:
                return 0  # another process wrote meanwhile; what is unused stays so
            if not dry_run:
                digests = self._current(DIGESTS)
                known = stored_digests(digests, row.name)
                # Read after them: a digest is stored after its file is committed.
                table.update_incremental()
                if digests is not None:
                    trim_digests(digests, row.name, {*known}.difference(files_of(table)["path"]))
        return len(removed)

    def unused_files(self, row: Channel, retention_hours: int) -> list[str]:
        table = self._current(row.name)
        if table is None:
            return []
        with lake_errors(self._uri(row.name)):
            found = table.vacuum(
                retention_hours, dry_run=True, enforce_retention_duration=False, full=True
            )
        return [unquote(path) for path in found]

    def merge_coverage(self, rows: pa.Table, series: Collection[Stream]) -> bool:
        table = self._writable(COVERAGE, COVERAGE_SCHEMA)
        replaced = series_keys(series)
        with lake_errors(self._uri(COVERAGE)):
            before = pl.DataFrame(pl.from_arrow(table.to_pyarrow_dataset().to_table()))
            new = pl.DataFrame(pl.from_arrow(rows)).select(before.columns)
            kept = before.join(replaced, on=replaced.columns, how="anti")
            exchanges = {*before.join(replaced, on=replaced.columns, how="semi")["exchange"]}
            exchanges |= {*new["exchange"]}
            after = pl.concat([kept.filter(pl.col("exchange").is_in(sorted(exchanges))), new])
            try:
                if exchanges:
                    write_deltalake(
                        table, after.to_arrow().cast(COVERAGE_SCHEMA), mode="overwrite",
                        predicate=f"exchange IN ({', '.join(map(_quoted, sorted(exchanges)))})",
                    )  # fmt: skip
            except CommitFailedError:
                return False
        return True

    def _uri(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _current(self, name: str) -> DeltaTable | None:
        """The latest version of a table; None if there is none.

        Raises:
            NewerStore: a newer penstock wrote it.
            StorageError: it cannot be read, or is not a table of penstock.
        """
        uri = self._uri(name)
        with lake_errors(uri):
            table = self._tables.get(name)
            if table is None:
                try:
                    table = DeltaTable(uri, storage_options=self._options)
                except TableNotFoundError:
                    return None
                self._tables[name] = table
            else:
                table.update_incremental()
        check_format(uri, table)
        return table

    def _writable(self, name: str, schema: pa.Schema) -> DeltaTable:
        """The latest version of a table, created if there is none."""
        table = self._current(name)
        if table is None:
            with lake_errors(self._uri(name)):
                if "://" not in self.url:
                    Path(self._uri(name)).mkdir(parents=True, exist_ok=True)
                DeltaTable.create(
                    self._uri(name),
                    schema,
                    mode="ignore",
                    partition_by=PARTITIONS if "date" in schema.names else ["exchange"],
                    configuration={FORMAT_KEY: str(FORMAT)},
                    raise_if_key_not_exists=False,
                    storage_options=self._options,
                )
            table = self._current(name)
            assert table is not None
        return table


def _app_id(slot: str, stream: Stream) -> str:
    return f"{slot}/{stream}"


def _sealed(table: DeltaTable, slot: str, stream: Stream) -> int:
    return table.transaction_version(_app_id(slot, stream)) or 0


def _files_in(table: DeltaTable, partition: Partition) -> pl.DataFrame:
    return files_of(table).filter(
        (pl.col("partition.exchange") == partition.exchange)
        & (pl.col("partition.date") == partition.date)
    )


def _sorted(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    # What one stream received is mostly sorted already: then each of the columns is.
    if all(pl.Series(pl.from_arrow(rows[name])).is_sorted() for name in columns):
        return rows
    return rows.sort_by([(name, "ascending") for name in columns])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@lru_cache
def _writer_properties(schema: pa.Schema, level: int = _LEVEL) -> WriterProperties:
    packed = [field.name for field in schema if field.type in _PACKED_TYPES]
    return WriterProperties(
        compression="ZSTD",
        compression_level=level,
        max_row_group_size=_GROUP_ROWS,
        column_properties=dict.fromkeys(packed, _PACKED),
    )
