"""Binance's stream dialect: every payload becomes its event, and nothing makes it raise."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.errors import UnknownChannel, UnknownSymbol
from penstock.exchanges.binance.stream import LARGEST_FRAME, BinanceDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import (
    AggTrade,
    BookDelta,
    BookSnapshot,
    Candle,
    Ticker,
    Ticker24h,
    Trade,
)
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import (
    Ack,
    Dialect,
    Malformed,
    Notice,
    ReadsMany,
    Received,
    Refusal,
)

BTC, INCH, ETH = Symbol("BTC", "USDT"), Symbol("1INCH", "USDT"), Symbol("ETH", "USDT")
SYMBOLS = SymbolMap("binance", [("BTCUSDT", BTC), ("1INCHUSDT", INCH), ("ETHUSDT", ETH)])

DATA: dict[str, Any] = {
    "btcusdt@trade": {"e": "trade", "E": 5, "s": "BTCUSDT", "t": 12345, "p": "0.001",
                      "q": "100.0", "T": 4, "m": True, "M": True},
    "btcusdt@aggTrade": {"e": "aggTrade", "E": 5, "s": "BTCUSDT", "a": 15683430, "p": "0.35280000",
                         "q": "58.00000000", "f": 7, "l": 9, "T": 4, "m": False, "M": True},
    "btcusdt@depth@100ms": {"e": "depthUpdate", "E": 5, "s": "BTCUSDT", "U": 7, "u": 9,
                            "b": [["0.35130000", "6195.00000000"]],
                            "a": [["0.4", "0.0"], ["0.5", "1.0"]]},
    "btcusdt@bookTicker": {"u": 4, "s": "BTCUSDT", "b": "0.1", "B": "6.0", "a": "0.2", "A": "3.0"},
    "btcusdt@ticker": {"e": "24hrTicker", "E": 5, "s": "BTCUSDT", "p": "-0.0015", "P": "-2.00",
                       "c": "0.25", "Q": "10.0", "b": "0.24", "B": "10.0", "a": "0.26",
                       "A": "100.0", "o": "0.10", "h": "0.25", "l": "0.10", "v": "10000.0",
                       "q": "18.0", "O": 0, "C": 86400000, "F": 0, "L": 18150, "n": 18151},
    "btcusdt@kline_1m": {"e": "kline", "E": 5, "s": "BTCUSDT", "k": {
        "t": 60000, "T": 119999, "s": "BTCUSDT", "i": "1m", "f": -1, "L": -1, "o": "0.35", "c":
        "0.36", "h": "0.37", "l": "0.34", "v": "25877.0", "n": 30, "x": False, "q": "9116.0",
        "V": "58.0", "Q": "20.4", "B": "0"}},
    "btcusdt@depth20@100ms": {"lastUpdateId": 160, "bids": [["0.24", "10.0"]], "asks": []},
}  # fmt: skip


def wrap(stream: str, data: Any) -> bytes:
    return json.dumps({"stream": stream, "data": data}, separators=(",", ":")).encode()


def dialect() -> BinanceDialect:
    made = BinanceDialect(SYMBOLS)
    for channel in ("trades", "agg_trades", "book_deltas", "tickers", "tickers_24h",
                    "candles_1m", "book_snapshots"):  # fmt: skip
        made.streams(channel, [BTC, INCH])
    return made


# Making one takes longer than reading hundreds of frames. It keeps nothing of them.
MADE = dialect()


def one(made: BinanceDialect, frame: bytes | str) -> Received:
    (received,) = made.read(frame, 77)
    return received


def test_every_payload_becomes_its_event() -> None:
    made = MADE

    def read(stream: str) -> Received:
        return one(made, wrap(stream, DATA[stream]))

    base: dict[str, Any] = {"exchange": "binance", "symbol": BTC, "received_at_ns": 77}
    assert read("btcusdt@trade") == Trade(
        **base, id=12345, at_ns=4_000_000, price_text="0.001", quantity_text="100.0", taker="sell"
    )
    assert read("btcusdt@aggTrade") == AggTrade(
        **base, id=15683430, first_trade_id=7, last_trade_id=9, at_ns=4_000_000, taker="buy",
        price_text="0.35280000", quantity_text="58.00000000",
    )  # fmt: skip
    assert read("btcusdt@bookTicker") == Ticker(
        **base, update_id=4, bid_text="0.1", bid_quantity_text="6.0", ask_text="0.2",
        ask_quantity_text="3.0",
    )  # fmt: skip
    assert read("btcusdt@ticker") == Ticker24h(
        **base, at_ns=5_000_000, bid_text="0.24", bid_quantity_text="10.0", ask_text="0.26",
        ask_quantity_text="100.0", last_text="0.25", open_text="0.10", high_text="0.25",
        low_text="0.10", volume_text="10000.0", quote_volume_text="18.0",
    )  # fmt: skip
    assert read("btcusdt@kline_1m") == Candle(
        **base, interval="1m", open_ms=60000, close_ms=119999, open_text="0.35", high_text="0.37",
        low_text="0.34", close_text="0.36", volume_text="25877.0", quote_volume_text="9116.0",
        trades=30, closed=False, taker_buy_volume_text="58.0", taker_buy_quote_volume_text="20.4",
    )  # fmt: skip
    traded = DATA["btcusdt@kline_1m"]["k"] | {"f": 7, "L": 36}
    candle = one(made, wrap("btcusdt@kline_1m", DATA["btcusdt@kline_1m"] | {"k": traded}))
    assert isinstance(candle, Candle)
    assert (candle.first_trade_id, candle.last_trade_id) == (7, 36)
    delta = read("btcusdt@depth@100ms")
    assert isinstance(delta, BookDelta)
    assert (delta.first_update_id, delta.final_update_id, delta.at_ns) == (7, 9, 5_000_000)
    assert delta.bids == [(Decimal("0.35130000"), Decimal("6195.00000000"))]
    assert delta.asks == [(Decimal("0.4"), Decimal("0.0")), (Decimal("0.5"), Decimal("1.0"))]
    book = read("btcusdt@depth20@100ms")
    assert isinstance(book, BookSnapshot)
    assert (book.update_id, book.at_ns, book.bids) == (160, None, [(Decimal("0.24"), Decimal(10))])


def test_a_text_frame_reads_as_a_binary_one() -> None:
    frame = wrap("btcusdt@trade", DATA["btcusdt@trade"])

    assert one(MADE, frame.decode()) == one(MADE, frame)


def test_symbols_that_differ_in_digits_alone_are_told_apart() -> None:
    symbols = [Symbol(f"SIM{n}", "USDT") for n in range(20)]
    made = BinanceDialect(SymbolMap("binance", [(f"SIM{n}USDT", symbols[n]) for n in range(20)]))
    made.streams("tickers", symbols)
    for n in (1, 2, 11, 3):
        data = {**DATA["btcusdt@bookTicker"], "s": f"SIM{n}USDT"}
        event = one(made, wrap(f"sim{n}usdt@bookTicker", data))
        assert isinstance(event, Ticker)
        assert event.symbol == symbols[n]


@given(bids=st.integers(0, 100), asks=st.integers(0, 100))
def test_any_number_of_levels_is_read(bids: int, asks: int) -> None:
    data = {
        **DATA["btcusdt@depth@100ms"],
        "b": [[f"{n}.5", "1.0"] for n in range(bids)],
        "a": [[f"{n}.5", "1.0"] for n in range(asks)],
    }
    delta = one(MADE, wrap("btcusdt@depth@100ms", data))
    assert isinstance(delta, BookDelta)
    assert (len(delta.bids), len(delta.asks)) == (bids, asks)


@pytest.mark.parametrize(
    ("stream", "name", "value", "reason"),
    [
        *[
            (stream, name, bad, reason)
            for stream, name in [("btcusdt@trade", "p"), ("btcusdt@aggTrade", "q"),
                                 ("btcusdt@bookTicker", "A"), ("btcusdt@ticker", "h")]
            for bad, reason in [
                ("NaN", "not_a_number"), ("Infinity", "not_a_number"), ("1e999", "not_a_number"),
                ("-1.0", "not_a_number"), ("+1.0", "not_a_number"), ("", "not_a_number"),
                (".", "not_a_number"), ("1.2.3", "not_a_number"), (" 1.0", "not_a_number"),
                ("١.٢", "not_a_number"), ("9" * 100 + ".0", "wrong_shape"), (1.5, "wrong_shape"),
                (None, "wrong_shape"), ([], "wrong_shape"),
            ]
        ],
        ("btcusdt@trade", "t", -1, "wrong_shape"),
        ("btcusdt@trade", "t", "12", "wrong_shape"),
        ("btcusdt@trade", "t", 1 << 63, "wrong_shape"),
        ("btcusdt@trade", "t", 1.5, "wrong_shape"),
        ("btcusdt@trade", "m", "true", "wrong_shape"),
        ("btcusdt@trade", "s", "ETHUSDT", "wrong_shape"),
        ("btcusdt@trade", "s", "1INCHUSDT", "wrong_shape"),
        ("btcusdt@trade", "s", 5, "wrong_shape"),
        ("btcusdt@aggTrade", "f", 10, "wrong_shape"),
        ("btcusdt@depth@100ms", "U", 10, "wrong_shape"),
        ("btcusdt@kline_1m", "k", {"t": 1}, "wrong_shape"),
        *[
            ("btcusdt@depth@100ms", name, bad, "not_a_number")
            for name in "ba"
            for bad in [
                [["NaN", "1.0"]], [["1.0", "1e999"]], [["1.0", "-1.0"]], [["1.0"]], [[1.0, 2.0]],
                "1.0", 5, None, {}, [["1.0", "1.0", "1.0"]], [[["1.0", "1.0"]]], ["1.0", "1.0"],
                [["1.0", ""]], [["1.0.0", "1.0"]], [["1.0", "1.0"], []], [["1.0", "."]],
                [[".", "1.0"]],
            ]
        ],
    ],
)  # fmt: skip
def test_what_is_not_as_documented_is_malformed_by_reason(
    stream: str, name: str, value: Any, reason: str
) -> None:
    received = one(MADE, wrap(stream, {**DATA[stream], name: value}))
    assert isinstance(received, Malformed)
    assert received.reason == reason
    assert received.excerpt.startswith('{"stream":"btcusdt@')
    good = one(MADE, wrap(stream, DATA[stream]))
    assert not isinstance(good, Malformed), "one bad frame harms only itself"


def test_an_empty_text_is_never_mistaken_for_a_whole_number() -> None:
    made = dialect()
    for _ in range(2):
        whole = one(made, wrap("btcusdt@trade", {**DATA["btcusdt@trade"], "q": "100"}))
        assert isinstance(whole, Trade)
        empty = one(made, wrap("btcusdt@trade", {**DATA["btcusdt@trade"], "q": ""}))
        assert isinstance(empty, Malformed)


def test_an_escape_is_never_mistaken_for_a_digit() -> None:
    made = dialect()
    good = wrap("btcusdt@trade", DATA["btcusdt@trade"]).replace(b'"0.001"', rb'"\u0031.0"')
    bad = good.replace(rb"\u0031", rb"\u0041")
    first, second = one(made, good), one(made, bad)

    assert isinstance(first, Trade)
    assert first.price == 1
    assert isinstance(second, Malformed)
    assert second.reason == "not_a_number"


@pytest.mark.parametrize("name", ["p", "q", "s", "t", "T", "m"])
def test_a_missing_field_is_malformed(name: str) -> None:
    data = {key: value for key, value in DATA["btcusdt@trade"].items() if key != name}
    received = one(MADE, wrap("btcusdt@trade", data))
    assert isinstance(received, Malformed)
    assert (received.reason, f"`{name}`" in received.words) == ("wrong_shape", True)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "not_json"),
        (b"{", "not_json"),
        (b"]}}", "not_json"),
        (b"\xff\xfe", "not_json"),
        (b'{"stream":"btcusdt@trade","data":{"s":"\xff"}}', "not_json"),
        (b"<html>", "not_json"),
        (b"[]", "wrong_shape"),
        (b"5", "wrong_shape"),
        (b"{}", "unknown_message"),
        (b'{"stream":"btcusdt@trade"}', "unknown_message"),
        (b'{"stream":"ethusdt@trade","data":{}}', "not_asked_for"),
        (b'{"stream":"btcusdt@trade","data":' + b"[" * 100_000, "too_deep"),
        (wrap("btcusdt@depth@100ms", {**DATA["btcusdt@depth@100ms"], "b": 0}).replace(
            b'"b":0', b'"b":' + b"[" * 50_000 + b"]" * 50_000), "too_deep"),
        (wrap("btcusdt@trade", {**DATA["btcusdt@trade"], "x": "y" * 10_000_000}), "too_large"),
        (b"9" * (LARGEST_FRAME + 1), "too_large"),
        ("\ud800", "not_json"),
    ],
)  # fmt: skip
def test_what_is_no_message_at_all_is_malformed_by_reason(frame: bytes | str, reason: str) -> None:
    received = one(MADE, frame)
    assert isinstance(received, Malformed)
    assert received.reason == reason
    assert len(received.excerpt) <= 120


@given(st.binary(max_size=300) | st.text(max_size=100))
def test_no_bytes_whatever_make_it_raise(frame: bytes | str) -> None:
    MADE.read(frame, 1)
    MADE.read_many([frame, frame], [1, 2])


@given(st.sampled_from(sorted(DATA)), st.data())
def test_no_damaged_frame_makes_it_raise_or_gives_a_number_that_is_none(
    stream: str, data: st.DataObject
) -> None:
    frame = bytearray(wrap(stream, DATA[stream]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(frame) - 1))
        frame[place] = data.draw(st.sampled_from(b'0123456789.,"[]{}-eN: '))
    received = one(MADE, bytes(frame))
    if isinstance(received, Trade | AggTrade):
        assert received.price.is_finite()
        assert received.quantity >= 0
    elif isinstance(received, BookDelta):
        assert all(price.is_finite() for price, _ in received.bids + received.asks)


def spelled(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """JSON for a value, in any order, with any white space, escapes, and fields nobody knows."""
    space = "".join(draw(st.lists(st.sampled_from(" \n\t"), max_size=2)))
    if isinstance(value, dict):
        fields = draw(st.permutations(sorted(value.items())))
        inner = [f"{spelled(k, draw)}{space}:{spelled(v, draw)}" for k, v in fields]
        unknown = ['"?":{"p":[1e5,"NaN"],"stream":null}'] if draw(st.booleans()) else []
        return "{" + space + ",".join(inner + unknown) + space + "}"
    if isinstance(value, list):
        return "[" + ",".join(space + spelled(each, draw) for each in value) + space + "]"
    if isinstance(value, str) and value and draw(st.booleans()):
        return f'"\\u{ord(value[0]):04x}{value[1:]}"'
    return json.dumps(value)


@given(st.sampled_from(sorted(DATA)), st.data())
def test_a_frame_reads_the_same_however_it_is_spelled(stream: str, data: st.DataObject) -> None:
    frame = spelled({"stream": stream, "data": DATA[stream]}, data.draw)
    received, usual = one(MADE, frame), one(MADE, wrap(stream, DATA[stream]))
    if isinstance(received, BookDelta | BookSnapshot):  # levels keep the wire's spelling
        assert isinstance(usual, BookDelta | BookSnapshot)
        assert (received.bids, received.asks) == (usual.bids, usual.asks)
        bare = {"bids_raw": Raw(b"[]"), "asks_raw": Raw(b"[]")}
        received = msgspec.structs.replace(received, **bare)
        usual = msgspec.structs.replace(usual, **bare)

    assert received == usual


def damaged(frame: bytes, place: int, byte: int) -> bytes:
    place %= len(frame)
    return frame[:place] + bytes([byte]) + frame[place + 1 :]


good_frames = st.sampled_from([wrap(stream, data) for stream, data in DATA.items()])
bad_frames = st.builds(
    damaged, good_frames, st.integers(0, 400), st.sampled_from(b'0123456789.,"[]{}-eN: ')
)
other_frames = st.sampled_from(
    [b'{"result":null,"id":1}', b"", b"{", b"[]", wrap("ethusdt@trade", DATA["btcusdt@trade"])]
)


@given(st.lists(good_frames | good_frames | good_frames | bad_frames | other_frames, max_size=6))
def test_many_frames_are_read_as_one_by_one_or_not_at_all(frames: list[bytes]) -> None:
    stamps = list(range(len(frames)))
    alone = [MADE.read(frame, at_ns)[0] for frame, at_ns in zip(frames, stamps, strict=True)]
    together = MADE.read_many(frames, stamps)

    if any(isinstance(each, tuple) for each in alone):
        assert together is None, "somebody has to look at each"
    else:
        assert together == alone


def test_a_bad_number_among_many_frames_leaves_no_trace() -> None:
    good = wrap("btcusdt@trade", DATA["btcusdt@trade"])
    bad = good.replace(b"0.001", b"1e999")

    assert MADE.read_many([good, bad], [1, 2]) is None
    assert MADE.read_many([good, good], [1, 2]) is not None
    assert isinstance(one(MADE, good), Trade)


def test_a_frame_that_names_two_streams_is_no_trouble() -> None:
    frame = wrap("btcusdt@trade", DATA["btcusdt@trade"])
    made = one(MADE, frame[:-1] + b',"stream":"btcusdt@aggTrade"}')

    assert isinstance(made, Trade | Malformed)


def test_whoever_asked_for_nothing_is_told_so() -> None:
    made = BinanceDialect(SYMBOLS)
    received = one(made, wrap("btcusdt@trade", DATA["btcusdt@trade"]))

    assert isinstance(received, Malformed)
    assert received.reason == "not_asked_for"
    assert isinstance(made, ReadsMany)
    assert made.read_many([wrap("btcusdt@trade", DATA["btcusdt@trade"])] * 2, [1, 2]) is None


def test_streams_asked_for_later_are_read_too() -> None:
    made = BinanceDialect(SYMBOLS)
    for symbols in ([BTC], [BTC, INCH], [ETH]):
        made.streams("trades", symbols)
    for native, symbol in (("BTCUSDT", BTC), ("1INCHUSDT", INCH), ("ETHUSDT", ETH)):
        data = {**DATA["btcusdt@trade"], "s": native}
        event = one(made, wrap(f"{native.lower()}@trade", data))
        assert isinstance(event, Trade)
        assert event.symbol == symbol


def test_answers_and_notices_are_told_apart() -> None:
    made = dialect()

    assert one(made, b'{"result":null,"id":1}') == Ack(1)
    assert one(made, '{"result":["btcusdt@trade"],"id":3}') == Ack(3)
    wrapped = b'{"error":{"code":2,"msg":"Invalid request: no"},"id":1}'
    assert one(made, wrapped) == Refusal(1, 2, "Invalid request: no")
    assert one(made, b'{"code":3,"msg":"Invalid JSON: no"}') == Refusal(None, 3, "Invalid JSON: no")
    assert one(made, b'{"e":"serverShutdown","E":9}') == Notice("closing", 9)
    assert one(made, wrap("!serverShutdown", {"e": "serverShutdown", "E": 9})) == Notice(
        "closing", 9
    )


def test_streams_are_named_and_asked_for_as_documented() -> None:
    made: Dialect = BinanceDialect(SYMBOLS)
    names = made.streams("agg_trades", [BTC]) + made.streams("book_deltas", [INCH])

    assert names == ["btcusdt@aggTrade", "1inchusdt@depth@100ms"]
    assert made.streams("candles_1M", [BTC]) == ["btcusdt@kline_1M"]
    assert made.url("wss://stream.example:9443/") == "wss://stream.example:9443/stream"
    assert made.subscribe(names, 1) == (
        '{"method":"SUBSCRIBE","params":["btcusdt@aggTrade","1inchusdt@depth@100ms"],"id":1}'
    )
    assert made.unsubscribe(names[:1], 312) == (
        '{"method":"UNSUBSCRIBE","params":["btcusdt@aggTrade"],"id":312}'
    )


def test_a_channel_or_symbol_that_is_not_there_is_named() -> None:
    made = BinanceDialect(SYMBOLS)
    with pytest.raises(UnknownChannel, match="book_deltas"):
        made.streams("books", [BTC])
    with pytest.raises(UnknownSymbol):
        made.streams("trades", [Symbol("BTC", "USD")])
