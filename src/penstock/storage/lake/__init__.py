"""The lake holds closed ranges of the log as tables, one for each channel, in a folder or bucket.

A keeper *seals* ranges of broadcast numbers: it appends their records to the channel's table and,
in the same transaction, stores for each stream of a slot the last number that is sealed. So a range
is sealed once or not at all, whatever is killed or however many keepers there are, and what is
sealed can be read from the tables alone. A slot is named here with its log, ``LOG/SLOT``, because
logs of several machines meet in one lake.

What readers have to know:

- A row is identified by (exchange, symbol, slot, number) and, for a family such as candles, by the
  interval too: rows of one table never repeat that. A log may still hold rows that are sealed;
  these are the same in both.
- Two slots may have recorded the same event, and a slot records an event again if it was told to
  forget it. Such rows agree in ``columns.key_columns``. Of these, the row that was received first
  counts: the lowest (received_ns, slot, number). Rows without an id are never copies.
- Candles (channels with ``is_final``): the exchange corrects them. Of rows with one key, in the
  order of (received_ns, slot, number), a later row counts if it contradicts the one before:
  ``log.corrections.last_corrected``. Within one slot the highest number is the last correction.
- Files are found through the table's log, never by listing the folder: between a compaction and a
  vacuum the folder holds rows twice.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, cast

from penstock.errors import MissingExtra
from penstock.market.channels import Channel
from penstock.storage.log.keys import Stream

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
"""The version of the tables' format; a table of a newer one is refused."""


class NumberRange(NamedTuple):
    """The broadcast numbers of one stream in one slot that a seal covers; both ends included."""

    first: int
    last: int


class TableStats(NamedTuple):
    """The present content of a table."""

    name: str
    version: int
    files: int
    rows: int
    size_bytes: int


class Partition(NamedTuple):
    """One partition of a table: its files and their size."""

    exchange: str
    date: date
    files: int
    rows: int
    size_bytes: int


class SealedIds(NamedTuple):
    """Ids of one stream that are in a table."""

    runs: list[tuple[int, int]]
    """Runs of consecutive ids, both ends included."""
    is_trimmed: bool
    """Whether retention has deleted rows of the table."""
    lowest: int | None = None
    """Then, the lowest id of the stream that is left."""


class FileProblem(NamedTuple):
    """A data file that is not proven to be as it was when its rows were compared."""

    path: str
    """Relative to the table."""
    problem: Literal["missing", "changed", "unverified"]
    """``unverified``: its rows were not compared since it was written, so it has no digest."""


class Lake(Protocol):
    """Tables of sealed records. Not thread-safe; several processes may write at the same time.

    Every method may raise StorageError (StorageFull, NewerStore): nothing was changed then.
    """

    @property
    def url(self) -> str: ...

    def sealed(self, row: Channel, slot: str, streams: Sequence[Stream]) -> dict[Stream, int]:
        """The last sealed number of each of these streams in a slot; 0 if nothing is sealed."""
        ...

    def seal(
        self, row: Channel, slot: str, rows: "pa.Table", ranges: Mapping[Stream, NumberRange]
    ) -> None:
        """Append rows, all or none, and store that these ranges of the slot are sealed.

        Raises:
            SealConflict: a range does not begin where the last one ended, because another keeper
                sealed meanwhile. Nothing was written.
        """
        ...

    def equal(self, row: Channel, rows: "pa.Table") -> bool:
        """Whether these rows, read back from the lake, are there once and the same.

        If so, the digests of the files that hold nothing else are stored.
        """
        ...

    def stats(self) -> list[TableStats]:
        """Every table that exists."""
        ...

    def partitions(self, row: Channel) -> list[Partition]:
        """The partitions of a table, oldest first."""
        ...

    def ids(self, row: Channel, stream: Stream, first: int, last: int) -> SealedIds | None:
        """The ids of a stream in a range, both ends included; None: there is no such table."""
        ...

    def compact(self, row: Channel, partition: Partition) -> bool:
        """Rewrite a partition as few files, sorted by symbol and time.

        False: another process wrote to it meanwhile, and nothing was changed. If all files had the
        right digests and the new ones have the same rows, these get digests too.
        """
        ...

    def delete(self, row: Channel, partitions: Sequence[Partition]) -> bool:
        """Delete whole partitions; False as above. Which numbers are sealed does not change."""
        ...

    def vacuum(self, row: Channel, retention_hours: int, *, dry_run: bool = False) -> int:
        """Remove files that no version within the retention uses; return their number.

        Files that an earlier call removed may be counted again.
        """
        ...

    def unused_files(self, row: Channel, retention_hours: int) -> list[str]:
        """The paths, within the table, of the files that ``vacuum`` would remove.

        Files that an earlier call removed may be among them.
        """
        ...

    def check_files(self, row: Channel) -> Iterator[FileProblem]:
        """Read every file of a table; yield those that are not proven to be unchanged."""
        ...

    def merge_coverage(self, rows: "pa.Table", series: Collection[Stream]) -> bool:
        """Replace what the table ``coverage`` has of these series; False as above."""
        ...


class _Backend(Protocol):
    def open_url(self, url: str, options: Mapping[str, str], *, alone: bool) -> Lake: ...


def open_lake(url: str, options: Mapping[str, str] | None = None, *, alone: bool = False) -> Lake:
    """Open the lake in a folder, or at the URL of an object store such as ``s3://bucket/lake``.

    ``options`` are those of the object store; the usual environment variables apply too. With
    ``alone``, the caller promises that it only reads, or that no other process writes to it.

    Raises:
        MissingExtra: the libraries of the lake are not installed.
        StorageError: it cannot be reached, or does not support several writers.
    """
    try:
        backend = cast("_Backend", import_module(f"{__name__}.delta"))
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "a library", "lake") from error
    return backend.open_url(url, options or {}, alone=alone)
