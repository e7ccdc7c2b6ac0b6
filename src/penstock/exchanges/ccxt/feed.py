"""Live data from ccxt.pro, which maintains the sockets and books and returns the next events.

ccxt parses and assembles the data. Trades come as they were sent. A book is ccxt's copy at the time
at which it reports a change, so several changes may become one snapshot here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.clock import Clock
from penstock.errors import UnknownChannel
from penstock.exchanges.ccxt.library.calls import book_row, ticker_row, trade_rows
from penstock.exchanges.ccxt.payloads import read_book, read_tickers, read_trades
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import Event
from penstock.market.symbol import Symbol

_WATCHES = {
    "trades": "watchTrades",
    "book_deltas": "watchOrderBook",
    "tickers": "watchTicker",
}
"""Channels, and ccxt's names of the capabilities to stream them."""


def channels_of(has: Mapping[str, Any]) -> tuple[str, ...]:
    """The channels that ccxt.pro streams for an exchange."""
    return tuple(channel for channel, ability in _WATCHES.items() if has.get(ability) is True)


@dataclass(frozen=True)
class CcxtFeed:
    """A ``Feed``."""

    exchange: str
    client: Any
    called: Callable[[Awaitable[Any]], Awaitable[Any]]
    """Awaits a method of the client, and converts its errors to penstock's."""
    symbols: SymbolMap
    clock: Clock
    channels: Sequence[str]

    async def next(self, channel: str, symbol: Symbol, levels: int) -> Sequence[Event]:
        """See ``Feed``."""
        if channel not in self.channels:
            raise UnknownChannel(self.exchange, channel, self.channels)
        client, name = self.client, self.symbols.stream_name(symbol)
        if channel == "trades":
            body = _json(trade_rows(await self.called(client.watch_trades(name))))
            return read_trades(self.exchange, symbol, body, self.clock.now_ns(), "live")
        if channel == "tickers":
            body = _json([ticker_row(await self.called(client.watch_ticker(name)))])
            by_name = {name: symbol}
            return read_tickers(self.exchange, by_name, body, self.clock.now_ns(), "live")
        body = _json(book_row(await self.called(client.watch_order_book(name)), levels))
        return [read_book(self.exchange, symbol, body, self.clock.now_ns(), "live")]


_json = msgspec.json.encode
