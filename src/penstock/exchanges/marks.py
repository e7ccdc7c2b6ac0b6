"""Marks: what a cheap look tells of how far a market has come.

Most looks are questions that exist anyway, read with less interest.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.exchanges.base import Mark, Request
from penstock.market.events import BookSnapshot, Trade

T = TypeVar("T")


def marked(asked: Request[T], tell: Callable[[T], Mark]) -> Request[Mark]:
    """The same question, of whose answer only the mark matters."""

    def read(body: bytes, received_at_ns: int) -> Mark:
        return tell(asked.read(body, received_at_ns))

    return Request(asked.path, asked.cost, read, asked.params, asked.category, asked.dated)


def newest_trade(trades: Sequence[Trade]) -> Mark:
    """How far trades have come: to the newest one's id."""
    return Mark(str(trades[-1].id), trades[-1].id) if trades else Mark("")


def trading(trades: Sequence[Trade]) -> Mark:
    """The same for a stream that speaks with every trade, but not of its id."""
    return Mark(newest_trade(trades).state)


def newest_update(book: BookSnapshot) -> Mark:
    """How far a book has come, where its updates are numbered."""
    return Mark(str(book.update_id), book.update_id)


def levels(book: BookSnapshot) -> Mark:
    """How far a book has come, where only its levels tell."""
    return Mark(f"{bytes(book.bids_raw).decode()} {bytes(book.asks_raw).decode()}")
