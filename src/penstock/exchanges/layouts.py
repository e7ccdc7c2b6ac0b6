"""Layouts: how an exchange usually spells its frames, as data for the compiled reader.

A layout is the text of a frame with holes, ``<field:type>``. A frame that fits it byte by byte
becomes events without further decoding; any other frame is read by the decoders in Python, which
are the specification. A hole without a field is checked and not used. Types:

    whole    an integer from 0 on             time     RFC 3339 with decimals, in UTC
    after    the same, not below the last     text     any text without escapes; not stored
    word32   the same, below 2 to the 32nd    levels   price levels, as ``unit`` spells each
    ms       milliseconds, as nanoseconds     changes  the same of both sides, which each names
    number   a plain number inside quotes     units    bids and asks beside each other; zeros fill
    bare     a JSON number                             a shorter side
    signed   the same, or negative; unstored
    a=x|b=y  one of these words, and its value

``<symbol>`` is the market's name; ``<stream>`` that of a stream, ``<native>`` of its market.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import fields

from penstock import compiled
from penstock.market.events import Event
from penstock.market.symbol import Symbol

ReadsUsual = Callable[[Sequence[bytes | str], Sequence[int]], list[Event] | None]
"""(frames, received_at_ns) → events; None if a frame is not spelled as usual."""
_Op = tuple[str, int, int, Any]

_OUR_UNIT = '["<price:number>","<quantity:number>"]'
_CODES: Final = {
    "whole": "w", "after": "a", "word32": "h", "ms": "m", "number": "t", "bare": "b", "signed": "s",
    "text": "x", "time": "r", "levels": "l", "changes": "d", "units": "u",
}  # fmt: skip
_UNIT_FIELDS = ("price", "quantity", "ask", "ask_quantity")
_UNSTORED = -1
_find_holes = re.compile(r"<(\w*)(?::([^>]*))?>").split
_STREAM = "<stream>"


@dataclass(frozen=True)
class Layout:
    """A kind of frame."""

    event: type[Event] | None
    """What a row of it becomes; None if such frames have no events."""
    row: str
    head: str = ""
    tail: str = ""
    """If it is not empty there may be several rows, with commas between them."""
    unit: str = _OUR_UNIT
    """How a level is spelled; its fields are ``price`` and ``quantity``, in ``units`` also ``ask``
    and ``ask_quantity``, in ``changes`` also ``side``, which is ``bids`` or ``asks``."""

    def for_reader(self, exchange: str, symbols: Mapping[str, Symbol] | None) -> tuple[Any, ...]:
        """Itself in the form that the compiled reader takes."""
        if self.event is None:
            return None, (), 0, 0, False, _ops(self.row, ()), (), (), ()
        names = ["symbol", "received_at_ns", *_stored(self.row)]
        required = {field.name for field in fields(self.event) if field.required} - {"exchange"}
        assert required <= {*names}, f"{self.event.__name__}: {required - {*names}} is not read"
        prototype = self.event(exchange=exchange, **dict.fromkeys(required))  # type: ignore[arg-type]
        own_unit = self.unit == _OUR_UNIT
        row = tuple(_op(op, symbols, own_unit=own_unit) for op in _ops(self.row, names))
        slots = tuple(getattr(self.event, name) for name in names)
        unit = _ops(self.unit, _UNIT_FIELDS)
        head, tail = _ops(self.head, ()), _ops(self.tail, ())
        return prototype, slots, 0, 1, bool(self.tail), head, row, tail, unit


def _stored(text: str) -> list[str]:
    parts = _find_holes(text)
    names = []
    for field, kind in zip(parts[1::3], parts[2::3], strict=True):
        if kind in ("changes", "units"):
            names += ["bids_raw", "asks_raw"]
        elif field and kind:
            names.append(field)
    return names


def _ops(text: str, names: Sequence[str]) -> tuple[_Op, ...]:
    literal, *parts = _find_holes(text)
    ops: list[_Op] = [("L", _UNSTORED, _UNSTORED, literal.encode())]
    for field, kind, after in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        place = names.index(field) if field in names else _UNSTORED
        if kind is None:
            ops.append(("K" if field == "symbol" else "N", place, _UNSTORED, None))
        elif "=" in kind:
            ops.append(("c", place, _UNSTORED, _choices(field, kind)))
        elif kind in ("changes", "units"):
            bids, asks = names.index("bids_raw"), names.index("asks_raw")
            ops.append((_CODES[kind], bids, asks, None))
        else:
            ops.append((_CODES[kind], place, _UNSTORED, None))
        ops.append(("L", _UNSTORED, _UNSTORED, after.encode()))
    return tuple(op for op in ops if op[3] != b"")


def _choices(field: str, kind: str) -> tuple[tuple[bytes, str | bool], ...]:
    pairs = [each.split("=") for each in kind.split("|")]
    return tuple(
        (word.encode(), value == "asks" if field == "side" else value) for word, value in pairs
    )


def _op(op: _Op, symbols: Mapping[str, Symbol] | None, *, own_unit: bool) -> _Op:
    code, place, other, data = op
    if code == "K":
        return code, place, other, symbols
    return ("o" if code == "l" and not own_unit else code), place, other, data


def usual_reader(
    exchange: str, largest_frame: int, layouts: Sequence[tuple[Layout, Mapping[str, Symbol] | None]]
) -> ReadsUsual | None:
    """A reader of frames with these layouts, tried in order, each with its symbols by name.

    None where the Python code reads all frames.
    """
    if compiled.Reader is None:
        return None
    made = tuple(layout.for_reader(exchange, symbols) for layout, symbols in layouts)
    return compiled.Reader(largest_frame, made).read_many


class NamedLayouts:
    """The same for frames that begin with the name of their stream."""

    def __init__(self, exchange: str, largest_frame: int, layouts: Mapping[str, Layout]) -> None:
        """``layouts`` by channel."""
        self._places = {channel: place for place, channel in enumerate(layouts)}
        self._streams: dict[str, tuple[int, Symbol, bytes]] = {}
        self.read_many: ReadsUsual | None = None
        if compiled.Reader is not None and layouts:
            texts = [each.row.split(_STREAM) for each in layouts.values()]
            (prefix,) = {before for before, _ in texts}
            made = tuple(
                Layout(layout.event, after, unit=layout.unit).for_reader(exchange, None)
                for layout, (_, after) in zip(layouts.values(), texts, strict=True)
            )
            reader = compiled.Reader(largest_frame, made, prefix.encode(), self._streams)
            self.read_many = reader.read_many

    def add(self, channel: str, name: str, native: str, symbol: Symbol) -> None:
        """Add a stream; without effect if its channel has no layout."""
        if channel in self._places:
            # The first symbol of a name counts, as on the other path.
            self._streams.setdefault(name, (self._places[channel], symbol, native.encode()))
