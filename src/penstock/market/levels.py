"""Price levels: JSON pairs of texts, kept raw until somebody looks.

Every exchange's levels are brought to one spelling, ``[["60000.01","0.5"],…]``, and stay bytes
until a book, a checksum or a reader asks for them.
"""

import re
from collections.abc import Iterable
from decimal import Decimal

import msgspec
from msgspec import Raw

from penstock.errors import MalformedLevels

Level = tuple[Decimal, Decimal]
"""(price, quantity), exact."""
LevelText = tuple[str, str]
"""(price, quantity) in the wire's digits."""

_decode = msgspec.json.Decoder(list[LevelText]).decode
_encode = msgspec.json.Encoder().encode
_DIGITS = b"0123456789"
# Levels without their digits, if all their numbers have a point: then two calls in C tell that all
# of them are plain. A lone point has the same shape and is looked for by itself.
_SHAPE = b'[".","."],' * 10_000
_as_plain = re.compile(r"[0-9]+(?:\.[0-9]+)?").fullmatch


def read_levels(raw: Raw) -> list[LevelText]:
    """Decode levels, keeping the wire's digits.

    Raises:
        MalformedLevels: they are not pairs of plain decimal numbers.
    """
    levels = split_levels(raw)
    data = bytes(raw)
    shape = data.translate(None, _DIGITS)
    if not _SHAPE.startswith(shape[1:-1]) or b'"."' in data:
        for level in levels:
            for text in level:
                if _as_plain(text) is None:
                    raise MalformedLevels(f"{text[:40]!r} is not a plain number")
    return levels


def split_levels(raw: Raw) -> list[LevelText]:
    """Decode levels that are known to be plain numbers, as those of every event are.

    Raises:
        MalformedLevels: they are not pairs of texts.
    """
    try:
        return _decode(raw)
    except msgspec.DecodeError as error:
        raise MalformedLevels(f"price levels are not pairs of texts: {error}") from error


def write_levels(levels: Iterable[LevelText]) -> Raw:
    """Levels in the one spelling."""
    return Raw(_encode(list(levels)))


def as_decimals(raw: Raw) -> list[Level]:
    """Decode levels to exact numbers.

    Raises:
        MalformedLevels: they are not pairs of plain decimal numbers.
    """
    try:
        return [(Decimal(price), Decimal(quantity)) for price, quantity in read_levels(raw)]
    except ArithmeticError as error:
        raise MalformedLevels("a price level holds something that is not a number") from error
