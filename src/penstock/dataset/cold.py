"""Rows from the lake: Delta tables, one for each channel, in a folder or an object store."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import polars as pl
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.dataset.merging import in_window, time_of
from penstock.dataset.times import Range
from penstock.dataset.windows import HOUR_NS, Piece, Window
from penstock.errors import StorageError
from penstock.market import channels
from penstock.market.channels import BY_EVENT, Channel
from penstock.market.symbol import Symbol
from penstock.storage.lake import FileProblem, open_lake
from penstock.storage.lake.coverage import COVERAGE
from penstock.storage.lake.digests import files_of
from penstock.storage.lake.failures import lake_errors
from penstock.storage.lake.ids import is_trimmed
from penstock.storage.lake.versions import check_format
from penstock.storage.log.keys import Stream

_EXPANSION, _TEXT_EXPANSION = 12, 8
"""How much larger rows are in memory than in a compressed file, at most as a rule: of numbers, and
of texts such as price levels."""
_DAY_NS = 86_400_000_000_000
_END_NS = (1 << 63) - 1
_DAMAGED = "A file of the lake is damaged or missing. Check all with: penstock verify"
_MONTH_NS = 31 * _DAY_NS
_EPOCH = date(1970, 1, 1)


class Cold:
    """A lake, to read. Every method raises StorageError if a table cannot be read."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        self.url, self._options = url.rstrip("/"), dict(options or {}) or None
        self._streams: dict[str, tuple[int, set[Stream]]] = {}
        """The streams of each table, and the version that they are of."""

    def table(self, row: Channel) -> "ColdTable | None":
        """The latest version of a channel's table; None if there is none."""
        table = self._open(row.name)
        return None if table is None else ColdTable(row, table, self._options)

    def coverage(self) -> pl.DataFrame | None:
        """The table of coverage, if there is one."""
        table = self._open(COVERAGE)
        if table is None:
            return None
        with lake_errors(table.table_uri), _broken_files(table.table_uri):
            return pl.scan_delta(table, storage_options=self._options).collect()

    def damaged_files(self, row: Channel) -> Iterator[FileProblem]:
        """Read every file of a channel's table; yield those that are not proven to be unchanged."""
        return open_lake(self.url, self._options, alone=True).check_files(row)

    def streams(self, without: Collection[str] = ()) -> set[Stream]:
        """The streams that have rows: those in the table of coverage, where there are any.

        A table of which it says nothing yet is read instead, which may take seconds, except for
        those of the names ``without``.
        """
        found: set[Stream] = set()
        stored = self.coverage()
        if stored is not None:
            names = stored.select("exchange", "channel", "symbol").unique().iter_rows()
            found = {Stream(each, name, Symbol.parse(text).slug) for each, name, text in names}
        covered = {row.name for each in found if (row := channels.find(each.channel)) is not None}
        for row in BY_EVENT.values():
            if row.name in covered or row.name in without:
                continue
            if (table := self.table(row)) is not None:
                version, known = self._streams.get(row.name, (-1, set[Stream]()))
                if version != table.version:
                    known = set(table.streams())
                    self._streams[row.name] = table.version, known
                found |= known
        return found

    def _open(self, name: str) -> DeltaTable | None:
        uri = f"{self.url}/{name}"
        with lake_errors(uri):
            try:
                table = DeltaTable(uri, storage_options=self._options)
            except TableNotFoundError:
                return None
        check_format(uri, table)
        return table


class ColdTable:
    """One version of a channel's table: it stays as it is while others write."""

    def __init__(self, row: Channel, table: DeltaTable, options: dict[str, str] | None) -> None:
        self._row, self._table, self._options = row, table, options
        self.version = table.version()

    def streams(self) -> Iterator[Stream]:
        """The streams that have rows in it."""
        suffix = self._row.suffix_field
        names = ["exchange", "symbol", *([] if suffix is None else [suffix])]
        found = self._collected(self._scan().select(names).unique())
        for exchange, symbol, *ending in found.iter_rows():
            channel = self._row.named(ending[0]) if ending else self._row.name
            yield Stream(exchange, channel, Symbol.parse(symbol).slug)

    def pieces(
        self, streams: Collection[Stream], times: Range, share: float, enough: float
    ) -> list[Piece]:
        """Where rows of these streams are in a range, and about how large they are in memory.

        ``share`` is the part of the columns that is wanted. Files of several symbols may have
        mostly rows of other streams, so if files are larger than ``enough``, rows are counted.

        Raises:
            StorageError: a file is missing or cut off.
        """
        symbols = _symbols(streams)
        texts = any(column.kind == "json" for column in self._row.columns)
        expansion = share * (_TEXT_EXPANSION if texts else _EXPANSION)
        found: list[Piece] = []
        rows, mixed = 0.0, False
        for file in files_of(self._table).iter_rows(named=True):
            names = symbols.get(file["partition.exchange"], set())
            lowest, highest = file.get("min.symbol"), file.get("max.symbol")
            if not any((lowest or name) <= name <= (highest or name) for name in names):
                continue
            since_ns, until_ns = self._bounds(file)
            first = since_ns if times.since_ns is None else max(since_ns, times.since_ns)
            last = until_ns if times.until_ns is None else min(until_ns, times.until_ns - 1)
            if first <= last:
                self._check_size(file["path"], file["size_bytes"])
                part = (last + 1 - first) / (until_ns + 1 - since_ns)
                found.append(Piece(first, last, file["size_bytes"] * expansion * part))
                rows += file["num_records"] * part
                mixed = mixed or lowest is None or lowest != highest
        size = sum(piece.size for piece in found)
        if size <= enough or not mixed:
            return found
        return self._counted(streams, times, size / max(rows, 1.0))

    def _counted(self, streams: Collection[Stream], times: Range, row_bytes: float) -> list[Piece]:
        """The rows of these streams, hour by hour."""
        ends = times.since_ns or 0, _END_NS if times.until_ns is None else times.until_ns
        hour = (time_of(self._row) // HOUR_NS).alias("hour")
        counts = self._wanted(streams, Window(*ends)).select(hour).group_by("hour").len()
        return [
            Piece(hour * HOUR_NS, (hour + 1) * HOUR_NS - 1, rows * row_bytes)
            for hour, rows in self._collected(counts).iter_rows()
        ]

    def _check_size(self, path: str, size: int) -> None:
        """Check a local file, since polars panics while it reads one that is cut off.

        Raises:
            StorageError: it is missing, or has another size than the table says.
        """
        folder = self._table.table_uri.removeprefix("file://")
        if "://" in folder:
            return
        file = Path(folder) / path
        found = file.stat().st_size if file.exists() else None
        if found != size:
            problem = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise StorageError(str(file), problem, _DAMAGED)

    def frame(
        self, streams: Collection[Stream], window: Window, columns: Sequence[str]
    ) -> pl.DataFrame:
        """The rows of these streams in a window, in any order; the time may be a column."""
        wanted = self._wanted(streams, window).with_columns(time_of(self._row))
        # Each column has chunks of its own, which every later step would align again.
        return self._collected(wanted.select(columns)).rechunk()

    def _wanted(self, streams: Collection[Stream], window: Window) -> pl.LazyFrame:
        first, last = (self._partition_day(each) for each in (window[0], window[1] - 1))
        wanted = pl.col("date").is_between(first, last) & self._of_streams(streams)
        return self._scan().filter(wanted & in_window(self._row, *window))

    def _of_streams(self, streams: Collection[Stream]) -> pl.Expr:
        """Whether a row is of one of these markets, and of one of their channels."""
        found = _markets(streams)
        if self._row.suffix_field is not None:
            suffixes = {self._row.suffix_in(each.channel) for each in streams}
            found &= pl.col(self._row.suffix_field).is_in(sorted(suffixes))
        return found

    def refresh(self) -> None:
        """Read on to the latest version of the table."""
        with lake_errors(self._table.table_uri):
            self._table.update_incremental()
        self.version = self._table.version()

    def received(
        self, streams: Collection[Stream], window: Window, columns: Sequence[str]
    ) -> pl.DataFrame:
        """The rows of these streams that were received in a window, in any order."""
        rows = self._received(streams, window).with_columns(time_of(self._row))
        return self._collected(rows.select(columns))

    def count_received(self, streams: Collection[Stream], window: Window) -> int:
        """How many rows of these streams were received in a window."""
        return int(self._collected(self._received(streams, window).select(pl.len())).item())

    def next_received_ns(self, streams: Collection[Stream], since_ns: int) -> int | None:
        """A time at or after another, and no row of these streams was received in between.

        None: none was received later.
        """
        files = self._receipts(streams).filter(pl.col("last_ns") >= since_ns)
        begun = files.filter(pl.col("first_ns") <= since_ns)
        times = files.filter(pl.col("first_ns") > since_ns)["first_ns"].to_list()
        if begun.height:
            ends = Window(since_ns, int(begun.select(pl.max("last_ns")).item()) + 1)
            found = self._received(streams, ends).select(pl.min("received_ns"))
            times.append(self._collected(found).item())
        return min((each for each in times if each is not None), default=None)

    def received_until_ns(self, streams: Collection[Stream]) -> int | None:
        """A time after every row of these streams was received; None without rows."""
        files = self._receipts(streams)
        return int(files.select(pl.max("last_ns")).item()) + 1 if files.height else None

    def _received(self, streams: Collection[Stream], window: Window) -> pl.LazyFrame:
        # By partition, so that not every file is opened.
        files = self._receipts(streams).filter(
            (pl.col("first_ns") < window.until_ns) & (pl.col("last_ns") >= window.since_ns)
        )
        in_time = pl.col("received_ns").is_between(*window, closed="left")
        days = pl.col("date").is_in(files["date"].unique().to_list())
        return self._scan().filter(self._of_streams(streams) & days & in_time)

    def _receipts(self, streams: Collection[Stream]) -> pl.DataFrame:
        """The partition of each file of these exchanges, and when its rows were received."""
        files = files_of(self._table)
        first, last = (
            pl.col(name) if name in files.columns else pl.lit(None, pl.Int64)
            for name in ("min.received_ns", "max.received_ns")
        )
        mine = pl.col("partition.exchange").is_in(sorted({each.exchange for each in streams}))
        return files.filter(mine).select(
            pl.col("partition.date").alias("date"),
            first.fill_null(0).alias("first_ns"),
            last.fill_null(_END_NS - 1).alias("last_ns"),
        )

    def check_files(self) -> int:
        """Read all files; return their number.

        Raises:
            StorageError: one is missing, or cannot be read.
        """
        files = files_of(self._table)
        for path, size in files.select("path", "size_bytes").iter_rows():
            self._check_size(path, size)
        self._collected(self._scan().select(pl.all().count()))
        return files.height

    def numbers(self, stream: Stream) -> Iterator[tuple[str, pl.Series]]:
        """The broadcast numbers of all rows of a stream, by slot; each row is read whole."""
        wanted = self._scan().filter(self._of_streams([stream]))
        found = self._collected(wanted.select("slot", "number"))
        for (slot,), part in found.group_by("slot"):
            yield str(slot), part["number"]

    def trimmed(self) -> bool:
        """Whether rows were deleted from it."""
        with lake_errors(self._table.table_uri):
            return is_trimmed(self._table)

    def _collected(self, frame: pl.LazyFrame) -> pl.DataFrame:
        with lake_errors(self._table.table_uri), _broken_files(self._table.table_uri):
            return frame.collect()

    def _scan(self) -> pl.LazyFrame:
        return pl.scan_delta(self._table, storage_options=self._options)

    def _partition_day(self, at_ns: int) -> date:
        """The value of ``date`` in the row of a time."""
        day = _EPOCH + timedelta(days=at_ns // _DAY_NS)
        return day.replace(day=1) if self._row.partition == "month" else day

    def _bounds(self, file: Mapping[str, object]) -> tuple[int, int]:
        """The first and last time that a file may have."""
        day = file["partition.date"]
        assert isinstance(day, date)
        first = (day - _EPOCH).days * _DAY_NS
        last = first + (_MONTH_NS if self._row.partition == "month" else _DAY_NS) - 1
        known = [file.get(f"{end}.at_ns") for end in ("min", "max")]
        if file.get("null_count.at_ns") == 0 and all(isinstance(end, int) for end in known):
            return max(first, int(str(known[0]))), min(last, int(str(known[1])))
        return first, last


@contextmanager
def _broken_files(where: str) -> Iterator[None]:
    """Raise a StorageError for a file that polars cannot read."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        problem = " ".join(str(error).split("\n\n")[0].split())
        raise StorageError(where, problem, _DAMAGED) from error


def _markets(streams: Collection[Stream]) -> pl.Expr:
    """Whether a row is of one of these markets."""
    return pl.any_horizontal(
        (pl.col("exchange") == exchange) & pl.col("symbol").is_in(sorted(names))
        for exchange, names in sorted(_symbols(streams).items())
    )


def _symbols(streams: Collection[Stream]) -> dict[str, set[str]]:
    """The symbols of each exchange, as the tables name them."""
    found: dict[str, set[str]] = {}
    for each in streams:
        found.setdefault(each.exchange, set()).add(Symbol.parse(each.symbol).unified)
    return found
