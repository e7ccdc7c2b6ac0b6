"""What the SQL databases share: queries and orders in their dialect, and what a row holds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.storage.state.documents import Condition, Document, Query, StoreNow
from penstock.storage.state.schema import FieldType, Table


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """How a database reaches into documents, and numbers what is handed to a statement."""

    field: Callable[[str, FieldType], str]
    parameter: Callable[[int], str]
    now: str
    """The store's instant, as an expression; empty: it is put in as a value."""


@dataclass(slots=True)
class Statement:
    """A statement in the making: the values its parameters stand for, in order."""

    dialect: SqlDialect
    table: Table
    now_ms: int = 0
    values: list[Any] = field(default_factory=list)

    def value(self, value: Any) -> str:
        """A parameter that stands for a value."""
        after = ""
        if isinstance(value, StoreNow):
            after = f" + {self.dialect.now}" if self.dialect.now else ""
            value = value.plus_ms + (0 if after else self.now_ms)
        self.values.append(value)
        return self.dialect.parameter(len(self.values)) + after

    def where(self, query: Query) -> str:
        """The condition that a query is."""
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
        """The order of these fields, then of ids."""
        return ", ".join([*(f"{self.field(name)} NULLS FIRST" for name in order), "id"])

    def field(self, name: str) -> str:
        """A declared field."""
        type_ = self.table.type_of(name)
        return "id" if name == "id" else self.dialect.field(name, type_)


def body(document: Document) -> str:
    """A document as it is kept, beside the columns for its id and version."""
    kept = {name: value for name, value in document.items() if name not in ("id", "version")}
    return msgspec.json.encode(kept).decode()
