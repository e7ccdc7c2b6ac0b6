"""Price levels as JSON pairs of texts, decoded only on access.

Every exchange's levels are converted to one spelling, ``[["60000.01","0.5"],…]``, and stay bytes
until a book, a checksum or a reader needs them.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from penstock import compiled
from penstock.errors import MalformedLevels
from penstock.market.numbers import is_plain

Level = tuple[Decimal, Decimal]
"""(price, quantity), exact."""
LevelText = tuple[str, str]
"""(price, quantity) in the wire's digits."""

_decode = msgspec.json.Decoder(list[LevelText]).decode
# A lone point is the only text in the shape of a number that is not one: hence min_length.
_decode_longer = msgspec.json.Decoder(list[tuple[str, Annotated[str, Meta(min_length=2)]]]).decode
_encode = msgspec.json.Encoder().encode
# The second for bytes that are not UTF-8.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)
_DIGITS = b"0123456789"
# Levels without their digits, if all their numbers have a point: so a few calls in C can check that
# all of them are plain.
_SHAPE = b'[".","."],' * 10_000
_NONE = b"[]"
_SHORT_SHAPES = frozenset(b"[" + _SHAPE[: max(0, 10 * n - 1)] + b"]" for n in range(64))


def read_levels(raw: Raw) -> list[LevelText]:
    """Decode levels, keeping the wire's digits.

    Raises:
        MalformedLevels: they are not pairs of plain decimal numbers.
    """
    try:
        levels = _decode(raw)
    except _UNREADABLE as error:
        raise MalformedLevels(f"price levels are not pairs of texts: {error}") from error
    if not all_plain_levels([raw]):
        for level in levels:
            for text in level:
                if not is_plain(text):
                    raise MalformedLevels(f"{text[:40]!r} is not a plain number")
    return levels


def split_levels(raw: Raw) -> list[LevelText]:
    """Decode levels that are known to be plain numbers, as those of every event are.

    Raises:
        MalformedLevels: they are not pairs of texts.
    """
    try:
        return _decode_longer(raw)
    except _UNREADABLE:
        return read_levels(raw)


def all_plain_levels(raws: Sequence[Raw]) -> bool:
    """Whether these are pairs of numbers with points; False if that needs a check of each."""
    return not raws or plain_lines(b"\n".join(raws))


def plain_lines(lines: bytes) -> bool:
    """The same for levels in lines, one side in each line."""
    shapes = lines.translate(None, _DIGITS).split(b"\n")
    if not _SHORT_SHAPES.issuperset(shapes) and not all(map(_is_shape, shapes)):
        return False
    # `[7]` has the shape of no levels.
    return b'"."' not in lines and shapes.count(_NONE) == lines.count(_NONE)


def plain_levels(written: bytes) -> bool:
    """The same for the levels of one side, faster than for several."""
    shape = written.translate(None, _DIGITS)
    return _is_shape(shape) and b'"."' not in written and (shape != _NONE or written == _NONE)


def _is_shape(shape: bytes) -> bool:
    if shape in _SHORT_SHAPES:
        return True
    whole = shape.startswith(b"[[") and shape.endswith(b'"]]')
    return whole and _SHAPE.startswith(shape[1:-1])


def write_levels(levels: Iterable[LevelText]) -> Raw:
    """Encode levels in the common spelling."""
    return Raw(_encode(list(levels)))


def as_decimals(raw: Raw) -> list[Level]:
    """Decode levels to exact numbers.

    Raises:
        MalformedLevels: they are not pairs of plain decimal numbers.
    """
    if compiled.decimals is not None and (found := compiled.decimals(raw)) is not None:
        return found
    try:
        return [(Decimal(price), Decimal(quantity)) for price, quantity in read_levels(raw)]
    except ArithmeticError as error:
        raise MalformedLevels("a price level holds something that is not a number") from error
