"""Requests that name one of ccxt's methods, and readers of the results.

How many HTTP requests a method sends is up to ccxt. Each acquires tokens when it is sent, by ccxt's
own table of costs. The cost given here is the usual cost of one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.errors import UnknownInterval
from penstock.exchanges.base import Info, MarketProgress, Request, TradePage
from penstock.exchanges.ccxt.limits import UNITS
from penstock.exchanges.ccxt.payloads import (
    read_book,
    read_candles,
    read_info,
    read_tickers,
    read_time,
    read_trades,
)
from penstock.exchanges.progress import last_trade_only, levels, progress_request
from penstock.exchanges.rest_rows import candle_page
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

R = TypeVar("R")
_MS_NS = 1_000_000

CANDLES = "/fetch_ohlcv"
TIME: Request[int] = Request("/fetch_time", UNITS, read_time)


def info_of(exchange: str) -> Request[Info]:
    """The request for an exchange's market listing."""
    return Request("/load_markets", UNITS, lambda body, _at_ns: read_info(exchange, body))


@dataclass(frozen=True)
class CcxtRest:
    """Requests to an exchange through ccxt. See ``Rest``."""

    exchange: str
    intervals: tuple[str, ...]
    candle_page: int
    """The most candles per request."""
    symbols: SymbolMap

    def book(self, symbol: Symbol, _depth: int = 0) -> Request[BookSnapshot]:
        """A book of the exchange's default depth: it rejects most other depths."""
        return self._request_for(
            "/fetch_order_book",
            symbol,
            lambda body, at_ns: read_book(self.exchange, symbol, body, at_ns, "rest"),
        )

    def recent_trades(self, symbol: Symbol, limit: int = 100) -> Request[list[Trade]]:
        """The newest trades. ccxt gets no limit: with one some exchanges return the oldest."""
        return self._request_for(
            "/fetch_trades",
            symbol,
            lambda body, at_ns: read_trades(self.exchange, symbol, body, at_ns, "rest")[-limit:],
        )

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades after a time in nanoseconds, as far back as the exchange allows.

        With an exchange that returns only its newest trades it begins later; ccxt does not report
        that.
        """
        since_ms = (cursor + _MS_NS) // _MS_NS

        def read(body: bytes, received_at_ns: int) -> TradePage:
            found = read_trades(self.exchange, symbol, body, received_at_ns, source)
            return _page([each for each in found if each.at_ms >= since_ms], cursor)

        return self._request_for("/fetch_trades", symbol, read, since=since_ms)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """Candles that begin in [start, end), at most a page; the last may still be running."""
        if interval.text not in self.intervals:
            raise UnknownInterval(interval.text, self.intervals)
        since_ms, count = candle_page(interval, start_ms, end_ms, self.candle_page)

        def read(body: bytes, received_at_ns: int) -> list[Candle]:
            found = read_candles(self.exchange, symbol, interval, body, received_at_ns)
            return [each for each in found if start_ms <= each.open_ms < end_ms]

        return self._request_for(
            CANDLES, symbol, read, timeframe=interval.text, since=since_ms, limit=count
        )

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The tickers of these markets; of all markets if none is given."""
        by_name = {self.symbols.stream_name(symbol): symbol for symbol in symbols or self.symbols}

        def read(body: bytes, received_at_ns: int) -> list[Ticker]:
            return read_tickers(self.exchange, by_name, body, received_at_ns, "rest")

        params = {"symbols": ",".join(by_name)} if symbols else {}
        return Request("/fetch_tickers", UNITS, read, params)

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade, or a book's levels. No id: ids in streams and responses may differ."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol), levels)
        return progress_request(self.recent_trades(symbol), last_trade_only)

    def _request_for(
        self, path: str, symbol: Symbol, read: Callable[[bytes, int], R], **params: str | int
    ) -> Request[R]:
        return Request(path, UNITS, read, {"symbol": self.symbols.stream_name(symbol), **params})


def _page(trades: list[Trade], cursor: int) -> TradePage:
    """Trades before the last millisecond, which may be incomplete and begins the next page."""
    if not trades:
        return TradePage([], cursor)
    last_ms = trades[-1].at_ms
    if trades[0].at_ms == last_ms:
        return TradePage(trades, (last_ms + 1) * _MS_NS - 1)
    whole = [each for each in trades if each.at_ms < last_ms]
    return TradePage(whole, last_ms * _MS_NS - 1)
