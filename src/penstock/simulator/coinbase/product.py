"""Defines a product: its market, book, number format, orders and sequence numbers.

The market has no orders and sequence numbers, so they are derived from its trades and book. A
product has one sequence for all its messages. A book's sequence number is its update id, shifted to
leave room for others: ``sequence >> SEQUENCE_BITS`` of a book is its update id in the ledger.
Trades come first in their slot.
"""

from dataclasses import dataclass
from functools import cached_property

from penstock.simulator.coinbase.spelling import Spelling
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Market, Trade
from penstock.simulator.market.rng import key, mix

SEQUENCE_BITS = 10
WHOLE_BOOK = 1_000_000
"""More levels than any book has."""

_IDS_PER_SLOT = 64
_MOST_ORDERS = 7
_VERSION_MASK, _VERSION = ~0xF000, 0x4000
_VARIANT_MASK, _VARIANT = ~(0b11 << 62), 0b10 << 62


@dataclass(frozen=True)
class Product:
    """A listed product."""

    market: Market
    book: Book
    spelling: Spelling

    @property
    def id(self) -> str:
        """Base and quote separated by a dash, upper case."""
        return self.spelling.product_id

    @property
    def listed_at_ms(self) -> int:
        """The start of the history."""
        return self.market.listing.listed_at_ms

    @cached_property
    def _key(self) -> int:
        return key(self.market.purpose, "orders")

    def trade_sequence(self, trade: Trade) -> int:
        """The sequence number of a match."""
        slot = trade.at_ms // Book.SLOT_MS
        before = self.market.id_at(slot * Book.SLOT_MS)
        return (slot * _IDS_PER_SLOT << SEQUENCE_BITS) + trade.id - before

    def sequence_at(self, at_ms: int) -> int:
        """The last sequence number at a time."""
        update_id = self.book.update_id(at_ms // Book.SLOT_MS - 1)
        last = self.market.last_before(at_ms + 1)
        return max(book_sequence(update_id), self.trade_sequence(last))

    def maker_order(self, trade: Trade) -> str:
        """The id of the maker's order."""
        return _order_id(self._key ^ trade.id << 1)

    def taker_order(self, trade: Trade) -> str:
        """The id of the taker's order, the same for all makers that it fills."""
        return _order_id(self._key + (trade.at_ms << 1) + trade.taker_buys)

    def count_orders(self, price: int, quantity: int) -> int:
        """The number of orders in a level."""
        return 1 + mix(self._key ^ price << 24 ^ quantity) % min(_MOST_ORDERS, quantity)

    def orders(self, price: int, quantity: int) -> list[tuple[int, str]]:
        """The orders in a level: size and id of each."""
        bits, count = mix(self._key ^ price << 24 ^ quantity), self.count_orders(price, quantity)
        share, rest = divmod(quantity, count)
        sizes = (share + rest if number == 0 else share for number in range(count))
        return [(size, _order_id(bits + number)) for number, size in enumerate(sizes)]


def book_sequence(update_id: int) -> int:
    """The sequence number of a book at an update id."""
    return update_id << SEQUENCE_BITS


def list_market(market: Market) -> Product:
    """Build the product of a market."""
    return Product(market, Book(market), Spelling(market.listing))


def _order_id(seed: int) -> str:
    # A random UUID (version 4) without a UUID object: a book by orders has tens of thousands.
    high = mix(seed)
    low = mix(high ^ seed) & _VARIANT_MASK | _VARIANT
    digits = f"{high & _VERSION_MASK | _VERSION:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
