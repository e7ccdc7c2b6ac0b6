"""Price levels: JSON pairs of texts, kept raw until somebody looks.

Every exchange's levels are brought to one spelling, ``[["60000.01","0.5"],…]``, and stay bytes
until a book, a checksum or a reader asks for them.
"""

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
# What plain numbers in JSON pairs are made of. Deleting these from the bytes must leave nothing:
# one call in C that keeps out NaN, signs and exponents, which a text decoder would let through.
_LEVEL_BYTES = b'0123456789.",[] \t\r\n'


def read_levels(raw: Raw) -> list[LevelText]:
    """Decode levels, keeping the wire's digits.

    Raises:
        MalformedLevels: they are not pairs of plain decimal numbers.
    """
    if strange := bytes(raw).translate(None, _LEVEL_BYTES):
        raise MalformedLevels(f"unexpected {strange[:40]!r} among price levels")
    return split_levels(raw)


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
