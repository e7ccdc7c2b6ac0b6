"""Records found by market time: whatever was received when, and however the stream is keyed."""

from itertools import pairwise
from pathlib import Path

import pytest
from tests import events

from penstock.market.events import Candle, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, Span, open_log
from penstock.storage.log.keys import Stream, key_of_id
from penstock.storage.log.spans import Intervals

BTC = Symbol("BTC", "USDT")
TRADES = Stream("sim", "trades", "btc_usdt")
TICKERS = Stream("sim", "tickers", "btc_usdt")
CANDLES = Stream("sim", "candles_1h", "btc_usdt")
HOUR = 3600 * 1_000_000_000
NOON = 472_222 * HOUR


@pytest.fixture(params=["memory", "rocksdb"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    return open_log("memory:" if request.param == "memory" else f"rocksdb:{tmp_path}")


def trade(number: int, at_ns: int, received_at_ns: int) -> Trade:
    return events.trade(number, exchange="sim", at_ns=at_ns, received_at_ns=received_at_ns)


def candle(open_ns: int, received_at_ns: int) -> Candle:
    open_ms = open_ns // 1_000_000
    return events.candle(
        open_ms, "1h", exchange="sim", received_at_ns=received_at_ns, close_ms=open_ms + 3_599_999
    )


def market(since: int | None, until: int | None, rising: bool = False) -> Span:
    """Hours after noon, by the market's time."""
    since_ns, until_ns = (None if at is None else NOON + at * HOUR for at in (since, until))
    return Span(market_since_ns=since_ns, market_until_ns=until_ns, rising=rising)


@pytest.mark.parametrize("rising", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_trades_that_were_fetched_days_later_are_found_by_when_they_happened(
    log: EventLog, rising: bool, reverse: bool
) -> None:
    live, fetcher = log.writer("collect"), log.writer("fetch")
    hours = range(200)
    for hour in hours:
        if not 50 <= hour < 60:  # the hole that is filled below
            live.append([trade(1000 + hour, NOON + hour * HOUR, NOON + hour * HOUR + 5)])
    for hour in (*range(50, 60), 40):
        fetcher.append([trade(1000 + hour, NOON + hour * HOUR, NOON + 500 * HOUR)])
    reader = log.reader()

    for since, until in [
        (45, 55),
        (None, 52),
        (190, None),
        (55, 55),
        (-9, 1),
        (199, 900),
        (300, 1),
    ]:
        found = reader.scan(TRADES, market(since, until, rising), reverse=reverse)
        wanted = [
            h for h in hours if (since is None or h >= since) and (until is None or h < until)
        ]
        ids = [s.event.id - 1000 for s in found if isinstance(s.event, Trade)]
        assert ids == (wanted[::-1] if reverse else wanted)
    first = next(reader.scan(TRADES, market(50, 60, rising), limit=1))
    assert isinstance(first.event, Trade)
    assert first.event.id == 1050
    for each in (reader, live, fetcher):
        each.close()


def test_both_times_can_be_asked_for_at_once(log: EventLog) -> None:
    writer, reader = log.writer("a"), log.reader()
    writer.append([trade(hour, NOON + hour * HOUR, NOON + 500 * HOUR + hour) for hour in range(9)])
    span = market(2, 8)._replace(since_ns=NOON + 500 * HOUR + 5)

    found = [s.event.id for s in reader.scan(TRADES, span) if isinstance(s.event, Trade)]

    assert found == [5, 6, 7]
    writer.close()
    reader.close()


def test_candles_are_found_by_when_they_open(log: EventLog) -> None:
    writer, reader = log.writer("a"), log.reader()
    writer.append([candle(NOON + hour * HOUR, NOON + 900 * HOUR) for hour in range(48)])

    found = [
        s.event.open_ms for s in reader.scan(CANDLES, market(10, 13)) if isinstance(s.event, Candle)
    ]
    later = Span(market_since_ns=NOON + 10 * HOUR + 1, market_until_ns=NOON + 12 * HOUR + 1)

    assert found == [(NOON + hour * HOUR) // 1_000_000 for hour in (10, 11, 12)]
    assert len(list(reader.scan(CANDLES, later))) == 2, "one that opened before is not in it"
    writer.close()
    reader.close()


def test_what_the_exchange_gives_no_time_is_found_by_when_it_was_received(log: EventLog) -> None:
    writer, reader = log.writer("a"), log.reader()
    for hour in range(5):
        at_ns = NOON + hour * HOUR
        writer.append([Ticker(exchange="sim", symbol=BTC, received_at_ns=at_ns, last_text="1")])

    found = [s.received_at_ns for s in reader.scan(TICKERS, market(1, 3))]

    assert found == [NOON + HOUR, NOON + 2 * HOUR]
    writer.close()
    reader.close()


def test_a_search_over_years_gathers_few_intervals_and_misses_no_key() -> None:
    whole = (b"", b"\xff" * 9)
    gathered = Intervals(whole)
    numbers = range(0, 600_000, 6)
    for number in numbers:
        gathered.add((key_of_id(number), key_of_id(number + 3)))

    united = gathered.united()

    assert len(united) <= 4096
    assert all(first[1] < second[0] for first, second in pairwise(united))
    spans = iter(united)
    begin, end = next(spans)
    for number in numbers:
        while end < key_of_id(number + 3):
            begin, end = next(spans)
        assert begin <= key_of_id(number)
