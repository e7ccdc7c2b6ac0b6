"""Market progress: how far a market has come, as one cheap request tells.

Most are requests that exist anyway, of whose answers only a part is read.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.exchanges.base import MarketProgress, Request
from penstock.market.events import BookSnapshot, Trade

T = TypeVar("T")


def progress_request(
    asked: Request[T], tell: Callable[[T], MarketProgress]
) -> Request[MarketProgress]:
    """The same request, of whose answer only the progress is read."""

    def read(body: bytes, received_at_ns: int) -> MarketProgress:
        return tell(asked.read(body, received_at_ns))

    return Request(asked.path, asked.cost, read, asked.params, asked.category, asked.dated)


def latest_trade(trades: Sequence[Trade]) -> MarketProgress:
    """How far trades have come: to the newest one's id."""
    return MarketProgress(str(trades[-1].id), trades[-1].id) if trades else MarketProgress("")


def last_trade_only(trades: Sequence[Trade]) -> MarketProgress:
    """The same for a stream that speaks with every trade, but not of its id."""
    return MarketProgress(latest_trade(trades).state)


def latest_update(book: BookSnapshot) -> MarketProgress:
    """How far a book has come, where its updates are numbered."""
    return MarketProgress(str(book.update_id), book.update_id)


def levels(book: BookSnapshot) -> MarketProgress:
    """How far a book has come, where only its levels tell."""
    return MarketProgress(f"{bytes(book.bids_raw).decode()} {bytes(book.asks_raw).decode()}")
