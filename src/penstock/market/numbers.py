"""Checks of plain numbers, which are digits with or without one point among them.

Prices and quantities are kept as the text the exchange sent, so a text must be checked to be a
number: no sign, no exponent, no NaN, no digits of other scripts. Checking many texts at once costs
a fraction of checking each.
"""

import re
from collections.abc import Sequence

_plain = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+").fullmatch
_DIGITS = b"0123456789"
_POINTS = b".," * 10_000
_SHAPES = frozenset((b"", b"."))


def is_plain(text: str) -> bool:
    """Whether this is a plain number."""
    return _plain(text) is not None


def all_plain(texts: Sequence[str]) -> bool:
    """Whether all of these are plain numbers."""
    # Without its digits a number with a point is ".", and several joined are ".,.,.": that check
    # takes two calls in C for any number of texts. Only a lone point looks the same and is no
    # number. A number without a point becomes "", which takes a third call; only an empty text
    # looks the same.
    joined = ",".join(texts)
    if texts and joined.isascii() and "." not in texts and "" not in texts:
        shape = joined.encode().translate(None, _DIGITS)
        if len(shape) == 2 * len(texts) - 1 and _POINTS.startswith(shape):
            return True
        shapes = shape.split(b",")
        return len(shapes) == len(texts) and _SHAPES.issuperset(shapes)
    return all(map(_plain, texts))
