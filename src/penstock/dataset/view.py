"""The columns of frames, made from the columns that are stored.

Stored are all digits that the exchange sent. A frame has by default what calculations need: numbers
as 64-bit floats, times in microseconds, price levels as lists of pairs. Exact decimals, the
exchange's own texts and Tardis' names of columns are choices.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import polars as pl

from penstock.dataset.levels import levels_of
from penstock.dataset.merging import TIME, time_of
from penstock.errors import BadQuery, near_matches
from penstock.market.channels import BOOK_DELTAS, BOOK_SNAPSHOTS, Channel
from penstock.market.columns import Column
from penstock.storage.lake.columns import schema_of

Numbers = Literal["float", "decimal", "text"]
"""How prices and quantities are given: as 64-bit floats, as exact decimals with 18 digits after the
point, or as the exchange's texts."""
Names = Literal["penstock", "tardis", "stored"]
"""Which columns: those of this package, Tardis' own where it has such data, or all that are
stored."""

INSTANT = pl.Datetime("us", "UTC")
DECIMAL = pl.Decimal(38, 18)
_SHORT_DIGITS = 8
_PER_SHORT = 10 ** (DECIMAL.scale - _SHORT_DIGITS)
_EXACT = 1 << 53
"""Floats hold all whole numbers below this exactly."""
_UPDATE_IDS = {BOOK_DELTAS.name: "final_update_id", BOOK_SNAPSHOTS.name: "update_id"}
_TARDIS_HEAD = (
    pl.col("exchange"),
    pl.col("symbol"),
    (pl.col(TIME) // 1000).alias("timestamp"),
    (pl.col("received_ns") // 1000).alias("local_timestamp"),
)


def check_choices(numbers: str, columns: str) -> None:
    """Check two choices of a caller.

    Raises:
        BadQuery: there is no such choice.
    """
    for name, value, choices in (
        ("numbers", numbers, get_args(Numbers)),
        ("columns", columns, get_args(Names)),
    ):
        if value not in choices:
            near = near_matches(str(value), choices)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise BadQuery(f"{name}={value!r}: use one of {', '.join(choices)}.{meant}")


@dataclass(frozen=True)
class View:
    """How the rows of a channel are shown."""

    row: Channel
    numbers: Numbers = "float"
    columns: Names = "penstock"
    books: bool = False
    """Whether deltas and snapshots of books are shown with the same columns."""

    def show(self, frame: pl.DataFrame, only: Collection[str] | None = None) -> pl.DataFrame:
        """The rows of a frame with stored columns and a time, in the same order.

        ``only`` names the columns that are wanted; of those, the stored ones must be there.
        """
        if self.columns == "stored":
            return frame.drop(TIME) if only is None else frame.select(*only)
        if self.columns == "tardis":
            return self._tardis(frame)
        wanted = self._shown if only is None else [self._by_name[name] for name in only]
        return frame.select(wanted)

    def stored_for(self, only: Collection[str] | None) -> list[str]:
        """The stored columns that are needed to show these, or all for None, beside the time."""
        every = schema_of(self.row).names
        if self.columns == "stored":
            return [name for name in every if only is None or name in only]
        if self.columns == "tardis":
            return View(self.row, self.numbers).stored_for(None)
        wanted = self._by_name if only is None else only
        roots = {root for name in wanted for root in self._by_name[name].meta.root_names()}
        return [name for name in every if name in roots]

    @cached_property
    def schema(self) -> pl.Schema:
        """The names and types of the columns that are shown."""
        empty = pl.from_arrow(schema_of(self.row).empty_table())
        assert isinstance(empty, pl.DataFrame)
        return self.show(empty.with_columns(time_of(self.row))).schema

    @cached_property
    def _by_name(self) -> dict[str, pl.Expr]:
        return {expr.meta.output_name(): expr for expr in self._shown}

    @cached_property
    def _shown(self) -> list[pl.Expr]:
        own = [expr for column in self.row.columns for expr in self._column(column)]
        if self.books:
            own = self._book_columns()
        return [
            pl.col("exchange"),
            pl.col("symbol"),
            (pl.col(TIME) // 1000).cast(INSTANT).alias("time"),
            *own,
            pl.col("source"),
            (pl.col("received_ns") // 1000).cast(INSTANT).alias("received"),
            pl.col(TIME),
            pl.col("received_ns"),
        ]

    def _book_columns(self) -> list[pl.Expr]:
        first = pl.col("first_update_id") if self.row is BOOK_DELTAS else pl.lit(None, pl.Int64)
        return [
            pl.lit(self.row is BOOK_SNAPSHOTS).alias("is_snapshot"),
            first.alias("first_update_id"),
            pl.col(_UPDATE_IDS[self.row.name]).alias("update_id"),
            self._levels("bids"),
            self._levels("asks"),
            pl.col("checksum"),
        ]

    def _column(self, column: Column) -> list[pl.Expr]:
        if column.field in ("at_ns", "open_ms"):
            return []
        if column.kind == "number":
            return [self._number(column)]
        if column.kind == "json":
            return [self._levels(column.name)]
        return [pl.col(column.name)]

    def _number(self, column: Column) -> pl.Expr:
        name, digits, text = column.names
        if self.numbers == "decimal":
            return pl.col(name)
        if self.numbers == "float":
            value = pl.col(name).map_batches(
                as_floats, return_dtype=pl.Float64, is_elementwise=True
            )
            return pl.coalesce(value, pl.col(text).cast(pl.Float64)).alias(name)
        # All have 18 digits after the point: what is too many is cut off, for none with the point.
        written = pl.col(name).cast(pl.String)
        places = pl.col(digits).cast(pl.Int64)
        cut = 18 - places + (places == 0).cast(pl.Int64)
        length = written.str.len_bytes().cast(pl.Int64) - cut
        return pl.coalesce(pl.col(text), written.str.slice(0, length)).alias(name)

    def _levels(self, name: str) -> pl.Expr:
        kinds: dict[Numbers, pl.DataType] = {
            "float": pl.Float64(), "decimal": DECIMAL, "text": pl.String(),
        }  # fmt: skip
        return levels_of(pl.col(name), kinds[self.numbers]).alias(name)

    def _tardis(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The columns and names of Tardis' files of trades, quotes and order books."""
        plain = View(self.row, self.numbers).show(frame)
        names = plain.columns
        if "taker" in names:
            own = {"id": "id", "side": "taker", "price": "price", "amount": "quantity"}
            exprs = [pl.col(column).alias(name) for name, column in own.items()]
            exprs[0] = exprs[0].cast(pl.String)
            return plain.select(*_TARDIS_HEAD, *exprs)
        if "bid" in names:
            quote = {
                "ask_amount": "ask_quantity", "ask_price": "ask", "bid_price": "bid",
                "bid_amount": "bid_quantity",
            }  # fmt: skip
            return plain.select(
                *_TARDIS_HEAD, *(pl.col(held).alias(n) for n, held in quote.items())
            )
        raise BadQuery(f"Tardis has no columns for {self.row.name}. Leave out columns='tardis'.")


def as_floats(values: pl.Series) -> pl.Series:
    """Decimals as the nearest floats.

    If all have at most eight digits after the point and are not too large, each is a whole number
    that a float holds exactly, divided by another: that is several times faster and as exact.
    """
    values = values.rechunk()
    units = values.to_physical()
    short: pl.Series = (units.cast(pl.Float64) / _PER_SHORT).round()
    if (short.abs() < _EXACT).all():
        # The difference is less than 2**63, so it is zero if its lowest 64 bits are.
        again, held = (each.cast(pl.Int64, wrap_numerical=True) for each in (short, units))
        if (again * _PER_SHORT == held).all():
            # Polars would multiply by the inverse of a single number, which is not as exact.
            return short / pl.repeat(10.0**_SHORT_DIGITS, len(short), eager=True)
    return values.cast(pl.Float64)


def levels_as_rows(plain: pl.DataFrame) -> pl.DataFrame:
    """Order books with one row for each level, as in Tardis' incremental_book_L2."""
    plain = plain.with_row_index("_row")
    sides = [
        plain.select(
            "_row",
            *_TARDIS_HEAD,
            "is_snapshot",
            pl.lit(side).alias("side"),
            pl.col(name).alias("level"),
        )
        .explode("level")
        .drop_nulls("level")
        for side, name in (("bid", "bids"), ("ask", "asks"))
    ]
    return (
        pl.concat(sides)
        .sort("_row", maintain_order=True)
        .with_columns(
            pl.col("level").struct.field("price"),
            pl.col("level").struct.field("quantity").alias("amount"),
        )
        .drop("_row", "level")
    )
