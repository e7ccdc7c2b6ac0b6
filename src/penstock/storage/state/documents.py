"""Queries and patches of documents, independent of the database.

A query is a list of alternatives, each a list of conditions that must all hold. A patch has the new
values of fields. Both may contain the store's current time, so that callers need no synchronised
clock. The functions here define both: the backend in memory uses them, and the contract suite
compares the others with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

from penstock.storage.state.schema import Table

Document = dict[str, Any]
"""A JSON object with an ``id``; ``version`` counts its writes, and is set by the store."""

Scalar = str | int | None


@dataclass(frozen=True, slots=True)
class StoreNow:
    """The store's time when the statement runs, in milliseconds, plus an offset."""

    plus_ms: int = 0


@dataclass(frozen=True, slots=True)
class Add:
    """An increment of a field; a missing field counts as 0."""

    amount: int


class Condition(NamedTuple):
    """A condition on a declared field. A missing field is None, and None sorts first."""

    field: str
    is_: Literal["=", "<=", ">", "in", "not in"]
    value: Scalar | StoreNow | tuple[str, ...]


Counts = Mapping[tuple[Scalar, ...], int]
"""The number of documents, by values of a table's ``counted`` fields. Zeros are left out."""

Query = Sequence[Sequence[Condition]]
"""Alternatives, each of conditions that must all hold; an empty query matches everything."""

Patch = Mapping[str, Any]
"""New values by field: a JSON value, ``StoreNow`` or ``Add``. A dot addresses a nested field."""


class Claim(NamedTuple):
    """A patch of the first documents that match, in this order and then by id."""

    query: Query
    order: tuple[str, ...]
    patch: Patch
    most: int = 1


class Write(NamedTuple):
    """A patch of one document, applied only if it still has these values, usually a fence."""

    id: str
    expect: Mapping[str, str | int]
    patch: Patch


def field_of(document: Document, path: str) -> Any:
    """The value at a path; None where there is nothing."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def matches(document: Document, query: Query, now_ms: int) -> bool:
    """Whether a document matches a query."""
    return not query or any(
        all(_holds(where, field_of(document, where.field), now_ms) for where in alternative)
        for alternative in query
    )


def _holds(where: Condition, found: Any, now_ms: int) -> bool:
    value = resolved(where.value, now_ms)
    match where.is_:
        case "=":
            return bool(found == value)
        case "in":
            return found in value
        case "not in":
            return found not in value
        case ">":
            return found is not None and (value is None or found > value)
        case "<=":
            return found is not None and found <= value


def resolved(value: Any, now_ms: int) -> Any:
    """A value, with ``StoreNow`` replaced by the store's time."""
    return now_ms + value.plus_ms if isinstance(value, StoreNow) else value


def position(document: Document, order: Iterable[str]) -> tuple[tuple[bool, Any], ...]:
    """The sort key of a document: None first, and the id where all else is equal."""
    values = (field_of(document, field) for field in (*order, "id"))
    return tuple((value is not None, value) for value in values)


def beyond(query: Query, order: Sequence[str], after: Document) -> Query:
    """The same query, for the documents after a document in this order."""
    fields = [*order, "id"]
    later = [
        [
            *(Condition(field, "=", field_of(after, field)) for field in fields[:depth]),
            Condition(fields[depth], ">", field_of(after, fields[depth])),
        ]
        for depth in range(len(fields))
    ]
    return [[*asked, *rest] for asked, rest in product(query or [[]], later)]


def rivals(table: Table, document: Document) -> Query:
    """A query for the documents that conflict with this one: the same id or unique fields."""
    found = [[Condition("id", "=", document["id"])]]
    for rule in table.unique:
        alternative = [Condition(field, "=", field_of(document, field)) for field in rule.fields]
        if rule.among:
            field, values = rule.among
            if field_of(document, field) not in values:
                continue
            alternative.append(Condition(field, "in", values))
        found.append(alternative)
    return found


def patched(document: Document, patch: Patch, now_ms: int) -> Document:
    """A document with a patch applied; the original is not changed."""
    changed = dict(document)
    for path, value in patch.items():
        *outer, name = path.split(".")
        inner = changed
        for step in outer:
            within = inner.get(step)
            inner[step] = inner = dict(within) if isinstance(within, dict) else {}
        if isinstance(value, Add):
            inner[name] = (inner.get(name) or 0) + value.amount
        else:
            inner[name] = resolved(value, now_ms)
    return changed


def expected(document: Document, expect: Mapping[str, str | int]) -> bool:
    """Whether a document still has these values."""
    return all(field_of(document, path) == value for path, value in expect.items())


def checked(table: Table, paths: Iterable[str]) -> None:
    """Reject a patch of id, version or unique fields: only ``update`` handles conflicts."""
    if wrong := {path.partition(".")[0] for path in paths} & {"id", "version", *table.kept_apart()}:
        raise ValueError(f"{table.name}: {', '.join(sorted(wrong))} can only change by update")
