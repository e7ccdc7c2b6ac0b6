"""Finds in a filter what narrows a query: times, exchanges and symbols.

A filter is applied to every row anyway. What is found here only avoids reading rows that it would
drop, so an expression that is not understood does no harm.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import polars as pl

from penstock.dataset.times import Range

_PER_UNIT = {"Nanoseconds": 1, "Microseconds": 1_000, "Milliseconds": 1_000_000}
_MIRRORED = {"Gt": "Lt", "GtEq": "LtEq", "Lt": "Gt", "LtEq": "GtEq", "Eq": "Eq"}


class Narrowing(NamedTuple):
    """A part of a query that contains all rows a filter lets through."""

    times: Range = Range()
    exchange: str | None = None
    symbol: str | None = None
    columns: frozenset[str] | None = None
    """The columns that are wanted; None: all."""

    def within(self, times: Range) -> Range:
        """The part of a range that is wanted."""
        since = [each for each in (self.times.since_ns, times.since_ns) if each is not None]
        until = [each for each in (self.times.until_ns, times.until_ns) if each is not None]
        return Range(max(since, default=None), min(until, default=None))


def narrowing(columns: Iterable[str] | None, predicate: pl.Expr | None) -> Narrowing:
    """What a choice of columns and a filter narrow; a filter that is not understood does not."""
    names = None if columns is None else frozenset(columns)
    if predicate is None:
        return Narrowing(columns=names)
    found = Narrowing(columns=None if names is None else names | {*predicate.meta.root_names()})
    try:
        tree = msgspec.json.decode(predicate.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, msgspec.DecodeError):
        return found
    for column, operator, value in _comparisons(tree):
        if operator == "Eq" and isinstance(value, str):
            if column == "exchange":
                found = found._replace(exchange=value)
            elif column == "symbol":
                found = found._replace(symbol=value)
        elif column in ("time", "time_ns") and isinstance(value, int):
            found = found._replace(times=found.within(_range(operator, value)))
    return found


def _comparisons(tree: Any) -> Iterator[tuple[str, str, object]]:
    """Comparisons of a column with a constant, all of which must hold."""
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            yield from _comparisons(left)
            yield from _comparisons(right)
        case {"BinaryExpr": {"left": left, "op": str(operator), "right": right}}:
            if (name := _column(left)) is not None:
                yield name, operator, _constant(right)
            elif (name := _column(right)) is not None:
                yield name, _MIRRORED.get(operator, ""), _constant(left)


def _column(tree: Any) -> str | None:
    match tree:
        case {"Column": str(name)}:
            return name
        # DuckDB compares all times in one unit.
        case {"Function": {"input": [inner], "function": {"TemporalExpr": {"CastTimeUnit": _}}}}:
            return _column(inner)
    return None


def _constant(tree: Any) -> object:
    match tree:
        case {"Literal": {"Scalar": {"Datetime": [int(value), str(unit), *_]}}}:
            return value * _PER_UNIT[unit]
        case {"Literal": {"Scalar": {"String": str(value)} | {"Int64": int(value)}}}:
            return value
        case {"Literal": {"Dyn": {"Int": int(value)} | {"Str": str(value)}}}:
            return value
        case {"Cast": {"expr": inner}}:
            return _constant(inner)
    return None


def _range(operator: str, value: int) -> Range:
    # Times in frames are cut to microseconds, so a bound is moved outwards by less than one.
    match operator:
        case "Gt" | "GtEq":
            return Range(value - 1_000, None)
        case "Lt" | "LtEq":
            return Range(None, value + 1_000)
        case "Eq":
            return Range(value - 1_000, value + 1_000)
    return Range()


def filtered(
    frames: Iterator[pl.DataFrame],
    columns: list[str] | None,
    predicate: pl.Expr | None,
    most: int | None,
) -> Iterator[pl.DataFrame]:
    """The rows and columns that a reader of a lazy frame asks for."""
    left = most
    for frame in frames:
        found = frame if predicate is None else frame.filter(predicate)
        found = found if columns is None else found.select(columns)
        yield found if left is None else found.head(left)
        left = None if left is None else left - found.height
        if left is not None and left <= 0:
            return
