"""Commands by which the books of a connection request snapshots."""

from typing import NamedTuple

from penstock.market.symbol import Symbol


class FetchSnapshot(NamedTuple):
    """After a delay, fetch a book from the exchange; report it, or that it failed."""

    symbol: Symbol
    after_s: float
    lost: bool = False
    """Whether the book was valid before; then it is urgent."""


class CancelFetch(NamedTuple):
    """The book does not need the snapshot any more; a request that is not sent yet is not sent.

    Nothing is reported, unless the request was sent.
    """

    symbol: Symbol


BookCommand = FetchSnapshot | CancelFetch
