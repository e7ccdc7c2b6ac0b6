"""Kraken's checksum of a book: CRC-32 over the digits of its ten best levels a side.

Of each level, asks from the lowest up and then bids from the highest down, the price and the
quantity as they were sent, without the point and without zeros in front: ``0.00100000`` counts as
``100000``. Trailing zeros count, which is why a book keeps the wire's digits.
"""

from functools import lru_cache
from zlib import crc32

from penstock.market.levels import LevelText
from penstock.streaming.dialect import Texts

_LEVELS = 10


def checksum(texts: Texts) -> int:
    """The checksum of a book, by what it shows."""
    bids, asks = texts(_LEVELS)
    return crc32("".join(map(_digits, asks + bids)).encode())


# Of twenty levels one or two are new at each update.
@lru_cache(maxsize=16_384)
def _digits(level: LevelText) -> str:
    price, quantity = level
    return price.replace(".", "").lstrip("0") + quantity.replace(".", "").lstrip("0")
