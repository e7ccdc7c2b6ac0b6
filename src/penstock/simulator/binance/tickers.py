"""Implements the ticker endpoints: statistics, last prices, best bids and asks of symbols.

For all of them ``symbol`` returns an object, ``symbols`` or neither a list. Symbols that do not
match ``symbolStatus`` are left out of a list; a single one is refused.
"""

from collections.abc import Callable, Sequence

from penstock.simulator.binance import refusals, windows
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.parameters import MOST_SYMBOLS, Listed, Parameters
from penstock.simulator.binance.windows import Statistics, TickerQuotes, Window
from penstock.simulator.engine.exchange import Query

DAY = ("symbol", "symbols", "type", "symbolStatus")
TRADING_DAY = ("symbol", "symbols", "timeZone", "type", "symbolStatus")
ROLLING = ("symbol", "symbols", "windowSize", "type", "symbolStatus")
SIMPLE = ("symbol", "symbols", "symbolStatus")

Row = Callable[[Instrument], str]


class Tickers:
    """The responses of the ticker endpoints."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def day(self, query: Query, as_of_ms: int) -> bytes:
        """``ticker/24hr``."""
        parameters = Parameters(query, DAY)
        mini, window = parameters.is_mini(), windows.day_up_to(as_of_ms)

        def row(instrument: Instrument) -> str:
            counted = windows.statistics(instrument, window)
            if mini:
                return _mini(counted)
            return _full_day(counted, windows.ticker_quotes(instrument, window))

        return self._answer(parameters, as_of_ms, row)

    def trading_day(self, query: Query, as_of_ms: int) -> bytes:
        """``ticker/tradingDay``."""
        parameters = Parameters(query, TRADING_DAY)
        window = windows.trading_day(as_of_ms, parameters.zone_ms())
        return self._window(parameters, as_of_ms, window)

    def rolling(self, query: Query, as_of_ms: int) -> bytes:
        """``ticker``."""
        parameters = Parameters(query, ROLLING)
        window = windows.rolling_up_to(as_of_ms, parameters.window_ms())
        return self._window(parameters, as_of_ms, window)

    def price(self, query: Query, as_of_ms: int) -> bytes:
        """``ticker/price``."""

        def row(instrument: Instrument) -> str:
            price = windows.last_price(instrument, as_of_ms)
            return f'{{"symbol":"{instrument.symbol}","price":"{price}"}}'

        return self._answer(Parameters(query, SIMPLE), as_of_ms, row)

    def book(self, query: Query, as_of_ms: int) -> bytes:
        """``ticker/bookTicker``."""

        def row(instrument: Instrument) -> str:
            spelling = instrument.spelling
            _, bids, asks = instrument.book.snapshot(as_of_ms, 1)
            (bid, bid_quantity), (ask, ask_quantity) = bids[0], asks[0]
            return (
                f'{{"symbol":"{instrument.symbol}","bidPrice":"{spelling.price(bid)}",'
                f'"bidQty":"{spelling.quantity(bid_quantity)}","askPrice":"{spelling.price(ask)}",'
                f'"askQty":"{spelling.quantity(ask_quantity)}"}}'
            )

        return self._answer(Parameters(query, SIMPLE), as_of_ms, row)

    def _window(self, parameters: Parameters, as_of_ms: int, window: Window) -> bytes:
        if "symbol" not in parameters and parameters.text("symbols") in (None, "[]"):
            raise refusals.missing_either("symbol", "symbols")
        spell = _mini if parameters.is_mini() else _full

        def row(instrument: Instrument) -> str:
            return spell(windows.statistics(instrument, window))

        return self._answer(parameters, as_of_ms, row, most=MOST_SYMBOLS)

    def _answer(
        self, parameters: Parameters, as_of_ms: int, row: Row, most: int | None = None
    ) -> bytes:
        status = parameters.status()
        if "symbol" in parameters and "symbols" in parameters:
            raise refusals.bad_combination()
        if "symbol" in parameters:
            instrument = self._listed.one(parameters, as_of_ms)
            if status not in (None, "TRADING"):
                raise refusals.status_mismatch()
            return row(instrument).encode()
        chosen: Sequence[Instrument]
        if "symbols" in parameters:
            chosen = self._listed.several(parameters, as_of_ms)
        else:
            chosen = self._listed.all(as_of_ms)
        if most is not None and len(chosen) > most:
            raise refusals.invalid("symbols")
        if status not in (None, "TRADING"):
            chosen = ()
        return f"[{','.join(map(row, chosen))}]".encode()


def _full_day(counted: Statistics, quotes: TickerQuotes) -> str:
    return (
        f'{{"symbol":"{counted.symbol}",{_changes(counted)},'
        f'"prevClosePrice":"{quotes.before}","lastPrice":"{counted.last}",'
        f'"lastQty":"{quotes.last_quantity}","bidPrice":"{quotes.bid}",'
        f'"bidQty":"{quotes.bid_quantity}","askPrice":"{quotes.ask}",'
        f'"askQty":"{quotes.ask_quantity}",{_prices(counted)},{_totals(counted)}}}'
    )


def _full(counted: Statistics) -> str:
    return (
        f'{{"symbol":"{counted.symbol}",{_changes(counted)},{_prices(counted)},'
        f'"lastPrice":"{counted.last}",{_totals(counted)}}}'
    )


def _mini(counted: Statistics) -> str:
    return (
        f'{{"symbol":"{counted.symbol}",{_prices(counted)},'
        f'"lastPrice":"{counted.last}",{_totals(counted)}}}'
    )


def _changes(counted: Statistics) -> str:
    return (
        f'"priceChange":"{counted.change}","priceChangePercent":"{counted.change_percent}",'
        f'"weightedAvgPrice":"{counted.average}"'
    )


def _prices(counted: Statistics) -> str:
    return f'"openPrice":"{counted.open}","highPrice":"{counted.high}","lowPrice":"{counted.low}"'


def _totals(counted: Statistics) -> str:
    return (
        f'"volume":"{counted.volume}","quoteVolume":"{counted.quote_volume}",'
        f'"openTime":{counted.opens},"closeTime":{counted.closes},'
        f'"firstId":{counted.first_id},"lastId":{counted.last_id},"count":{counted.trades}'
    )
