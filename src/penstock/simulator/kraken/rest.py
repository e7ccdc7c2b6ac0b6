"""Implements the REST endpoints and their pages of history.

No data is from before the listing or after the time of the request. At most the latest 720 finished
candles are returned, whatever the request; trades are available from the first, in pages that
continue after the time of the last trade.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from penstock.simulator.engine.exchange import Asked, Query, Route
from penstock.simulator.engine.rules import LimitTarget
from penstock.simulator.kraken import parameters, refusals, rules, times
from penstock.simulator.kraken.info import Information
from penstock.simulator.kraken.instrument import DAY_MS, Instrument
from penstock.simulator.kraken.parameters import SECOND_NS, Listed
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Sums, Trade
from penstock.simulator.market.rng import mix

PREFIX = "/0/public/"
INTERVALS = (1, 5, 15, 30, 60, 240, 1440, 10080, 21600)
MINUTE_MS = 60_000
COMMITTED = 720
"""Finished candles that are available."""
MOST_TRADES = 1000
LEVELS, MOST_LEVELS = 100, 500
SPREADS = 200

Answer = Callable[[Query, int], bytes]


def routes(instruments: Sequence[Instrument]) -> dict[str, Route]:
    """All endpoints by path."""
    listed = Listed(instruments)
    information, history = Information(listed), History(listed)
    answers: Mapping[str, Answer] = {
        "Time": server_time,
        "SystemStatus": system_status,
        "Assets": information.assets,
        "AssetPairs": information.pairs,
        "Ticker": history.ticker,
        "OHLC": history.candles,
        "Depth": history.depth,
        "Trades": history.trades,
        "Spread": history.spread,
    }
    by_pair = ("OHLC", "Trades")

    def target(asked: Asked) -> LimitTarget:
        return LimitTarget(rules.PAIR, listed.key(asked.query))

    return {
        PREFIX + name: Route(
            PREFIX + name, _cost, _enveloped(answer), target if name in by_pair else _public
        )
        for name, answer in answers.items()
    }


def server_time(_query: Query, as_of_ms: int) -> bytes:
    """``Time``."""
    text = times.rfc1123(as_of_ms)
    return f'{{"unixtime":{as_of_ms // 1000},"rfc1123":"{text}"}}'.encode()


def system_status(_query: Query, as_of_ms: int) -> bytes:
    """``SystemStatus``."""
    return f'{{"status":"online","timestamp":"{times.iso_second(as_of_ms)}"}}'.encode()


class History:
    """The endpoints of a pair's book, trades and candles."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def ticker(self, query: Query, as_of_ms: int) -> bytes:
        """``Ticker``, of the requested pairs or of all."""
        chosen = self._listed.several(query, as_of_ms)
        rows = [f'"{name}":{_ticker(each, as_of_ms)}' for name, each in chosen.items()]
        return f"{{{','.join(rows)}}}".encode()

    def candles(self, query: Query, as_of_ms: int) -> bytes:
        """``OHLC``: of the latest finished candles and the current one, those after ``since``."""
        name, instrument = self._listed.one(query, as_of_ms)
        step_ms = MINUTE_MS * parameters.number(query, "interval", 1, INTERVALS)
        since_ns = parameters.since_ns(query)
        numbers, sums = candles(instrument, step_ms, COMMITTED + 1, as_of_ms)
        after_s = -1 if since_ns is None else since_ns // SECOND_NS
        rows = [
            _candle(instrument, number * step_ms // 1000, each)
            for number, each in zip(numbers, sums, strict=True)
            if number * step_ms // 1000 > after_s
        ]
        committed = max(numbers[-1] - 1, numbers[0]) * step_ms // 1000
        return f'{{"{name}":[{",".join(rows)}],"last":{committed}}}'.encode()

    def depth(self, query: Query, as_of_ms: int) -> bytes:
        """``Depth``."""
        name, instrument = self._listed.one(query, as_of_ms)
        count = parameters.number(query, "count", LEVELS, range(1, MOST_LEVELS + 1))
        book, spelling = instrument.book, instrument.spelling
        update_id = book.update_id(as_of_ms // Book.SLOT_MS - 1)
        # The time of each level is that of the book's last change, since none is kept per level.
        changed_s = ((update_id >> 6) + 1) * Book.SLOT_MS // 1000
        asks, bids = (
            ",".join(
                f'["{spelling.long_price(price)}","{spelling.resting(quantity)}",{changed_s}]'
                for price, quantity in side
            )
            for side in reversed(book.at(update_id, count))
        )
        return f'{{"{name}":{{"asks":[{asks}],"bids":[{bids}]}}}}'.encode()

    def trades(self, query: Query, as_of_ms: int) -> bytes:
        """``Trades``: the oldest after ``since``, or the latest."""
        name, instrument = self._listed.one(query, as_of_ms)
        count = parameters.number(query, "count", MOST_TRADES, range(1, MOST_TRADES + 1))
        since_ns, market = parameters.since_ns(query), instrument.market
        end = market.id_at(as_of_ms + 1)
        if since_ns is None:
            first = end - count
        else:
            # ``since`` is limited to the time of the request, after which there are no trades.
            first = times.first_after(market, min(since_ns, (as_of_ms + 1) * times.MS_NS))
        ids = range(max(1, first), end)[:count]
        trades = market.trades(ids.start, len(ids))
        instants = list(times.trade_times(market, trades))
        rows = [_trade(instrument, *each) for each in zip(trades, instants, strict=True)]
        last_ns = instants[-1] if instants else since_ns or 0
        return f'{{"{name}":[{",".join(rows)}],"last":"{last_ns}"}}'.encode()

    def spread(self, query: Query, as_of_ms: int) -> bytes:
        """``Spread``: of the latest changes of the best bid and ask, those after ``since``."""
        name, instrument = self._listed.one(query, as_of_ms)
        since_ns, market = parameters.since_ns(query), instrument.market
        after_s = -1 if since_ns is None else since_ns // SECOND_NS
        end = market.id_at(as_of_ms + 1)
        trades = market.trades(max(1, end - SPREADS), min(SPREADS, end - 1))
        price = instrument.spelling.long_price
        rows = []
        for at_ms in dict.fromkeys(
            trade.at_ms for trade in trades if trade.at_ms // 1000 > after_s
        ):
            (bid, _), (ask, _) = instrument.touch(at_ms)
            rows.append(f'[{at_ms // 1000},"{price(bid)}","{price(ask)}"]')
        last_s = trades[-1].at_ms // 1000 if trades else 0
        return f'{{"{name}":[{",".join(rows)}],"last":{last_s}}}'.encode()


def candles(
    instrument: Instrument, step_ms: int, most: int, as_of_ms: int
) -> tuple[range, list[Sums]]:
    """The numbers and sums of the latest candles, the last one up to ``as_of_ms``."""
    running = as_of_ms // step_ms
    numbers = range(max(instrument.listed_at_ms // step_ms, running + 1 - most), running + 1)
    # A long candle may open before the listing; its sums begin at the listing.
    borders = [max(number * step_ms, instrument.listed_at_ms) for number in numbers]
    market = instrument.market
    return numbers, [*market.candles(borders), market.sums(borders[-1], as_of_ms + 1)]


def _ticker(instrument: Instrument, as_of_ms: int) -> str:
    spelling, market = instrument.spelling, instrument.market
    price, quantity = spelling.long_price, spelling.quantity
    last = market.last_before(as_of_ms + 1)
    # "Today" begins at midnight UTC.
    starts_ms = (as_of_ms - as_of_ms % DAY_MS, as_of_ms + 1 - DAY_MS)
    today, day = (
        market.sums(max(start_ms, instrument.listed_at_ms), as_of_ms + 1) for start_ms in starts_ms
    )
    (bid, bid_lots), (ask, ask_lots) = instrument.touch(as_of_ms)

    def offer(at: int, lots: int) -> list[str]:
        return [price(at), spelling.whole_lots(lots), spelling.resting(lots)]

    return msgspec.json.encode(
        {
            "a": offer(ask, ask_lots),
            "b": offer(bid, bid_lots),
            "c": [price(last.price), quantity(last.quantity)],
            "v": [quantity(today.volume), quantity(day.volume)],
            "p": [price(spelling.average(today)), price(spelling.average(day))],
            "t": [today.trades, day.trades],
            "l": [price(today.low), price(day.low)],
            "h": [price(today.high), price(day.high)],
            "o": price(today.open),
        }
    ).decode()


def _candle(instrument: Instrument, open_s: int, sums: Sums) -> str:
    price, spelling = instrument.spelling.price, instrument.spelling
    return (
        f'[{open_s},"{price(sums.open)}","{price(sums.high)}","{price(sums.low)}",'
        f'"{price(sums.close)}","{price(spelling.average(sums))}",'
        f'"{spelling.quantity(sums.volume)}",{sums.trades}]'
    )


def _trade(instrument: Instrument, trade: Trade, at_ns: int) -> str:
    seconds, rest_ns = divmod(at_ns, SECOND_NS)
    spelling = instrument.spelling
    return (
        f'["{spelling.long_price(trade.price)}","{spelling.quantity(trade.quantity)}",'
        f'{seconds}.{rest_ns // 100:07},"{"b" if trade.taker_buys else "s"}",'
        f'"{order_type(trade)[0]}","",{trade.id}]'
    )


def order_type(trade: Trade) -> str:
    """The type of the taker's order; three in four are limit orders."""
    return "limit" if mix(trade.id) & 3 else "market"


def _enveloped(answer: Answer) -> Callable[[Asked, int], bytes]:
    def enveloped(asked: Asked, as_of_ms: int) -> bytes:
        return refusals.result(answer(asked.query, as_of_ms))

    return enveloped


def _cost(_query: Query) -> int:
    return 1


def _public(_asked: Asked) -> LimitTarget:
    return LimitTarget(rules.PUBLIC)
