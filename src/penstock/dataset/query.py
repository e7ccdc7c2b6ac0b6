"""Rows of a dataset, read when a frame or an iterator is asked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Generic, TypeVar

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from penstock.dataset.export import Format, write_frames
from penstock.dataset.gaps import OnGap, report
from penstock.dataset.pushdown import Narrowing, filtered, narrowing
from penstock.errors import MissingExtra
from penstock.market.events import Event

if TYPE_CHECKING:
    import duckdb as engine
    import pandas as pd

E_co = TypeVar("E_co", bound=Event, covariant=True)
_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Plan(Generic[E_co]):
    """How the rows of a query are read."""

    schema: pl.Schema
    frames: Callable[[Narrowing], Iterator[pl.DataFrame]]
    """Returns frames of this schema, in order; at least the rows that were not narrowed away."""
    events: Callable[[], Iterator[E_co]]
    missing: Callable[[], list[str]]
    """Returns what is missing in the range, in words."""
    on_gap: OnGap = "warn"


class Query(Generic[E_co]):
    """Rows of a dataset: nothing is read until one of the methods is called, and then anew.

    Every method first compares the range with the ledger of coverage and reports what is missing,
    as ``on_gap`` says. Rows are sorted by time, then by id.

    Iterating gives the events themselves, with exact prices:

        for trade in data.trades("BTC/USDT", since="-1h"):
            print(trade.price, trade.quantity)
    """

    def __init__(self, plan: Plan[E_co]) -> None:
        self._plan = plan

    @property
    def schema(self) -> pl.Schema:
        """The names and types of the columns."""
        return self._plan.schema

    def polars(self) -> pl.DataFrame:
        """All rows as a polars frame.

        Example: data.trades("BTC/USDT", since="-1h").polars()
        """
        self._check()
        return self._frame()

    def lazy(self) -> pl.LazyFrame:
        """A lazy polars frame that reads batch by batch.

        Filters by ``time``, ``exchange`` and ``symbol`` avoid reading the rest.

        Example: data.trades("BTC/USDT").lazy().group_by("taker").agg(pl.len()).collect()
        """
        self._check()
        return self._lazy()

    def pandas(self) -> "pd.DataFrame":
        """All rows as a pandas frame. Needs the extra ``pandas``.

        Example: data.candles("1h", "BTC/USDT").pandas().set_index("time")

        Raises:
            MissingExtra: pandas is not installed.
        """
        self._check()
        try:
            import pandas  # noqa: F401, PLC0415 (an extra of its own)
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas", "pandas") from error
        frame: pd.DataFrame = self._frame().to_pandas()
        return frame

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table.

        Example: data.tickers("BTC/USDT", since="-1d").arrow()
        """
        self._check()
        return self._frame().to_arrow()

    def arrow_batches(self) -> pa.RecordBatchReader:
        """The rows as Arrow record batches, of which one is in memory at a time.

        Example: for batch in data.trades().arrow_batches(): ...
        """
        self._check()
        empty = pl.DataFrame(schema=self._plan.schema).to_arrow()
        return pa.RecordBatchReader.from_batches(empty.schema, self._batches())

    def duckdb(
        self, connection: "engine.DuckDBPyConnection | None" = None
    ) -> "engine.DuckDBPyRelation":
        """The rows as a relation of DuckDB, for further queries.

        Example: data.trades("BTC/USDT").duckdb().aggregate("sum(quantity)")
        """
        self._check()
        import duckdb as engine  # noqa: PLC0415 (takes a tenth of a second)

        connection = connection or engine.connect()
        return connection.from_arrow(self._frame().to_arrow())

    def write(self, file: IO[bytes], form: Format) -> int:
        """Write the rows to a binary file, batch by batch; return their number.

        Example: data.trades("BTC/USDT").write(open("trades.csv", "wb"), "csv")
        """
        self._check()
        return write_frames(self._plan.frames(Narrowing()), self._plan.schema, form, file)

    def missing(self) -> list[str]:
        """What is missing in the range, in words."""
        return self._plan.missing()

    def __iter__(self) -> Iterator[E_co]:
        self._check()
        return self._plan.events()

    def _check(self) -> None:
        if self._plan.on_gap != "ignore":
            # The warning names the line that called the public method.
            report(self._plan.missing(), self._plan.on_gap, stacklevel=4)

    def _frame(self) -> pl.DataFrame:
        empty = pl.DataFrame(schema=self._plan.schema)
        return pl.concat([empty, *self._plan.frames(Narrowing())])

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for frame in self._plan.frames(Narrowing()):
            yield from frame.to_arrow().to_batches(max_chunksize=_BATCH_ROWS)

    def _lazy(self) -> pl.LazyFrame:
        def batches(
            with_columns: list[str] | None,
            predicate: pl.Expr | None,
            n_rows: int | None,
            batch_size: int | None,  # noqa: ARG001 (part of the interface)
        ) -> Iterator[pl.DataFrame]:
            frames = self._plan.frames(narrowing(with_columns, predicate))
            return filtered(frames, with_columns, predicate, n_rows)

        return register_io_source(batches, schema=self._plan.schema, is_pure=False)
