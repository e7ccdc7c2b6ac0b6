"""Converts levels from the formats of exchanges to the standard one, ``[["0.0286","74.1"]]``.

In an exchange's usual format, levels are converted by a few replacements, and those of many frames
are validated together. Levels in any other format are decoded.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw, Struct

from penstock.errors import MalformedLevels
from penstock.exchanges.answers import Text
from penstock.exchanges.frames import NotANumber, Number, number_text
from penstock.market.events import Side
from penstock.market.levels import (
    LevelText,
    all_plain_levels,
    plain_levels,
    plain_lines,
    read_levels,
    write_levels,
)

LevelSpelling = Callable[[Sequence[Raw]], Sequence[Raw]]
"""Converts the levels of sides to the standard format. Raises what msgspec raises."""


class _Level(Struct, gc=False):
    """{"price":0.0286,"qty":74.1}"""

    price: Number
    qty: Number


class _Change(Struct, array_like=True, gc=False):
    """["buy","1.5","2.0"]"""

    side: Side
    price: Text
    quantity: Text


_decode_levels = msgspec.json.Decoder(list[_Level], float_hook=str).decode
_decode_changes = msgspec.json.Decoder(list[_Change]).decode
_BID, _ASK = b'["buy",]', b'["sell",]'
_find_bids = re.compile(rb'\["buy",([^\]]*)\]').findall
_find_asks = re.compile(rb'\["sell",([^\]]*)\]').findall


def objects_at_once(raws: Sequence[Raw]) -> list[Raw]:
    """Levels that are written as ``[{"price":0.0286,"qty":74.1}]``.

    Raises:
        NotANumber: some have another format, or are not levels; ``objects_with_care`` decides.
    """
    if not raws:
        return []
    pairs = _as_pairs(b"\n".join(raws))
    if not plain_lines(pairs):
        raise NotANumber("not levels as they are usually written")
    return list(map(Raw, pairs.split(b"\n")))


def objects_with_care(raws: Sequence[Raw]) -> list[Raw]:
    """The same for objects in any format.

    Raises:
        NotANumber: a value is not a number.
        ValidationError: they are not levels.
    """
    return [_pairs_of(bytes(raw)) for raw in raws]


def _pairs_of(written: bytes) -> Raw:
    pairs = _as_pairs(written)
    if plain_levels(pairs):
        return Raw(pairs)
    rows = _decode_levels(written)
    return write_levels((number_text(row.price), number_text(row.qty)) for row in rows)


def _as_pairs(written: bytes) -> bytes:
    return written.replace(b'{"price":', b'["').replace(b',"qty":', b'","').replace(b"}", b'"]')


def changes_at_once(books: Sequence[Raw | tuple[Raw, Raw]]) -> list[Raw]:
    """The bids and asks of each in turn, from changes of books or the two sides of whole ones.

    Changes are written as ``[["buy","1.5","2.0"],["sell","1.6","0.0"]]``.

    Raises:
        NotANumber: some have another format, or are not levels; ``changes_with_care`` decides.
    """
    lines: list[bytes] = []
    for book in books:
        lines += book if isinstance(book, tuple) else _sides_at_once(book)
    if lines and not plain_lines(b"\n".join(lines)):
        raise NotANumber("not levels as they are usually written")
    # Copies: msgspec's ``Raw`` would keep the whole frame, with both sides, in memory.
    return list(map(Raw, lines))


def changes_with_care(books: Sequence[Raw | tuple[Raw, Raw]]) -> list[Raw]:
    """The same for levels in any format.

    Raises:
        NotANumber: a value is not a number.
        ValidationError: they are not changes.
    """
    levels: list[Raw] = []
    for book in books:
        levels += map(valid, book) if isinstance(book, tuple) else _sides_with_care(book)
    return levels


def _sides_at_once(changes: Raw) -> tuple[bytes, bytes]:
    """The bids and asks, with numbers that are not validated yet."""
    bids, asks = _find_bids(changes), _find_asks(changes)
    # If the lengths of the levels, the commas between them and the brackets around them add up to
    # that of the whole, there is nothing else in it.
    found = len(b"".join(bids)) + len(b"".join(asks))
    around = len(_BID) * len(bids) + len(_ASK) * len(asks) + max(0, len(bids) + len(asks) - 1) + 2
    if found + around != len(bytes(changes)):
        raise NotANumber("not changes as they are usually written")
    return _joined(bids), _joined(asks)


def _joined(levels: Sequence[bytes]) -> bytes:
    return b"[[" + b"],[".join(levels) + b"]]" if levels else b"[]"


def _sides_with_care(changes: Raw) -> tuple[Raw, Raw]:
    sides: dict[Side, list[LevelText]] = {"buy": [], "sell": []}
    for change in _decode_changes(changes):
        sides[change.side].append((number_text(change.price), number_text(change.quantity)))
    return write_levels(sides["buy"]), write_levels(sides["sell"])


def valid(raw: Raw) -> Raw:
    """A side in the standard format, after validation.

    Raises:
        NotANumber: they are not levels.
    """
    try:
        if not all_plain_levels([raw]):
            read_levels(raw)
    except MalformedLevels as error:
        raise NotANumber(str(error)) from error
    return raw.copy()
