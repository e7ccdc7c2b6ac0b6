"""Upbit's dialect: one request for everything, no acknowledgement but data, and nothing raises."""

import json
from typing import Any

import pytest
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.errors import UnknownChannel, UnknownSymbol
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.upbit.stream import LARGEST_FRAME, UpbitDialect
from penstock.market.events import BookSnapshot, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Send, Subscription
from penstock.streaming.connection import Connection
from penstock.streaming.dialect import Ack, Dialect, Malformed, Refusal

BTC, LAMB, ODD = Symbol("BTC", "KRW"), Symbol("LAMB", "KRW"), Symbol("币", "KRW")
SYMBOLS = SymbolMap("upbit", [("KRW-BTC", BTC), ("KRW-LAMB", LAMB), ("KRW-币", ODD)])
AT_NS = 1_700_000_000_000_000_000
TRADE: dict[str, Any] = {
    "ty": "trade", "cd": "KRW-LAMB", "tms": 1618678262712, "td": "2021-04-17", "ttm": "16:51:02",
    "ttms": 1618678262000, "tp": 127.0, "tv": 46.48838371, "ab": "BID", "pcp": 123.0, "c": "RISE",
    "cp": 4.0, "sid": 17510687993360001, "st": "REALTIME",
}  # fmt: skip
BOOK: dict[str, Any] = {
    "ty": "orderbook", "cd": "KRW-LAMB", "tms": 1618678262640, "tas": 25752275.55420627,
    "tbs": 14407925.2, "obu": [{"ap": 127.0, "bp": 126.0, "as": 280460.37885666, "bs": 6.5},
                               {"ap": 128.0, "bp": 0, "as": 502824, "bs": 0}], "st": "REALTIME",
}  # fmt: skip
TICKER: dict[str, Any] = {
    "ty": "ticker", "cd": "KRW-BTC", "op": 484500.0, "tp": 493100.0, "atv24h": 37.4,
    "atp24h": 18500000.5, "tms": 1523531768829, "st": "SNAPSHOT",
}  # fmt: skip


def dialect() -> UpbitDialect:
    made = UpbitDialect(SYMBOLS)
    for channel in made.channels:
        made.streams(channel, [BTC, LAMB])
    return made


def frame(message: dict[str, Any], **changed: Any) -> bytes:
    return json.dumps(message | changed, separators=(",", ":")).encode()


def only(said: list[Any]) -> Any:
    (one,) = said
    return one


def test_it_is_a_dialect_whose_every_frame_is_a_book() -> None:
    made: Dialect = dialect()
    assert made.url("wss://api.upbit.com/") == "wss://api.upbit.com/websocket/v1"
    assert (made.books.begins, made.books.shows_loss) == ("frame", True)


def test_a_request_names_everything_because_it_replaces_the_one_before() -> None:
    made = UpbitDialect(SYMBOLS)
    trades, books = made.streams("trades", [BTC, ODD]), made.streams("book_deltas", [BTC])

    assert json.loads(made.subscribe(trades, 1)) == [
        {"ticket": "penstock-1"},
        {"type": "trade", "codes": ["KRW-BTC", "KRW-币"]},
        {"format": "SIMPLE"},
    ]
    assert json.loads(made.subscribe(books, 2))[1:] == [
        {"type": "trade", "codes": ["KRW-BTC", "KRW-币"]},
        {"type": "orderbook", "codes": ["KRW-BTC"]},
        {"format": "SIMPLE"},
    ]
    assert json.loads(made.unsubscribe(trades[:1], 3))[1:] == [
        {"type": "trade", "codes": ["KRW-币"]},
        {"type": "orderbook", "codes": ["KRW-BTC"]},
        {"format": "SIMPLE"},
    ]


def test_what_is_not_offered_or_listed_is_never_asked_for() -> None:
    with pytest.raises(UnknownChannel, match="trades book_deltas"):
        dialect().streams("candles_1m", [BTC])
    with pytest.raises(UnknownSymbol):
        dialect().streams("trades", [Symbol("KRW", "BTC")])


def test_a_trade_keeps_an_id_beyond_what_a_double_can_hold() -> None:
    trade = only(dialect().read(frame(TRADE), AT_NS))

    assert isinstance(trade, Trade)
    assert (trade.id, trade.symbol, trade.taker) == (17510687993360001, LAMB, "buy")
    assert (trade.price_text, trade.quantity_text) == ("127.0", "46.48838371")
    assert (trade.at_ms, trade.received_at_ns) == (1618678262000, AT_NS)
    assert only(dialect().read(frame(TRADE, ab="ASK"), AT_NS)).taker == "sell"


def test_numbers_with_an_exponent_are_spelled_out() -> None:
    text = frame(TRADE).replace(b"127.0", b"8.428e-05")
    assert only(dialect().read(text, AT_NS)).price_text == "0.00008428"
    text = frame(BOOK).replace(b"126.0", b"1.26E+2")
    assert bytes(only(dialect().read(text, AT_NS)).bids_raw) == b'[["126","6.5"]]'


def test_a_book_is_whole_and_has_no_empty_levels() -> None:
    book = only(dialect().read(frame(BOOK), AT_NS))

    assert isinstance(book, BookSnapshot)
    assert bytes(book.bids_raw) == b'[["126.0","6.5"]]'
    assert bytes(book.asks_raw) == b'[["127.0","280460.37885666"],["128.0","502824"]]'
    assert (book.at_ms, book.update_id) == (1618678262640, 0)


def test_a_ticker_tells_the_last_price_and_the_days_volumes() -> None:
    ticker = only(dialect().read(frame(TICKER), AT_NS))

    assert isinstance(ticker, Ticker)
    assert (ticker.last_text, ticker.volume_text) == ("493100.0", "37.4")
    assert (ticker.quote_volume_text, ticker.at_ms) == ("18500000.5", 1523531768829)
    assert ticker.open_text is None


def test_the_first_frame_of_a_stream_acknowledges_it_whenever_it_is_asked_for() -> None:
    made = dialect()
    for request_id in (1, 2):
        made.subscribe(["trade:KRW-LAMB", "trade:KRW-BTC"], request_id)
        ack, trade = made.read(frame(TRADE), AT_NS)
        assert ack == Ack(None, ("trade:KRW-LAMB",))
        assert isinstance(trade, Trade)
        assert len(made.read(frame(TRADE), AT_NS)) == 1
        assert len(made.read(frame(BOOK), AT_NS)) == 1, "nobody asked for it to be acknowledged"


def test_an_error_refuses_what_nothing_was_heard_of() -> None:
    made = dialect()
    made.subscribe(["trade:KRW-LAMB", "trade:KRW-BTC", "ticker:KRW-BTC"], 1)
    made.read(frame(TRADE), AT_NS)
    error = {"error": {"name": "WRONG_FORMAT", "message": "Format 이 맞지 않습니다."}}

    assert made.read(frame(error), AT_NS) == [
        Refusal(
            None, "WRONG_FORMAT", "Format 이 맞지 않습니다.", ("ticker:KRW-BTC", "trade:KRW-BTC")
        )
    ]
    assert only(made.read(frame({"error": {"name": 404}}), AT_NS)).words == "404"


def test_the_answer_to_a_ping_says_nothing() -> None:
    assert dialect().limits.ping == "PING"
    assert dialect().read(b'{"status":"UP"}', AT_NS) == []


def silent_for(machine: Connection, seconds: int) -> list[list[dict[str, object]]]:
    """Let time pass in which nothing comes; the requests that were sent, and when."""
    asked = []
    for second in range(1, seconds + 1):
        machine.woken(AT_NS + second * 1_000_000_000)
        sent = [each.text for each in machine.take_commands() if type(each) is Send]
        asked += [json.loads(text) for text in sent if text != "PING"]
    return asked


def streaming_trades() -> Connection:
    machine = Connection(UpbitDialect(SYMBOLS), [Subscription("trades", (BTC, LAMB))], lambda: 0.5)
    machine.start()
    machine.opened(AT_NS)
    machine.take_commands()
    return machine


def test_a_market_that_has_not_spoken_is_asked_for_again_and_is_pending_but_not_refused() -> None:
    machine = streaming_trades()
    machine.received(frame(TRADE), AT_NS + 1)
    asked = silent_for(machine, 100)

    assert asked[0][1] == {"type": "trade", "codes": ["KRW-BTC", "KRW-LAMB"]}
    assert 2 <= len(asked) <= 5, "ever more slowly: each request brings all snapshots once more"
    assert (machine.state, machine.settled) == ("connected", True)
    assert machine.pending == ["trade:KRW-BTC"]
    assert not machine.refusals
    assert {each.kind for each in machine.failures.unreported} == {"unanswered"}
    machine.received(frame(TRADE, cd="KRW-BTC"), AT_NS + 101_000_000_000)
    assert machine.pending == []


def test_a_connection_on_which_no_market_has_spoken_yet_is_kept() -> None:
    machine = streaming_trades()
    asked = silent_for(machine, 30)

    assert machine.state == "connected"
    assert len(asked) >= 2
    assert not machine.refusals


def test_an_error_does_not_refuse_an_older_stream_that_has_not_spoken() -> None:
    made = dialect()
    made.subscribe(["trade:KRW-LAMB"], 1)
    made.subscribe(["ticker:KRW-BTC"], 2)

    refusal = only(made.read(frame({"error": {"name": "INVALID_PARAM", "message": "no"}}), AT_NS))
    assert refusal.names == ("ticker:KRW-BTC",)


def test_a_request_for_nothing_is_not_sent() -> None:
    made = dialect()
    made.subscribe(["trade:KRW-LAMB", "trade:KRW-BTC"], 1)

    assert "KRW-BTC" in made.unsubscribe(["trade:KRW-LAMB"], 2)
    assert made.unsubscribe(["trade:KRW-BTC"], 3) == ""


def test_what_is_removed_while_there_is_no_connection_is_not_asked_for_on_the_next() -> None:
    machine = streaming_trades()
    machine.closed("cut", AT_NS)
    machine.remove(Subscription("trades", (LAMB,)), AT_NS)
    machine.woken(AT_NS + 10**10)
    machine.opened(AT_NS + 10**10)

    (text,) = [each.text for each in machine.take_commands() if type(each) is Send]
    assert json.loads(text)[1] == {"type": "trade", "codes": ["KRW-BTC"]}


@pytest.mark.parametrize(
    ("message", "changed", "reason"),
    [
        (TRADE, {"sid": 1.7510687993360001e16}, "wrong_shape"),
        (TRADE, {"sid": 1618678262000003.0}, "wrong_shape"),
        (TRADE, {"sid": "1618678262000003"}, "wrong_shape"),
        (TRADE, {"ab": "BUY"}, "wrong_shape"),
        (TRADE, {"ttms": None}, "wrong_shape"),
        (TRADE, {"tp": -1.0}, "not_a_number"),
        (TRADE, {"tp": "NaN"}, "not_a_number"),
        (TRADE, {"tv": 1e300}, "not_a_number"),
        (TRADE, {"tv": None}, "not_a_number"),
        (TRADE, {"cd": "KRW-ETH"}, "not_asked_for"),
        (TRADE, {"cd": "KRW-币"}, "not_asked_for"),
        (TRADE, {"ty": "weather"}, "unknown_message"),
        (TRADE, {"ty": 7}, "wrong_shape"),
        (BOOK, {"obu": [{"ap": 1, "bp": 1, "as": 1}]}, "wrong_shape"),
        (BOOK, {"obu": [{"ap": 1, "bp": True, "as": 1, "bs": 1}]}, "not_a_number"),
        (BOOK, {"obu": [{"ap": 1, "bp": 1, "as": -2, "bs": 1}]}, "not_a_number"),
        (TICKER, {"tp": ""}, "not_a_number"),
    ],
)
def test_what_is_wrong_with_a_frame_is_told(
    message: dict[str, Any], changed: dict[str, Any], reason: str
) -> None:
    said = only(dialect().read(frame(message, **changed), AT_NS))

    assert isinstance(said, Malformed)
    assert said.reason == reason, said


def test_a_frame_of_any_spelling_is_read_by_its_type() -> None:
    spaced = json.dumps(dict(reversed(TRADE.items())), indent=1)
    assert only(dialect().read(spaced, AT_NS)).id == 17510687993360001


def test_a_frame_beyond_all_measure_is_not_even_decoded() -> None:
    said = only(dialect().read(b'{"ty":"trade"' + b" " * LARGEST_FRAME, AT_NS))
    assert said.reason == "too_large"
