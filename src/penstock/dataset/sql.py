"""Runs a SELECT over the channels of a dataset, in a DuckDB that can reach nothing else.

Three things keep a statement inside: only a single SELECT or EXPLAIN is accepted, DuckDB's access
to files, networks and extensions is off, and its settings are locked. What exceeds its memory is
put into a temporary folder of its own, which is all that it can reach.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar

import duckdb as engine
import msgspec
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from penstock.dataset.export import Format, write_frames
from penstock.dataset.pushdown import Narrowing, filtered, narrowing
from penstock.errors import BadQuery, MissingExtra

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_MEMORY = "1GB"
_MOST_BYTES = 64 << 20
"""How much of the tables a query may read before it is run batch by batch."""
_SEVERAL = 4
"""How many times as much it may read of several tables."""
_BATCH_ROWS = 65_536
_ALLOWED = (engine.StatementType.SELECT, engine.StatementType.EXPLAIN)


@dataclass
class _Allowance:
    """How much of the tables may be in memory, and what was asked of them until then."""

    left_bytes: float
    asked: list[tuple[str, Narrowing]] = field(default_factory=list)
    """The name of a table, and which of its rows, for each scan that began."""

    @property
    def exceeded(self) -> bool:
        return self.left_bytes < 0


class SqlTable(Protocol):
    """A table of a query."""

    @property
    def schema(self) -> pl.Schema: ...

    def frames(self, narrowing: Narrowing) -> Iterator[pl.DataFrame]:
        """Its rows; at least those, and at least the columns, that are wanted."""
        ...


class SqlResult:
    """The result of a query. It is run when one of the methods is called, and then anew.

    Every method raises BadQuery if the query fails.
    """

    def __init__(
        self, text: str, tables: Mapping[str, SqlTable], most_bytes: int = _MOST_BYTES
    ) -> None:
        self._text, self._tables, self._most_bytes = text, tables, most_bytes
        self._checked(lambda relation: relation.columns)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._checked(lambda relation: list(relation.columns))

    def polars(self) -> pl.DataFrame:
        """The result as a polars frame."""
        frame = pl.from_arrow(self.arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def lazy(self) -> pl.LazyFrame:
        """The result as a lazy polars frame."""
        return self.polars().lazy()

    def pandas(self) -> "pd.DataFrame":
        """The result as a pandas frame. Needs the extra ``pandas``.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401, PLC0415 (an extra of its own)
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas", "pandas") from error
        frame: pd.DataFrame = self._checked(lambda relation: relation.df())
        return frame

    def arrow(self) -> pa.Table:
        """The result as an Arrow table."""
        return self._checked(lambda relation: relation.to_arrow_table())

    def duckdb(self) -> engine.DuckDBPyRelation:
        """The result as a relation of DuckDB, for further queries; it is in memory."""
        return engine.connect().from_arrow(self.arrow())

    def write(self, file: IO[bytes], form: Format) -> int:
        """Write the result to a binary file; return the number of rows."""
        frame = self.polars()
        return write_frames([frame], frame.schema, form, file)

    def rows(self) -> list[tuple[object, ...]]:
        """The result as tuples of Python's values."""
        # Not by DuckDB itself, which needs another library for times.
        return list(zip(*map(_values, self.arrow().columns), strict=True))

    def _checked(self, run: Callable[[engine.DuckDBPyRelation], T]) -> T:
        """Run the query.

        First the columns and filters that DuckDB asks for are applied while a table is read, and
        what is left is handed over at once. If that becomes too much, the query is run again with
        tables that are read batch by batch: of a single one, only what DuckDB asked for; of
        several, which may need different rows, all. So for several more is tried at once.
        """
        for most_bytes in (self._most_bytes, _SEVERAL * self._most_bytes):
            allowance = _Allowance(most_bytes)
            pushed = {name: _pushed_down(name, t, allowance) for name, t in self._tables.items()}
            try:
                with self._connection(pushed) as connection:
                    return run(connection.sql(self._text))
            except engine.Error as error:
                if not allowance.exceeded:
                    raise BadQuery(f"SQL: {_words(error)}") from error
            if is_single := len(self._scans(pushed)) == 1:
                break
        streamed = {name: _Streamed(table) for name, table in self._tables.items()}
        if is_single:
            name, wanted = allowance.asked[0]
            streamed[name].wanted = wanted
        else:
            columns = columns_read(self._scans(streamed))
            for table in streamed.values():
                table.wanted = Narrowing(columns=columns)
        try:
            with self._connection(streamed) as connection:
                return run(connection.sql(self._text))
        except engine.Error as error:
            raise BadQuery(f"SQL: {_words(error)}") from error

    def _scans(self, tables: Mapping[str, object]) -> list[dict[str, Any]]:
        """The nodes of DuckDB's plan that read a table."""
        try:
            with self._connection(tables) as connection:
                plan = connection.execute(f"EXPLAIN (FORMAT json) {self._text}").fetchone()
        except engine.Error as error:  # the text is EXPLAIN ANALYZE
            raise BadQuery(f"SQL: {_words(error)}") from error
        nodes = [] if plan is None else [*msgspec.json.decode(plan[1])]
        found = []
        while nodes:
            node = nodes.pop()
            nodes += node.get("children", ())
            if "ARROW_SCAN" in node.get("name", ""):
                found.append(node)
        return found

    @contextmanager
    def _connection(self, tables: Mapping[str, object]) -> Iterator[engine.DuckDBPyConnection]:
        with (
            TemporaryDirectory(prefix="penstock-sql-") as folder,
            engine.connect(
                config={"memory_limit": _MEMORY, "temp_directory": folder}
            ) as connection,
        ):
            for name, table in tables.items():
                connection.register(name, table)
            for setting in _SETTINGS:
                connection.execute(setting)
            yield connection


class _Streamed:
    """A table that is read batch by batch, each time DuckDB scans it."""

    def __init__(self, table: SqlTable) -> None:
        self._table = table
        self.wanted = Narrowing()
        """What is read; columns that are not wanted are null."""
        self.schema = pl.DataFrame(schema=table.schema).to_arrow().schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        kinds = self._table.schema
        for frame in self._table.frames(self.wanted):
            absent = [pl.lit(None, kind).alias(n) for n, kind in kinds.items() if n not in frame]
            whole = frame.with_columns(absent).select(kinds.names())
            yield from whole.to_arrow().cast(self.schema).to_batches(max_chunksize=_BATCH_ROWS)


def _pushed_down(name: str, table: SqlTable, allowance: _Allowance) -> pl.LazyFrame:
    """A table of which DuckDB reads only the columns and rows that it needs."""

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 (part of the interface)
    ) -> Iterator[pl.DataFrame]:
        wanted = narrowing(with_columns, predicate)
        allowance.asked.append((name, wanted))
        frames = table.frames(wanted)
        for frame in filtered(frames, with_columns, predicate, n_rows):
            allowance.left_bytes -= frame.estimated_size()
            if allowance.exceeded:
                raise BadQuery("too much for one step")
            yield frame

    return register_io_source(read, schema=table.schema, is_pure=False)


def columns_read(scans: Iterable[Mapping[str, Any]]) -> frozenset[str] | None:
    """The columns that these nodes of a plan read of any table; None: perhaps all of them."""
    found: set[str] = set()
    for scan in scans:
        named = scan.get("extra_info", {}).get("Projections")
        if named is None:
            return None
        found.update([named] if isinstance(named, str) else named)
    return frozenset(found)


def run_sql(text: str, tables: Mapping[str, SqlTable]) -> SqlResult:
    """Check and prepare a query over these tables.

    Raises:
        BadQuery: it is not one SELECT, or DuckDB refuses it.
    """
    try:
        statements = engine.extract_statements(text)
    except engine.Error as error:
        raise BadQuery(f"SQL: {_words(error)}") from error
    if len(statements) != 1 or statements[0].type not in _ALLOWED:
        kinds = ", ".join(each.type.name for each in statements) or "nothing"
        raise BadQuery(f"SQL: only one SELECT is accepted, this is {kinds}. Nothing was changed.")
    return SqlResult(text, tables)


def _words(error: engine.Error) -> str:
    """The message without the statement that DuckDB repeats below it."""
    return str(error).split("\n\nLINE ")[0].strip()


def _values(column: pa.ChunkedArray) -> list[object]:
    """The values of a column; DuckDB's sums of integers are decimals in Arrow."""
    values: list[object] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if each is None else int(str(each)) for each in values]
    return values
