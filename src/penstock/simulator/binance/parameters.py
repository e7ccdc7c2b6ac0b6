"""Validates a request's parameters as strictly as Binance does.

The checks are in the exchange's order: too many parameters, empty ones, mandatory ones, unknown
ones, then each value's form and each value's meaning. A repeated parameter arrives as one value
with a comma, which is an illegal character; Binance responds with -1101 instead.
"""

import re
from collections.abc import Mapping, Sequence

from penstock.simulator.binance import refusals
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import LENGTHS_MS, Period, window_ms, zone_ms
from penstock.simulator.engine.exchange import Query

STATUSES = ("TRADING", "HALT", "BREAK")
MOST_SYMBOLS = 100

_NUMBER = re.compile(r"[0-9]{1,20}")
_ONE_SYMBOL = r"(?:(?![a-z])[\w\-.]){1,50}"
_SYMBOL = re.compile(_ONE_SYMBOL)
_SYMBOLS = re.compile(rf'\[(?:"{_ONE_SYMBOL}"(?:,"{_ONE_SYMBOL}")*)?\]')
# Times may be sent in ms or in µs; only their size distinguishes them.
_LEAST_MICROSECONDS = 10**14


class Parameters:
    """The parameters of one request to an endpoint with the parameters ``accepted``."""

    def __init__(
        self, query: Query, accepted: Sequence[str] = (), mandatory: Sequence[str] = ()
    ) -> None:
        self._query = query
        if len(query) > len(accepted):
            raise refusals.too_many(len(accepted), len(query))
        for name, value in query.items():
            if not value:
                raise refusals.empty(name)
        for name in mandatory:
            if name not in query:
                raise refusals.missing(name)
        known = sum(name in accepted for name in query)
        if known < len(query):
            raise refusals.unread(known, len(query))

    def __contains__(self, name: str) -> bool:
        return name in self._query

    def text(self, name: str) -> str | None:
        """The value as sent."""
        return self._query.get(name)

    def number(self, name: str) -> int | None:
        """The value as a whole number."""
        value = self._query.get(name)
        if value is None:
            return None
        if not _NUMBER.fullmatch(value):
            raise refusals.illegal_characters(name, refusals.LEGAL_NUMBER)
        return int(value)

    def limit(self, default: int, most: int) -> int:
        """The number of rows; more than ``most`` are reduced to ``most`` without an error."""
        limit = self.number("limit")
        if limit == 0:
            raise refusals.invalid("limit")
        return default if limit is None else min(limit, most)

    def start_ms(self) -> int | None:
        """``startTime``: the first ms of the range."""
        time = self.number("startTime")
        return time if time is None or time < _LEAST_MICROSECONDS else -(-time // 1000)

    def end_ms(self) -> int | None:
        """``endTime``: the last ms of the range."""
        time = self.number("endTime")
        return time if time is None or time < _LEAST_MICROSECONDS else time // 1000

    def one_of(self, name: str, values: Sequence[str]) -> str | None:
        """The value, which must be one of ``values``."""
        value = self._query.get(name)
        if value is not None and value not in values:
            raise refusals.invalid(name)
        return value

    def period(self) -> Period:
        """``interval`` and ``timeZone``."""
        interval = self._query["interval"]
        if interval not in LENGTHS_MS:
            raise refusals.bad_interval()
        return Period(interval, self.zone_ms())

    def zone_ms(self) -> int:
        """``timeZone`` as an offset."""
        offset_ms = zone_ms(self._query.get("timeZone", "0"))
        if offset_ms is None:
            raise refusals.invalid("timeZone")
        return offset_ms

    def window_ms(self) -> int:
        """``windowSize``, by default a day."""
        length_ms = window_ms(self._query.get("windowSize", "1d"))
        if length_ms is None:
            raise refusals.invalid("windowSize")
        return length_ms

    def status(self) -> str | None:
        """``symbolStatus``."""
        status = self._query.get("symbolStatus")
        if status is not None and status not in STATUSES:
            raise refusals.bad_status()
        return status

    def is_mini(self) -> bool:
        """Whether ``type`` requests the short form of a ticker."""
        kind = self._query.get("type", "FULL")
        if kind not in ("FULL", "MINI"):
            raise refusals.bad_ticker_type()
        return kind == "MINI"


class Listed:
    """The symbols of an exchange by name and time; a symbol is unknown before its listing."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._by_symbol: Mapping[str, Instrument] = {each.symbol: each for each in instruments}

    def all(self, as_of_ms: int) -> list[Instrument]:
        """All symbols listed at a time."""
        return [each for each in self._by_symbol.values() if each.listed_at_ms <= as_of_ms]

    def one(self, parameters: Parameters, as_of_ms: int) -> Instrument:
        """The instrument of the parameter ``symbol``."""
        symbol = parameters.text("symbol")
        if symbol is None:
            raise refusals.missing("symbol")
        if not _SYMBOL.fullmatch(symbol):
            raise refusals.illegal_characters("symbol", refusals.LEGAL_SYMBOL)
        return self._find(symbol, as_of_ms)

    def several(self, parameters: Parameters, as_of_ms: int) -> list[Instrument]:
        """The instruments of the parameter ``symbols``, in the order of the list."""
        symbols = symbol_names(parameters.text("symbols") or "")
        if symbols is None:
            raise refusals.illegal_characters("symbols", refusals.LEGAL_SYMBOLS)
        if len(set(symbols)) < len(symbols):
            raise refusals.duplicate_symbols()
        return [self._find(symbol, as_of_ms) for symbol in symbols]

    def _find(self, symbol: str, as_of_ms: int) -> Instrument:
        instrument = self._by_symbol.get(symbol)
        if instrument is None or instrument.listed_at_ms > as_of_ms:
            raise refusals.bad_symbol()
        return instrument


def symbol_names(text: str) -> list[str] | None:
    """The names in a list such as ``["BTCUSDT","BNBBTC"]``; None if it is not one.

    Binance does not accept spaces between them.
    """
    if not _SYMBOLS.fullmatch(text):
        return None
    return [part.strip('"') for part in text[1:-1].split(",") if part]
