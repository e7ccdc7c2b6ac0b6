"""Two dialects and two connections of one exchange, one on each path, that must always agree."""

from collections.abc import Sequence
from typing import Any

from tests.paths import in_python

from penstock.books.commands import FetchSnapshot
from penstock.exchanges.registry import load
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookSnapshot
from penstock.market.levels import as_decimals, write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Subscription
from penstock.streaming.connection import Connection

BTC, ETH = Symbol("BTC", "USD"), Symbol("ETH", "USD")
NATIVES = {
    "binance": ("BTCUSD", "ETHUSD"),
    "kraken": ("BTC/USD", "ETH/USD"),
    "coinbase": ("BTC-USD", "ETH-USD"),
    "upbit": ("KRW-BTC", "KRW-ETH"),
}
CHANNELS = {
    "binance": (
        *("book_deltas", "trades", "agg_trades", "tickers", "book_snapshots", "tickers_24h"),
        "candles_1m",
    ),
    "kraken": ("book_deltas", "trades", "tickers"),
    "coinbase": ("book_deltas", "trades", "tickers"),
    "upbit": ("book_deltas", "trades", "tickers"),
}
_BEGINS = write_levels([("10.5", "1.0"), ("10.4", "2")]), write_levels([("11.5", "1.0")])


def connection(exchange: str) -> Connection:
    """A connection for everything, which it has asked for already."""
    symbols = SymbolMap(exchange, [*zip(NATIVES[exchange], (BTC, ETH), strict=True)])
    wanted = [Subscription(channel, (BTC, ETH)) for channel in CHANNELS[exchange]]
    made = Connection(load(exchange).dialect(symbols), wanted, lambda: 0.5)
    made.start()
    made.opened(0)
    made.take_commands()
    return made


class Both:
    """An exchange on both paths."""

    def __init__(self, exchange: str) -> None:
        with in_python():
            self.python = connection(exchange)
        self.compiled = connection(exchange)

    def receive(self, frames: Sequence[bytes | str]) -> list[Any]:
        """Let both receive frames, together; return the events, which are the same."""
        stamps = list(range(1, len(frames) + 1))
        with in_python():
            told = self._told(self.python, frames, stamps)
        assert self._told(self.compiled, frames, stamps) == told
        events: list[Any] = told[0]
        return events

    def _told(self, of: Connection, frames: Sequence[bytes | str], stamps: list[int]) -> list[Any]:
        of.received_many(frames, stamps)
        for command in of.take_commands():
            if isinstance(command, FetchSnapshot):
                bids, asks = _BEGINS
                book = BookSnapshot(
                    exchange="any", symbol=command.symbol, received_at_ns=0, update_id=10,
                    bids_raw=bids, asks_raw=asks,
                )  # fmt: skip
                of.snapshot_arrived(book)
        events: list[Any] = of.take_events()
        books = [each for each in events if hasattr(each, "bids_raw")]
        numbers = [(as_decimals(each.bids_raw), as_decimals(each.asks_raw)) for each in books]
        assert numbers == [(each.bids, each.asks) for each in books]
        kept = books_of(of)
        quarantined = list(of.quarantine), dict(of.malformed), list(of.refusals)
        of.quarantine.clear()
        return [events, numbers, kept, quarantined, of.take_interruptions()]


def books_of(connection: Connection) -> dict[Symbol, tuple[Any, ...]]:
    """All that shows of a connection's books."""
    return {
        symbol: (book.state, book.reason, book.update_id, book.resyncs, book.wants_snapshot)
        + (() if book.levels is None else _levels(book.levels))
        for symbol, book in connection.books.items()
    }


def _levels(levels: Any) -> tuple[Any, ...]:
    return (levels.texts(), levels.best_bid, levels.best_ask, levels.crossed(), len(levels))
