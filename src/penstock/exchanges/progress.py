"""Probes of a market's progress, each with one cheap request.

Most are requests that exist anyway; only a part of the response is read.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.exchanges.base import MarketProgress, Request
from penstock.market.events import BookSnapshot, Trade

T = TypeVar("T")


def progress_request(
    asked: Request[T], progress_of: Callable[[T], MarketProgress]
) -> Request[MarketProgress]:
    """The same request, reading only the progress from the response."""

    def read(body: bytes, received_at_ns: int) -> MarketProgress:
        return progress_of(asked.read(body, received_at_ns))

    return Request(asked.path, asked.cost, read, asked.params, asked.category, asked.dated)


def latest_trade(trades: Sequence[Trade]) -> MarketProgress:
    """The progress of trades: the id of the newest one."""
    return MarketProgress(str(trades[-1].id), trades[-1].id) if trades else MarketProgress("")


def last_trade_only(trades: Sequence[Trade]) -> MarketProgress:
    """The same for a stream that sends a message with every trade, but without its id."""
    return MarketProgress(latest_trade(trades).state)


def latest_update(book: BookSnapshot) -> MarketProgress:
    """The progress of a book whose updates are numbered."""
    return MarketProgress(str(book.update_id), book.update_id)


def levels(book: BookSnapshot) -> MarketProgress:
    """The progress of a book whose updates are not numbered: its levels."""
    return MarketProgress(f"{bytes(book.bids_raw).decode()} {bytes(book.asks_raw).decode()}")
