"""The checksum of a book: CRC-32 over its ten best levels, asks first.

Kraken writes each price and quantity without its point and leading zeros. Of a number with all its
decimals that leaves the digits of the number counted in its smallest unit, so integers do.
"""

from collections.abc import Sequence
from zlib import crc32

from penstock.simulator.market.book import Level

LEVELS = 10


def checksum(bids: Sequence[Level], asks: Sequence[Level], lot: int) -> int:
    """Of levels, best first; ``lot`` is a lot in units of the eighth decimal."""
    levels = (*asks[:LEVELS], *bids[:LEVELS])
    return crc32("".join([f"{price}{quantity * lot}" for price, quantity in levels]).encode())
