"""Kraken's dialect: one answer per stream, numbers in the wire's digits, and nothing raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.errors import UnknownChannel, UnknownSymbol
from penstock.exchanges.kraken.stream import LARGEST_FRAME, KrakenDialect
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.events import BookDelta, BookSnapshot, Candle, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Ack, Dialect, Malformed, Refusal

BTC, MINA = Symbol("BTC", "USD"), Symbol("MINA", "GBP")
APPLE = Symbol("AAPLX", "USD")
SYMBOLS = SymbolMap(
    "kraken",
    [
        ListedMarket("XXBTZUSD", BTC, "BTC/USD"),
        ListedMarket("MINAGBP", MINA, "MINA/GBP"),
        ListedMarket("AAPLxUSD", APPLE, "AAPLx/USD"),
    ],
)
AT_NS = 1_700_000_000_000_000_000
TRADE = (
    '{"symbol":"MINA/GBP","side":"sell","price":0.5117,"qty":40.00000000,"ord_type":"market",'
    '"trade_id":4665906,"timestamp":"2023-09-25T07:49:37.708706Z"}'
)
BOOK = (
    '{"channel":"book","type":"snapshot","data":[{"symbol":"MINA/GBP","bids":[{"price":0.0286,'
    '"qty":74198.19125726},{"price":0.0280,"qty":1.00000000}],"asks":[{"price":0.0287,"qty":0.5}],'
    '"checksum":2570005138,"timestamp":"2026-08-16T23:37:04.190019Z"}]}'
)


def dialect(*channels: str) -> KrakenDialect:
    made = KrakenDialect(SYMBOLS)
    for channel in channels or ("trades", "book_deltas", "tickers", "candles_1m", "candles_5m"):
        made.streams(channel, [BTC, MINA])
    return made


def trades(*rows: str, kind: str = "update") -> str:
    return f'{{"channel":"trade","type":"{kind}","data":[{",".join(rows)}]}}'


def only(said: list[Any]) -> Any:
    (one,) = said
    return one


def test_it_is_a_dialect_of_version_two() -> None:
    made: Dialect = dialect()
    assert made.url("wss://ws.kraken.com/") == "wss://ws.kraken.com/v2"
    assert made.books.begins == "stream"


def test_streams_are_asked_for_by_the_names_of_version_two() -> None:
    made = KrakenDialect(SYMBOLS)
    names = made.streams("book_deltas", [BTC, APPLE])

    assert json.loads(made.subscribe(names, 7)) == {
        "method": "subscribe",
        "params": {"channel": "book", "symbol": ["BTC/USD", "AAPLx/USD"], "depth": 10,
                   "snapshot": True},
        "req_id": 7,
    }  # fmt: skip
    assert json.loads(made.unsubscribe(names[:1], 8)) == {
        "method": "unsubscribe",
        "params": {"channel": "book", "symbol": ["BTC/USD"], "depth": 10},
        "req_id": 8,
    }


@pytest.mark.parametrize(
    ("channel", "params"),
    [
        ("trades", {"channel": "trade", "snapshot": True}),
        ("tickers", {"channel": "ticker", "event_trigger": "bbo", "snapshot": True}),
        ("candles_1h", {"channel": "ohlc", "interval": 60, "snapshot": True}),
    ],
)
def test_each_channel_is_asked_for_with_its_options(channel: str, params: dict[str, Any]) -> None:
    made = KrakenDialect(SYMBOLS)
    message = json.loads(made.subscribe(made.streams(channel, [BTC]), 1))

    assert message["params"] == params | {"symbol": ["BTC/USD"]}


def test_what_is_not_offered_or_listed_is_never_asked_for() -> None:
    with pytest.raises(UnknownChannel, match="trades book_deltas"):
        dialect().streams("candles_3m", [BTC])
    with pytest.raises(UnknownSymbol):
        dialect().streams("trades", [Symbol("XBT", "USD")])


def test_no_two_streams_have_one_name() -> None:
    made = KrakenDialect(SYMBOLS)
    names = [name for channel in made.channels for name in made.streams(channel, [BTC, MINA])]

    assert len(set(names)) == len(names) == 2 * len(made.channels)


def test_a_trade_keeps_the_digits_of_its_numbers() -> None:
    trade = only(dialect().read(trades(TRADE), AT_NS))

    assert isinstance(trade, Trade)
    assert (trade.price_text, trade.quantity_text, trade.taker) == ("0.5117", "40.00000000", "sell")
    assert (trade.id, trade.at_ns, trade.symbol) == (4665906, 1_695_628_177_708_706_000, MINA)
    assert trade.received_at_ns == AT_NS


def test_several_trades_of_one_frame_stay_in_order() -> None:
    rows = [TRADE.replace("4665906", str(number)) for number in (5, 6, 7)]

    assert [trade.id for trade in dialect().read(trades(*rows), AT_NS)] == [5, 6, 7]  # type: ignore[union-attr]


def test_a_price_without_a_point_is_a_price() -> None:
    trade = only(dialect().read(trades(TRADE.replace("0.5117", "45285")), AT_NS))
    assert trade.price_text == "45285"


def test_a_book_begins_with_a_snapshot_and_goes_on_with_changes() -> None:
    made = dialect()
    snapshot = only(made.read(BOOK, AT_NS))
    delta = only(made.read(BOOK.replace("snapshot", "update").replace('"qty":0.5', '"qty":0'), 1))

    assert isinstance(snapshot, BookSnapshot)
    assert bytes(snapshot.bids_raw) == b'[["0.0286","74198.19125726"],["0.0280","1.00000000"]]'
    assert (snapshot.checksum, snapshot.at_ns) == (2570005138, 1_786_923_424_190_019_000)
    assert snapshot.update_id == 0
    assert isinstance(delta, BookDelta)
    assert (bytes(delta.asks_raw), delta.final_update_id) == (b'[["0.0287","0"]]', None)
    assert delta.checksum == 2570005138


def test_an_older_servers_snapshot_has_no_time() -> None:
    told = BOOK.replace(',"timestamp":"2026-08-16T23:37:04.190019Z"', "")
    assert only(dialect().read(told, AT_NS)).at_ms is None


def test_levels_written_otherwise_are_the_same_levels() -> None:
    spaced = json.dumps(json.loads(BOOK), indent=1)
    turned = BOOK.replace('"price":0.0287,"qty":0.5', '"qty":0.5,"price":0.0287')

    assert only(dialect().read(turned, AT_NS)) == only(dialect().read(BOOK, AT_NS))
    snapshot = only(dialect().read(spaced, AT_NS))
    assert [(str(p), str(q)) for p, q in snapshot.asks] == [("0.0287", "0.5")]


def test_a_ticker_is_read() -> None:
    frame = (
        '{"channel":"ticker","type":"update","data":[{"symbol":"BTC/USD","bid":10025.0,'
        '"bid_qty":740.00000000,"ask":10036.1,"ask_qty":1361,"last":10035.0,"volume":997038.98,'
        '"vwap":10148.0,"low":9979.0,"high":10285.0,"change":-17.0,"change_pct":-0.17}]}'
    )
    ticker = only(dialect().read(frame, AT_NS))

    assert isinstance(ticker, Ticker)
    assert (ticker.bid_text, ticker.bid_quantity_text) == ("10025.0", "740.00000000")
    assert (ticker.ask_text, ticker.ask_quantity_text) == ("10036.1", "1361")
    assert (ticker.low_text, ticker.high_text, ticker.volume_text) == (
        "9979.0", "10285.0", "997038.98",
    )  # fmt: skip
    assert (ticker.at_ms, ticker.open_text) == (None, None)


def candle(minute: int, close: str, interval: int = 1) -> str:
    return (
        f'{{"symbol":"BTC/USD","open":1.0,"high":2.0,"low":0.5,"close":{close},"trades":3,'
        f'"volume":9.5,"vwap":1.1,"interval_begin":"2023-10-04T16:{minute:02}:00.000000000Z",'
        f'"interval":{interval},"timestamp":"2023-10-04T16:30:00.000000Z"}}'
    )


def candles(*rows: str, kind: str = "update") -> str:
    return f'{{"channel":"ohlc","type":"{kind}","timestamp":"x","data":[{",".join(rows)}]}}'


def shown(said: list[Any]) -> list[tuple[int, str, bool]]:
    assert all(isinstance(each, Candle) for each in said)
    return [(each.open_ms // 60_000 % 60, each.close_text, each.closed) for each in said]


def test_a_candle_is_closed_when_the_next_begins() -> None:
    made = dialect()
    first = made.read(candles(candle(25, "1.5"), candle(24, "1.4"), kind="snapshot"), AT_NS)
    second = made.read(candles(candle(25, "1.6")), AT_NS)
    third = made.read(candles(candle(27, "1.7")), AT_NS + 5)
    late = made.read(candles(candle(25, "1.65")), AT_NS)

    assert shown(first) == [(24, "1.4", False), (24, "1.4", True), (25, "1.5", False)]
    assert shown(second) == [(25, "1.6", False)]
    assert shown(third) == [(25, "1.6", True), (27, "1.7", False)]
    assert shown(late) == [(25, "1.65", True)]
    closed: Any = third[0]
    assert (closed.received_at_ns, closed.interval) == (AT_NS + 5, "1m")
    assert closed.close_ms - closed.open_ms == 59_999
    assert (closed.trades, closed.vwap_text) == (3, "1.1")


def test_candles_of_two_lengths_do_not_close_each_other() -> None:
    made = dialect()
    made.read(candles(candle(25, "1.5", interval=5)), AT_NS)

    assert shown(made.read(candles(candle(26, "1.6")), AT_NS)) == [(26, "1.6", False)]


def test_what_was_heard_before_the_stream_was_subscribed_again_closes_nothing() -> None:
    made = dialect()
    made.read(candles(candle(25, "1.5")), AT_NS)
    made.subscribe(["ohlc-1:BTC/USD"], 9)

    assert shown(made.read(candles(candle(26, "1.6")), AT_NS)) == [(26, "1.6", False)]


@pytest.mark.parametrize(
    "frame",
    [
        '{"channel":"heartbeat"}',
        '{"channel":"status","type":"update","data":[{"version":"2.0.10","system":"online",'
        '"api_version":"v2","connection_id":3007355780899554854}]}',
        '{"method":"pong","req_id":101,"time_in":"x","time_out":"x"}',
        '{"method":"unsubscribe","result":{"channel":"book","symbol":"BTC/USD"},"success":true}',
    ],
)
def test_signs_of_life_say_nothing(frame: str) -> None:
    assert dialect().read(frame, AT_NS) == []


def test_each_stream_is_acknowledged_by_itself() -> None:
    def ack(**result: Any) -> str:
        answer = {"method": "subscribe", "result": result, "success": True, "req_id": 7}
        return json.dumps(answer)

    made = dialect()
    assert made.read(ack(channel="book", depth=10, symbol="BTC/USD", warnings=["?"]), 1) == [
        Ack(7, ("book:BTC/USD",))
    ]
    assert made.read(ack(channel="ohlc", interval=5, symbol="BTC/USD"), 1) == [
        Ack(7, ("ohlc-5:BTC/USD",))
    ]
    unknown = only(made.read(ack(channel="level3", symbol="BTC/USD"), 1))
    assert (unknown.reason, "level3" in unknown.words) == ("not_asked_for", True)


def test_a_refusal_hits_the_stream_it_names() -> None:
    made = KrakenDialect(SYMBOLS)
    made.subscribe(made.streams("trades", [BTC, MINA]), 6)
    names = made.streams("book_deltas", [BTC, MINA])
    made.subscribe(names, 7)

    def refused(words: str, **more: object) -> Refusal:
        answer = {"error": words, "method": "subscribe", "success": False, **more}
        said = only(made.read(json.dumps(answer), 1))
        assert isinstance(said, Refusal)
        return said

    words = "Currency pair not supported MINA/GBP"
    assert refused(words, symbol="MINA/GBP", req_id=7) == (7, "subscribe", words, (names[1],))
    depth = "Subscription depth not supported"
    assert refused(depth, req_id=7) == (7, "subscribe", depth, ())
    assert refused("Malformed request") == (None, "subscribe", "Malformed request", ())
    assert refused(words, symbol="MINA/GBP").names == ()
    assert refused(words, symbol="ETH/USD", req_id=7).request_id is None


def test_acknowledgements_that_name_no_symbol_are_counted() -> None:
    made = dialect()
    made.subscribe(["book:BTC/USD", "book:MINA/GBP"], 7)
    unnamed = '{"method":"subscribe","result":{"channel":"book"},"success":true}'

    assert made.read(unnamed, AT_NS) == []
    assert made.read(unnamed, AT_NS) == [Ack(None, ("book:BTC/USD", "book:MINA/GBP"))]
    assert made.read(unnamed, AT_NS) == []


def test_being_subscribed_already_is_as_good_as_an_acknowledgement() -> None:
    made = KrakenDialect(SYMBOLS)
    names = made.streams("trades", [BTC])
    made.subscribe(names, 6)
    answer = {"error": "Already subscribed", "method": "subscribe", "success": False,
              "symbol": "BTC/USD", "req_id": 6}  # fmt: skip

    assert made.read(json.dumps(answer), 1) == [Ack(6, tuple(names))]


def test_what_is_remembered_of_requests_is_bounded() -> None:
    made = KrakenDialect(SYMBOLS)
    names = made.streams("trades", [BTC])
    for request_id in range(1, 1000):
        made.subscribe(names, request_id)
    answer = {"error": "no", "method": "subscribe", "success": False, "symbol": "BTC/USD"}

    assert only(made.read(json.dumps(answer | {"req_id": 999}), 1)).names == tuple(names)
    assert only(made.read(json.dumps(answer | {"req_id": 1}), 1)).names == ()


DEEP = '{"channel":"book","type":"update","data":' + "[" * 10_000


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ("<html>", "not_json"),
        ("\ud800", "not_json"),
        ('{"channel":"trade"', "not_json"),
        (b"\xff\xfe", "not_json"),
        ("[]", "wrong_shape"),
        ("{}", "unknown_message"),
        ('{"method":"subscribe","success":true}', "unknown_message"),
        ('{"event":"heartbeat"}', "unknown_message"),
        ('{"channel":"instrument","type":"snapshot","data":{"assets":[]}}', "not_asked_for"),
        (trades(TRADE.replace("MINA/GBP", "ETH/USD")), "not_asked_for"),
        (trades(TRADE.replace("MINA/GBP", "币/USD")), "not_asked_for"),
        (trades(TRADE.replace("4665906", "4665906.5")), "wrong_shape"),
        (trades(TRADE.replace("4665906", "-1")), "wrong_shape"),
        (trades(TRADE.replace('"sell"', '"neither"')), "wrong_shape"),
        (trades(TRADE.replace("2023-09-25T", "yesterday ")), "wrong_shape"),
        (trades(TRADE.replace("07:49:37.708706Z", "07:49:37.708706")), "wrong_shape"),
        (trades(TRADE.replace("37.708706Z", "77.708706Z")), "wrong_shape"),
        (trades(TRADE.replace("0.5117", "5.1e-1")), "not_a_number"),
        (trades(TRADE.replace("0.5117", "-0.5117")), "not_a_number"),
        (trades(TRADE.replace("0.5117", "null")), "not_a_number"),
        (trades(TRADE.replace("0.5117", '"NaN"')), "not_a_number"),
        (trades(TRADE, kind="delta"), "wrong_shape"),
        (BOOK.replace("2570005138", "4294967296"), "wrong_shape"),
        (BOOK.replace("2570005138", '"2570005138"'), "wrong_shape"),
        (BOOK.replace(',"checksum":2570005138', ""), "wrong_shape"),
        (BOOK.replace("0.0287", "-0.0287"), "not_a_number"),
        (BOOK.replace("0.0287", "2.87e-2"), "not_a_number"),
        (BOOK.replace('"price":0.0287,', ""), "wrong_shape"),
        (BOOK.replace('[{"price":0.0287,"qty":0.5}]', '{"price":0.0287,"qty":0.5}'), "wrong_shape"),
        (BOOK.replace("snapshot", "update").replace("2026-08-16T23:37:04.190019Z", ""),
         "wrong_shape"),
        (candles(candle(25, "1.5", interval=15)), "not_asked_for"),
        (candles(candle(61, "1.5")), "wrong_shape"),
        ('{"error":5,"success":false}', "wrong_shape"),
        (DEEP, "too_deep"),
        (" " * (LARGEST_FRAME + 1), "too_large"),
        ('{"channel":"book"' + " " * LARGEST_FRAME, "too_large"),
    ],
)  # fmt: skip
def test_a_frame_that_is_not_as_documented_is_told_with_a_reason(
    frame: str | bytes, reason: str
) -> None:
    said = only(dialect().read(frame, AT_NS))

    assert isinstance(said, Malformed)
    assert said.reason == reason
    assert len(said.words) <= 200


@given(st.binary() | st.sampled_from([BOOK, trades(TRADE), candles(candle(1, "1.0"))]), st.data())
def test_nothing_makes_it_raise(frame: bytes | str, data: st.DataObject) -> None:
    whole = frame.encode() if isinstance(frame, str) else frame
    at = data.draw(st.integers(0, len(whole)))
    spoilt = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + 1 :]

    for said in dialect().read(spoilt, AT_NS):
        if isinstance(said, BookSnapshot | BookDelta):
            assert all(q >= 0 for _, q in said.bids + said.asks), "what is not a number is refused"


decimals = st.decimals(min_value=0, max_value=10**9, places=8, allow_nan=False)


@given(st.lists(st.tuples(decimals, decimals), max_size=30))
def test_levels_keep_every_digit(levels: list[tuple[Any, Any]]) -> None:
    spelled = [(f"{price:f}", f"{quantity:f}") for price, quantity in levels]
    rows = ",".join(f'{{"price":{price},"qty":{quantity}}}' for price, quantity in spelled)
    frame = BOOK.replace('[{"price":0.0287,"qty":0.5}]', f"[{rows}]")
    snapshot = only(dialect().read(frame, AT_NS))

    assert json.loads(bytes(snapshot.asks_raw)) == [list(level) for level in spelled]
