"""Runs a SELECT over the channels of a dataset, in a DuckDB that can reach nothing else.

Three things keep a statement inside: only a single SELECT or EXPLAIN is accepted, DuckDB's access
to files, networks and extensions is off, and its settings are locked.
"""

from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, TypeVar

import duckdb as engine
import polars as pl
import pyarrow as pa

from penstock.dataset.export import Format, write_frames
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
_ALLOWED = (engine.StatementType.SELECT, engine.StatementType.EXPLAIN)


class SqlResult:
    """The result of a query. It is run when one of the methods is called, and then anew.

    Every method raises BadQuery if the query fails.
    """

    def __init__(self, text: str, connection: engine.DuckDBPyConnection) -> None:
        self._text, self._connection = text, connection
        self._checked(lambda: self._relation().columns)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._relation().columns)

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
        frame: pd.DataFrame = self._checked(lambda: self._relation().df())
        return frame

    def arrow(self) -> pa.Table:
        """The result as an Arrow table."""
        return self._checked(lambda: self._relation().to_arrow_table())

    def duckdb(self) -> engine.DuckDBPyRelation:
        """The result as a relation of DuckDB, for further queries in the same enclosure."""
        return self._relation()

    def write(self, file: IO[bytes], form: Format) -> int:
        """Write the result to a binary file; return the number of rows."""
        frame = self.polars()
        return write_frames([frame], frame.schema, form, file)

    def rows(self) -> list[tuple[object, ...]]:
        """The result as tuples."""
        return self._checked(lambda: self._relation().fetchall())

    def _relation(self) -> engine.DuckDBPyRelation:
        return self._connection.sql(self._text)

    def _checked(self, run: Callable[[], T]) -> T:
        try:
            return run()
        except engine.Error as error:
            raise BadQuery(f"SQL: {_words(error)}") from error


def run_sql(text: str, tables: Mapping[str, pl.LazyFrame]) -> SqlResult:
    """Check and prepare a query over these tables.

    Raises:
        BadQuery: it is not one SELECT, or DuckDB refuses it.
    """
    connection = engine.connect(":memory:")
    try:
        statements = connection.extract_statements(text)
    except engine.Error as error:
        raise BadQuery(f"SQL: {_words(error)}") from error
    if len(statements) != 1 or statements[0].type not in _ALLOWED:
        kinds = ", ".join(each.type.name for each in statements) or "nothing"
        raise BadQuery(f"SQL: only one SELECT is accepted, this is {kinds}. Nothing was changed.")
    for name, frame in tables.items():
        connection.register(name, frame)
    for setting in _SETTINGS:
        connection.execute(setting)
    return SqlResult(text, connection)


def _words(error: engine.Error) -> str:
    """The message without the statement that DuckDB repeats below it."""
    return str(error).split("\n\nLINE ")[0].strip()
