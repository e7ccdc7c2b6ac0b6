"""Kraken's checksum of a book is a CRC-32 over the digits of its ten best levels per side.

It covers asks from the lowest up, then bids from the highest down. Of each level it uses the price
and the quantity as they were sent, without the decimal point and leading zeros: ``0.00100000``
counts as ``100000``. Trailing zeros count, so a book keeps the digits as they were sent.
"""

from zlib import crc32

from penstock.books.rules import Checksum


def _digits(number: str) -> str:
    return number.replace(".", "").lstrip("0")


def _crc(bids: str, asks: str) -> int:
    return crc32((asks + bids).encode())


CHECKSUM = Checksum(levels=10, spell=_digits, of=_crc, of_digits=_crc)
