"""Computes the checksum of a book: CRC-32 over its ten best levels, asks first.

Kraken removes the decimal point and leading zeros of each price and quantity. What remains of a
number with all its decimals is the number in its smallest unit, so integers suffice.
"""

from collections.abc import Sequence
from zlib import crc32

from penstock.simulator.market.book import Level

LEVELS = 10


def checksum(bids: Sequence[Level], asks: Sequence[Level], lot: int) -> int:
    """The checksum of levels, best first; ``lot`` is a lot in units of the eighth decimal."""
    levels = (*asks[:LEVELS], *bids[:LEVELS])
    return crc32("".join([f"{price}{quantity * lot}" for price, quantity in levels]).encode())
