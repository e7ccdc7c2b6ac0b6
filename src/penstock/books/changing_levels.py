"""Levels that get changes: compiled where possible, else written in Python.

``OrderBook`` and ``TopBook`` are the specification. The compiled book does the same for levels in
the usual spelling, with prices that fit into 64 bits. At the first change that is different, its
levels are handed to the book in Python, which continues.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from msgspec import Raw

from penstock import compiled
from penstock.books.book import Levels, Sides
from penstock.books.order_book import OrderBook
from penstock.books.rules import Checksum
from penstock.books.top_book import TopBook
from penstock.market.levels import Level, LevelText, split_levels, write_levels

if TYPE_CHECKING:
    from penstock.compiled._hot import Book


class ChangingLevels(Levels, Protocol):
    """Levels that are loaded and changed."""

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Load levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book is then empty.
        """
        ...

    def load_raw(self, bids: Raw, asks: Raw) -> None:
        """The same for an event's levels."""
        ...

    def apply_raw(self, bids: Raw, asks: Raw) -> None:
        """Set an event's levels to absolute quantities; zero removes.

        Raises:
            MalformedLevels: a price is no number. The book may then hold part of the change.
        """
        ...

    def forget_beyond(self, bid: Decimal | None, ask: Decimal | None) -> None:
        """Drop bids below, and asks above, these prices."""
        ...

    def checksum(self) -> int | None:
        """Return the checksum that the exchange must have sent; None if it sends none."""
        ...


def new_levels(depth: int | None = None, rule: Checksum | None = None) -> ChangingLevels:
    """Levels without any: all there are, or the ``depth`` best of each side."""
    if compiled.Book is None or (rule is not None and rule.of_digits is None):
        return _in_python(depth, rule)
    return CompiledLevels(compiled.Book(depth or 0), depth, rule)


def _in_python(depth: int | None, rule: Checksum | None) -> OrderBook | TopBook:
    return OrderBook() if depth is None else TopBook(depth, rule)


class CompiledLevels:
    """See ``ChangingLevels``."""

    __slots__ = ("_book", "_depth", "_python", "_rule")

    def __init__(self, book: "Book", depth: int | None, rule: Checksum | None) -> None:
        self._book, self._depth, self._rule = book, depth, rule
        self._python: OrderBook | TopBook | None = None
        """Holds the levels instead, from a change that the compiled book refused to the next
        load."""

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """See ``ChangingLevels``."""
        self.load_raw(write_levels(bids), write_levels(asks))

    def load_raw(self, bids: Raw, asks: Raw) -> None:
        """See ``ChangingLevels``."""
        if self._book.load(bids, asks):
            self._python = None
        else:
            sides = split_levels(bids), split_levels(asks)
            self._python = _in_python(self._depth, self._rule)
            self._python.load_plain(*sides)

    def apply_raw(self, bids: Raw, asks: Raw) -> None:
        """See ``ChangingLevels``."""
        if self._python is None:
            if self._book.apply(bids, asks):
                return
            self._python = self._handed_over()
        self._python.apply_raw(bids, asks)

    def forget_beyond(self, bid: Decimal | None, ask: Decimal | None) -> None:
        """See ``ChangingLevels``."""
        if self._depth is not None:
            return  # it has no levels beyond its depth
        if self._python is None:
            texts = (None if price is None else f"{price:f}" for price in (bid, ask))
            if self._book.forget_beyond(*texts):
                return
            self._python = self._handed_over()
        self._python.forget_beyond(bid, ask)

    def _handed_over(self) -> OrderBook | TopBook:
        python = _in_python(self._depth, self._rule)
        python.load_plain(*self._book.texts(None))
        return python

    def checksum(self) -> int | None:
        """See ``ChangingLevels``."""
        if self._python is not None:
            return self._python.checksum()
        rule = self._rule
        if rule is None or rule.of_digits is None:
            return None
        return rule.of_digits(*self._book.digits(rule.levels))

    @property
    def best_bid(self) -> Level | None:
        """See ``Levels``."""
        return self._book.best_bid if self._python is None else self._python.best_bid

    @property
    def best_ask(self) -> Level | None:
        """See ``Levels``."""
        return self._book.best_ask if self._python is None else self._python.best_ask

    def crossed(self) -> bool:
        """See ``Levels``."""
        return self._book.crossed() if self._python is None else self._python.crossed()

    def texts(self, depth: int | None = None) -> Sides:
        """See ``Levels``."""
        return self._book.texts(depth) if self._python is None else self._python.texts(depth)

    def __len__(self) -> int:
        return len(self._book if self._python is None else self._python)
