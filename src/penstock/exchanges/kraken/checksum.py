"""Kraken's checksum of a book: CRC-32 over the digits of its ten best levels a side.

Of each level, asks from the lowest up and then bids from the highest down, the price and the
quantity as they were sent, without the point and without zeros in front: ``0.00100000`` counts as
``100000``. Trailing zeros count, which is why a book keeps the wire's digits.
"""

from zlib import crc32

from penstock.market.top_book import Checksum


def _digits(number: str) -> str:
    return number.replace(".", "").lstrip("0")


def _crc(bids: str, asks: str) -> int:
    return crc32((asks + bids).encode())


CHECKSUM = Checksum(levels=10, spell=_digits, of=_crc)
