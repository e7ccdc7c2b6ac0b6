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
    a=x|b=y  one of these words, and its value; ``yes`` and ``no`` are True and False

``<symbol>`` is the market's name, and ``<native>`` that of the market of a frame's stream.
``<rows>`` stands for the rows in the frame around them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import fields

from penstock import compiled
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Received

if TYPE_CHECKING:
    from penstock.compiled._hot import Reader

_Op = tuple[str, int, int, Any]

_OUR_UNIT = '["<price:number>","<quantity:number>"]'
_CODES: Final = {
    "whole": "w", "after": "a", "word32": "h", "ms": "m", "number": "t", "bare": "b", "signed": "s",
    "text": "x", "time": "r", "levels": "l", "changes": "d", "units": "u",
}  # fmt: skip
_UNIT_FIELDS = ("price", "quantity", "ask", "ask_quantity")
_BOOLEANS = {"asks": True, "bids": False, "yes": True, "no": False}
_UNSTORED = -1
_find_holes = re.compile(r"<(\w*)(?::([^>]*))?>").split
_ROWS = "<rows>"


class Reads(NamedTuple):
    """What reads frames; see ``Dialect`` and ``ReadsMany``."""

    read: Callable[[bytes | str, int], list[Received]]
    read_many: Callable[[Sequence[bytes | str], Sequence[int]], list[Event] | None]


@dataclass(frozen=True)
class Layout:
    """A kind of frame."""

    event: type[Event] | None
    """What a row of it becomes; None if such frames have no events."""
    row: str
    around: str = _ROWS
    """The frame around its rows. If anything follows them there may be several, with commas."""
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
        head, tail = self.around.split(_ROWS)
        ops = _ops(head, ()), row, _ops(tail, ())
        return prototype, slots, 0, 1, bool(tail), *ops, unit


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
            ops.append(("c", place, _UNSTORED, _choices(kind)))
        elif kind in ("changes", "units"):
            bids, asks = names.index("bids_raw"), names.index("asks_raw")
            ops.append((_CODES[kind], bids, asks, None))
        else:
            ops.append((_CODES[kind], place, _UNSTORED, None))
        ops.append(("L", _UNSTORED, _UNSTORED, after.encode()))
    return tuple(op for op in ops if op[3] != b"")


def _choices(kind: str) -> tuple[tuple[bytes, str | bool], ...]:
    pairs = [each.split("=") for each in kind.split("|")]
    return tuple((word.encode(), _BOOLEANS.get(value, value)) for word, value in pairs)


def _op(op: _Op, symbols: Mapping[str, Symbol] | None, *, own_unit: bool) -> _Op:
    code, place, other, data = op
    if code == "K":
        return code, place, other, symbols
    return ("o" if code == "l" and not own_unit else code), place, other, data


Layouts = Sequence[tuple[Layout, Mapping[str, Symbol] | None]]
"""Layouts in the order in which they are tried, each with its symbols by name."""


def usual_reader(exchange: str, largest_frame: int, layouts: Layouts) -> "Reader | None":
    """A reader of frames with these layouts.

    It returns None for any other frame. There is none where the Python code reads all frames.
    """
    if compiled.Reader is None:
        return None
    return compiled.Reader(largest_frame, _made(exchange, layouts))


def usual_first(
    exchange: str,
    largest_frame: int,
    layouts: Layouts,
    otherwise: Reads,
    accepted: Callable[[list[Event]], list[Event]] | None = None,
) -> Reads:
    """The same, with ``otherwise`` for all other frames, or for all without the extension.

    ``accepted`` is called with the events of usual frames, and returns those to pass on.
    """
    if compiled.Reader is None:
        return otherwise
    reader = compiled.Reader(
        largest_frame, _made(exchange, layouts), accepted=accepted, **otherwise._asdict()
    )
    return Reads(reader.read, reader.read_many)


def _made(exchange: str, layouts: Layouts) -> tuple[tuple[Any, ...], ...]:
    return tuple(layout.for_reader(exchange, symbols) for layout, symbols in layouts)


class NamedLayouts:
    """The same for frames that begin with the name of their stream; see ``NamedFrames``."""

    def __init__(
        self,
        exchange: str,
        largest_frame: int,
        layouts: Mapping[str, Layout],
        otherwise: Reads,
    ) -> None:
        """``layouts`` of the data, by channel."""
        self._places = {channel: place for place, channel in enumerate(layouts)}
        self._reader: Reader | None = None
        if compiled.Reader is not None:
            after_names = [
                (replace(each, row=f'","data":{each.row}}}'), None) for each in layouts.values()
            ]
            self._reader = compiled.Reader(
                largest_frame,
                _made(exchange, after_names),
                b'{"stream":"',
                **otherwise._asdict(),
            )
            otherwise = Reads(self._reader.read, self._reader.read_many)
        self.reads = otherwise

    def add(self, channel: str, name: str, native: str, symbol: Symbol) -> None:
        """Add a stream; without effect if its channel has no layout, or its name is known.

        The first symbol of a name counts, as on the other path.
        """
        if self._reader is not None and channel in self._places:
            self._reader.add(name.encode(), self._places[channel], symbol, native.encode())
