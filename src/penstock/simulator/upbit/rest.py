"""Implements the REST endpoints. No data is from before the listing or after the request."""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from penstock.simulator.engine.exchange import Asked, Query, Route
from penstock.simulator.engine.rules import LimitTarget
from penstock.simulator.market.market import Trade
from penstock.simulator.upbit import refusals
from penstock.simulator.upbit.candles import MOST_CANDLES, Page, candles, closing_price, row
from penstock.simulator.upbit.instrument import DAY_MS, IDS_PER_MS, Instrument, book_time_ms
from penstock.simulator.upbit.names import names_of
from penstock.simulator.upbit.parameters import Listed, clock_ms, count, instant_ms, whole
from penstock.simulator.upbit.periods import MINUTES, Period
from penstock.simulator.upbit.rules import ORIGIN, HistoryDepth
from penstock.simulator.upbit.spelling import utc
from penstock.simulator.upbit.ticker import rest_ticker

MOST_TRADES, MOST_UNITS, MOST_DAYS_AGO = 500, 30, 7
PREFIX = "/v1"

_CAUTIONS = (
    "PRICE_FLUCTUATIONS",
    "TRADING_VOLUME_SOARING",
    "DEPOSIT_AMOUNT_SOARING",
    "GLOBAL_PRICE_DIFFERENCES",
    "CONCENTRATION_OF_SMALL_ACCOUNTS",
)

Answer = Callable[[Query, int], bytes]


def routes(instruments: Sequence[Instrument], history_depth: HistoryDepth) -> dict[str, Route]:
    """All endpoints by path, with the history that ``history_depth`` makes available."""
    listed = Listed(instruments)
    found: dict[str, tuple[str, Answer]] = {
        "/market/all": ("market", partial(_markets, listed)),
        "/trades/ticks": ("trade", partial(_trades, listed, history_depth)),
        "/orderbook": ("orderbook", partial(_books, listed)),
        "/orderbook/instruments": ("orderbook", partial(_steps, listed)),
        "/ticker": ("ticker", partial(_tickers, listed.several)),
        "/ticker/all": ("ticker", partial(_tickers, listed.quoted_in)),
        "/candles/minutes/{unit}": ("candle", partial(_minutes, listed, history_depth)),
    }
    for kind in ("seconds", "days", "weeks", "months", "years"):
        answer = partial(_candles, listed, history_depth, Period(kind))
        found[f"/candles/{kind}"] = ("candle", answer)
    return {
        PREFIX + path: Route(PREFIX + path, _cost, partial(_answered, answer), _placed_in(group))
        for path, (group, answer) in found.items()
    }


def _cost(_query: Query) -> int:
    return 1


def _answered(answer: Answer, asked: Asked, as_of_ms: int) -> bytes:
    return answer(asked.query, as_of_ms)


def _placed_in(group: str) -> Callable[[Asked], LimitTarget]:
    def target(asked: Asked) -> LimitTarget:
        # Requests from a browser's page are counted separately, with a far lower limit.
        return LimitTarget(ORIGIN if "Origin" in asked.headers else group)

    return target


def _markets(listed: Listed, query: Query, as_of_ms: int) -> bytes:
    details = query.get("is_details", query.get("isDetails")) == "true"
    rows = []
    for each in listed.all(as_of_ms):
        korean, english = names_of(each.market.listing.base)
        entry: dict[str, object] = {
            "market": each.code,
            "korean_name": korean,
            "english_name": english,
        }
        if details:
            caution = dict.fromkeys(_CAUTIONS, False)
            entry["market_event"] = {"warning": False, "caution": caution}
        rows.append(entry)
    return msgspec.json.encode(rows)


def _minutes(listed: Listed, history_depth: HistoryDepth, query: Query, as_of_ms: int) -> bytes:
    if query["unit"] not in map(str, MINUTES):
        raise refusals.invalid("unit")
    return _candles(listed, history_depth, Period("minutes", int(query["unit"])), query, as_of_ms)


def _candles(
    listed: Listed, history_depth: HistoryDepth, period: Period, query: Query, as_of_ms: int
) -> bytes:
    instrument = listed.one(query, as_of_ms)
    before_ms = instant_ms(query, "to")
    page = Page(
        period,
        as_of_ms + 1 if before_ms is None else before_ms,
        count(query, MOST_CANDLES),
        as_of_ms - history_depth.second_candles_ms if period.kind == "seconds" else 0,
    )
    converts = query.get("converting_price_unit", query.get("convertingPriceUnit")) == "KRW"
    found = candles(instrument, page, as_of_ms)
    rows = [row(instrument, period, each, converts) for each in found]
    return f"[{','.join(rows)}]".encode()


def _trades(listed: Listed, history_depth: HistoryDepth, query: Query, as_of_ms: int) -> bytes:
    """Trades of a day, latest first: today's, or those of one of the last seven days."""
    instrument, most = listed.one(query, as_of_ms), count(query, MOST_TRADES)
    days_ago, cursor = whole(query, "days_ago", "daysAgo"), whole(query, "cursor")
    if days_ago is not None and not 1 <= days_ago <= MOST_DAYS_AGO:
        raise refusals.invalid("days_ago")
    today_ms = as_of_ms - as_of_ms % DAY_MS
    day_ms = today_ms - (days_ago or 0) * DAY_MS
    clock = clock_ms(query, "to")
    end_ms = min(as_of_ms + 1, day_ms + (DAY_MS if clock is None else clock))
    start_ms = day_ms if history_depth.pages_end_at_midnight else today_ms - MOST_DAYS_AGO * DAY_MS
    market = instrument.market
    end = market.id_at(end_ms)
    if cursor is not None:
        # A cursor after the end of the page has no effect.
        end = min(end, instrument.first_id_not_before(min(cursor, end_ms * IDS_PER_MS)))
    first = max(market.id_at(start_ms), end - most)
    rows = [_trade(instrument, trade) for trade in market.trades(first, end - first)]
    return f"[{','.join(rows[::-1])}]".encode()


def _trade(instrument: Instrument, trade: Trade) -> str:
    spelling, before = instrument.spelling, closing_price(instrument, trade.at_ms)
    date, _, time = utc(trade.at_ms).partition("T")
    return (
        f'{{"market":"{instrument.code}","trade_date_utc":"{date}","trade_time_utc":"{time}",'
        f'"timestamp":{trade.at_ms},"trade_price":{spelling.price(trade.price)},'
        f'"trade_volume":{spelling.volume(trade.quantity)},'
        f'"prev_closing_price":{spelling.price(before)},'
        f'"change_price":{spelling.price(trade.price - before)},'
        f'"ask_bid":"{"BID" if trade.taker_buys else "ASK"}",'
        f'"sequential_id":{instrument.sequential_id(trade)}}}'
    )


def _books(listed: Listed, query: Query, as_of_ms: int) -> bytes:
    chosen = listed.several(query, as_of_ms)
    if query.get("level", "0") not in ("0", "0.0"):
        return b"[]"
    asked = whole(query, "count")
    shown = asked if asked is not None and 1 <= asked <= MOST_UNITS else MOST_UNITS
    return f"[{','.join(_book(each, shown, as_of_ms) for each in chosen)}]".encode()


def _book(instrument: Instrument, shown: int, as_of_ms: int) -> str:
    update_id = instrument.update_id_at(as_of_ms)
    bids, asks = instrument.book.at(update_id, MOST_UNITS)
    price, volume = instrument.spelling.price, instrument.spelling.volume
    units = [
        f'{{"ask_price":{price(ask)},"bid_price":{price(bid)},'
        f'"ask_size":{volume(ask_size)},"bid_size":{volume(bid_size)}}}'
        for (bid, bid_size), (ask, ask_size) in zip(bids[:shown], asks[:shown], strict=True)
    ]
    total_ask, total_bid = (sum(size for _, size in side) for side in (asks, bids))
    return (
        f'{{"market":"{instrument.code}","timestamp":{book_time_ms(update_id)},'
        f'"total_ask_size":{volume(total_ask)},"total_bid_size":{volume(total_bid)},'
        f'"orderbook_units":[{",".join(units)}],"level":0}}'
    )


def _steps(listed: Listed, query: Query, as_of_ms: int) -> bytes:
    rows = [
        f'{{"market":"{each.code}","quote_currency":"{each.market.listing.quote}",'
        f'"tick_size":{each.spelling.price(1)},"supported_levels":["0"]}}'
        for each in listed.several(query, as_of_ms)
    ]
    return f"[{','.join(rows)}]".encode()


def _tickers(
    choose: Callable[[Query, int], list[Instrument]], query: Query, as_of_ms: int
) -> bytes:
    rows = [rest_ticker(each, as_of_ms) for each in choose(query, as_of_ms)]
    return f"[{','.join(rows)}]".encode()
