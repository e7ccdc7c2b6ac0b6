"""Implements the REST endpoints, their weights, and the pages of history.

All lists select rows by time alike: the latest rows without a range, the oldest rows from
``startTime`` on, the latest rows up to ``endTime`` if only that is given. No rows are from before
the listing or after the time of the request; the candle of that time is returned unfinished.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.simulator.binance import refusals, weights, windows
from penstock.simulator.binance.info import Information
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.parameters import Listed, Parameters
from penstock.simulator.binance.periods import Period
from penstock.simulator.binance.rules import Limits
from penstock.simulator.binance.spelling import Kline
from penstock.simulator.binance.tickers import Tickers
from penstock.simulator.binance.units import HEADER, MILLISECOND, TimeUnit, time_unit
from penstock.simulator.engine.exchange import Asked, Query, Route
from penstock.simulator.market.pieces import PIECE, Work, finished

PREFIX = "/api/v3/"
ROWS, MOST_ROWS = 500, 1000
LEVELS, MOST_LEVELS = 100, 5000

KLINES = ("symbol", "interval", "startTime", "endTime", "timeZone", "limit")

Cost = Callable[[Query], int]
Answered = bytes | Work[bytes]
Answer = Callable[[Query, int], Answered]


def routes(by_unit: Mapping[TimeUnit, Sequence[Instrument]], limits: Limits) -> dict[str, Route]:
    """All endpoints by path, for the same instruments in each time unit."""
    usual = by_unit[MILLISECOND]
    information = Information(Listed(usual), usual, limits)
    answers = {
        unit: _answers(unit, Listed(instruments), information)
        for unit, instruments in by_unit.items()
    }
    return {
        PREFIX + name: Route(
            PREFIX + name, cost, _in_unit_asked({unit: answers[unit][name] for unit in answers})
        )
        for name, cost in _COSTS.items()
    }


def _answers(unit: TimeUnit, listed: Listed, information: Information) -> Mapping[str, Answer]:
    history, tickers = History(listed), Tickers(listed)
    return {
        "ping": ping,
        "time": partial(server_time, unit),
        "exchangeInfo": partial(information.answer, unit),
        "depth": history.depth,
        "trades": history.trades,
        "historicalTrades": history.historical_trades,
        "aggTrades": history.agg_trades,
        "klines": history.klines,
        "uiKlines": history.klines,
        "avgPrice": history.average_price,
        "ticker/24hr": tickers.day,
        "ticker/tradingDay": tickers.trading_day,
        "ticker": tickers.rolling,
        "ticker/price": tickers.price,
        "ticker/bookTicker": tickers.book,
    }


def _in_unit_asked(
    answers: Mapping[TimeUnit, Answer],
) -> Callable[[Asked, int], Answered]:
    def answer(asked: Asked, as_of_ms: int) -> Answered:
        return answers[time_unit(asked.headers.get(HEADER))](asked.query, as_of_ms)

    return answer


def ping(query: Query, _as_of_ms: int) -> bytes:
    """``ping``."""
    Parameters(query)
    return b"{}"


def server_time(unit: TimeUnit, query: Query, as_of_ms: int) -> bytes:
    """``time``."""
    Parameters(query)
    return f'{{"serverTime":{unit.instant % as_of_ms}}}'.encode()


class History:
    """The endpoints of one symbol's book, trades and candles."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def depth(self, query: Query, as_of_ms: int) -> Answered:
        """``depth``."""
        parameters = Parameters(query, ("symbol", "limit", "symbolStatus"), ("symbol",))
        instrument = self._listed.one(parameters, as_of_ms)
        limit, status = parameters.limit(LEVELS, MOST_LEVELS), parameters.status()
        if status not in (None, "TRADING"):
            raise refusals.status_mismatch()
        work = _depth(instrument, limit, as_of_ms)
        return work if limit > PIECE else finished(work)

    def trades(self, query: Query, as_of_ms: int) -> bytes:
        """``trades``: the latest."""
        return self._trades(Parameters(query, ("symbol", "limit"), ("symbol",)), as_of_ms)

    def historical_trades(self, query: Query, as_of_ms: int) -> bytes:
        """``historicalTrades``: from an id on, or the latest."""
        parameters = Parameters(query, ("symbol", "limit", "fromId"), ("symbol",))
        return self._trades(parameters, as_of_ms)

    def _trades(self, parameters: Parameters, as_of_ms: int) -> bytes:
        instrument = self._listed.one(parameters, as_of_ms)
        limit, from_id = parameters.limit(ROWS, MOST_ROWS), parameters.number("fromId")
        end = instrument.market.id_at(as_of_ms + 1)
        first = end - limit if from_id is None else from_id
        ids = _page(range(max(1, first), end), limit)
        return instrument.spelling.trades(instrument.market.trades(ids.start, len(ids)))

    def agg_trades(self, query: Query, as_of_ms: int) -> bytes:
        """``aggTrades``: from an id on, or by time."""
        accepted = ("symbol", "fromId", "startTime", "endTime", "limit")
        parameters = Parameters(query, accepted, ("symbol",))
        instrument = self._listed.one(parameters, as_of_ms)
        limit, from_id = parameters.limit(ROWS, MOST_ROWS), parameters.number("fromId")
        start_ms, end_ms = parameters.start_ms(), parameters.end_ms()
        if from_id is not None and (start_ms is not None or end_ms is not None):
            raise refusals.bad_combination()
        market = instrument.market
        end = market.agg_id_at(_at_most(end_ms, as_of_ms) + 1)
        if from_id is not None:
            first = from_id
        elif start_ms is not None:
            first = market.agg_id_at(min(start_ms, as_of_ms + 1))
        else:
            first = end - limit
        ids = _page(range(max(1, first), end), limit)
        return instrument.spelling.agg_trades(market.agg_trades(ids.start, len(ids)))

    def klines(self, query: Query, as_of_ms: int) -> bytes:
        """``klines`` and ``uiKlines``."""
        parameters = Parameters(query, KLINES, ("symbol", "interval"))
        instrument = self._listed.one(parameters, as_of_ms)
        period, limit = parameters.period(), parameters.limit(ROWS, MOST_ROWS)
        start_ms, end_ms = parameters.start_ms(), parameters.end_ms()
        first = period.number(instrument.listed_at_ms)
        end = period.number(_at_most(end_ms, as_of_ms)) + 1
        if start_ms is None:
            first = max(first, end - limit)
        else:
            # A candle belongs to the range if it opens within it.
            first = max(first, period.number(min(start_ms, as_of_ms + 1) - 1) + 1)
        numbers = _page(range(first, end), limit)
        return instrument.spelling.klines(klines(instrument, period, numbers, as_of_ms))

    def average_price(self, query: Query, as_of_ms: int) -> bytes:
        """``avgPrice``."""
        parameters = Parameters(query, ("symbol",), ("symbol",))
        instrument = self._listed.one(parameters, as_of_ms)
        price, last = windows.average_price(instrument, as_of_ms)
        minutes = windows.AVERAGE_MINUTES
        return f'{{"mins":{minutes},"price":"{price}","closeTime":{last}}}'.encode()


def _depth(instrument: Instrument, limit: int, as_of_ms: int) -> Work[bytes]:
    book, levels = instrument.book, instrument.spelling.levels
    update_id = book.snapshot_id(as_of_ms)
    sides = yield from book.at_in_turns(update_id, limit)
    # A side takes a few milliseconds to format, however long it is.
    bids = levels(sides[0])
    yield
    return f'{{"lastUpdateId":{update_id},"bids":{bids},"asks":{levels(sides[1])}}}'.encode()


def klines(instrument: Instrument, period: Period, numbers: range, as_of_ms: int) -> list[Kline]:
    """Consecutive candles; one that has not closed has the trades up to ``as_of_ms``."""
    if not numbers:
        return []
    borders = [period.open_ms(number) for number in range(numbers.start, numbers.stop + 1)]
    # A week or a month may open before the listing; its sums begin at the listing.
    counted = [max(borders[0], instrument.listed_at_ms), *borders[1:]]
    if borders[-1] <= as_of_ms + 1:
        sums = instrument.market.candles(counted)
    else:
        running = instrument.market.sums(counted[-2], as_of_ms + 1)
        sums = [*instrument.market.candles(counted[:-1]), running]
    closes = (border - 1 for border in borders[1:])
    return list(map(Kline, borders, closes, sums))


def _at_most(end_ms: int | None, as_of_ms: int) -> int:
    return as_of_ms if end_ms is None else min(end_ms, as_of_ms)


def _page(rows: range, limit: int) -> range:
    return rows[:limit]


def _flat(weight: int) -> Cost:
    def cost(_query: Query) -> int:
        return weight

    return cost


_COSTS: Mapping[str, Cost] = {
    "ping": _flat(1),
    "time": _flat(1),
    "exchangeInfo": _flat(20),
    "depth": weights.depth,
    "trades": _flat(25),
    "historicalTrades": _flat(25),
    "aggTrades": _flat(4),
    "klines": _flat(2),
    "uiKlines": _flat(2),
    "avgPrice": _flat(2),
    "ticker/24hr": weights.day,
    "ticker/tradingDay": weights.window,
    "ticker": weights.window,
    "ticker/price": weights.simple,
    "ticker/bookTicker": weights.simple,
}
