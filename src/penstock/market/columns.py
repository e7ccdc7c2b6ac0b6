"""The columns of a channel's table, derived from the fields of its events.

A row of ``channels`` has them as ``columns``; frames, the lake and the page of schemas are made of
them. A field becomes one or several columns by its name and type::

    price_text: str (named "price")  number  price decimal(38,18), price_digits int8, price_text
    id, final_update_id: int         id      id int64, id_text
    at_ns: int                       ns      at timestamp (µs, UTC), at_ns int64
    open_ms: int                     ms      open_at timestamp (µs, UTC)
    trades: int                      count   trades int64
    closed: bool                     flag    closed bool
    bids_raw: Raw (named "bids")     json    bids text
    taker: str                       text    taker text
    channels: tuple[str, ...]        texts   channels list of texts

``price_digits`` is the number of digits after the point in the exchange's text. Where the text
cannot be rebuilt from number and digits, such as ``007.5``, it is in ``price_text``, which is empty
otherwise; and so is ``id_text`` unless an id needs more than 64 bits.
"""

import types
from typing import Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Raw

from penstock.market.events import Event

ColumnKind = Literal["number", "id", "ns", "ms", "count", "flag", "json", "text", "texts"]

COMMON_FIELDS = ("exchange", "symbol", "received_at_ns", "source")
"""The fields of every event; the columns of these are the same in all tables."""


class Column(NamedTuple):
    """One field of an event, as columns of a table."""

    field: str
    """The attribute of the event."""
    key: str
    """Its name in the JSON of a record."""
    kind: ColumnKind
    name: str
    """The first column of the field; others have its name with an ending."""
    optional: bool
    """Whether records may omit the field."""
    default: object
    """What an omitted field has."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the field."""
        return tuple(f"{self.name}{ending}" for ending in _ENDINGS.get(self.kind, ("",)))


_ENDINGS: dict[ColumnKind, tuple[str, ...]] = {
    "number": ("", "_digits", "_text"),
    "id": ("", "_text"),
    "ns": ("", "_ns"),
}


def columns_of(event: type[Event]) -> tuple[Column, ...]:
    """The columns of the fields that only events of this class have, in the order of a record.

    Raises:
        TypeError: a field has a type that no kind of column can hold.
    """
    return tuple(
        _column(field) for field in msgspec.structs.fields(event) if field.name not in COMMON_FIELDS
    )


def _column(field: msgspec.structs.FieldInfo) -> Column:
    name, key, kind = field.name, field.encode_name, _kind(field)
    if kind == "ns":
        name = name.removesuffix("_ns")
    elif kind == "ms":
        name = name.removesuffix("ms") + "at"
    elif kind in ("number", "json"):
        name = key
    default = None if field.required else field.default
    return Column(field.name, key, kind, name, not field.required, default)


def _kind(field: msgspec.structs.FieldInfo) -> ColumnKind:
    held = field.type
    if get_origin(held) in (Union, types.UnionType):
        held = next(each for each in get_args(held) if each is not types.NoneType)
    if held is bool:
        return "flag"
    if held is int:
        return _kind_of_number(field.name)
    if held is Raw:
        return "json"
    if held is str:
        return "number" if field.name.endswith("_text") else "text"
    if get_origin(held) is Literal:
        return "text"
    if get_origin(held) is tuple and get_args(held) == (str, ...):
        return "texts"
    raise TypeError(f"{field.name}: no kind of column holds a {held}; see market/columns.py")


def _kind_of_number(name: str) -> ColumnKind:
    if name.endswith("_ns"):
        return "ns"
    if name.endswith("_ms"):
        return "ms"
    return "id" if name == "id" or name.endswith("_id") else "count"
