"""Shared by the SQL databases: conditions and orders in their dialect, and the contents of rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.storage.state.documents import Condition, Document, Query, StoreNow
from penstock.storage.state.schema import FieldType, Table


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """How a database addresses fields of documents, and parameters of statements."""

    field: Callable[[str, FieldType], str]
    parameter: Callable[[int], str]
    now: str
    """An expression for the store's time; empty: the time is passed as a value."""


@dataclass(slots=True)
class Statement:
    """A statement being built, with the values of its parameters in order."""

    dialect: SqlDialect
    table: Table
    now_ms: int = 0
    values: list[Any] = field(default_factory=list)

    def value(self, value: Any) -> str:
        """Add a value; return its parameter."""
        after = ""
        if isinstance(value, StoreNow):
            after = f" + {self.dialect.now}" if self.dialect.now else ""
            value = value.plus_ms + (0 if after else self.now_ms)
        self.values.append(value)
        return self.dialect.parameter(len(self.values)) + after

    def where(self, query: Query) -> str:
        """The SQL condition of a query."""
        alternatives = [
            " AND ".join(self._condition(where) for where in alternative) or "TRUE"
            for alternative in query
        ]
        return " OR ".join(f"({alternative})" for alternative in alternatives) or "TRUE"

    def _condition(self, where: Condition) -> str:
        name, value = self.field(where.field), where.value
        if isinstance(value, tuple):
            if not value:
                return "FALSE" if where.is_ == "in" else "TRUE"
            listed = f"({', '.join(self.value(one) for one in value)})"
            if where.is_ == "in":
                return f"{name} IN {listed}"
            return f"({name} IS NULL OR {name} NOT IN {listed})"
        if value is None:
            return f"{name} IS NOT NULL" if where.is_ == ">" else f"{name} IS NULL"
        return f"{name} {where.is_} {self.value(value)}"

    def order(self, order: Sequence[str]) -> str:
        """The SQL order by these fields, then by id."""
        return ", ".join([*(f"{self.field(name)} NULLS FIRST" for name in order), "id"])

    def field(self, name: str) -> str:
        """The SQL expression of a declared field."""
        type_ = self.table.type_of(name)
        return "id" if name == "id" else self.dialect.field(name, type_)


def body(document: Document) -> str:
    """A document as it is stored, without its id and version, which have columns."""
    kept = {name: value for name, value in document.items() if name not in ("id", "version")}
    return msgspec.json.encode(kept).decode()
