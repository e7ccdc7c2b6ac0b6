"""Coinbase's dialect: streams acknowledged by being listed, and nothing raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.errors import UnknownChannel, UnknownSymbol
from penstock.exchanges.coinbase.stream import LARGEST_FRAME, CoinbaseDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookDelta, BookSnapshot, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Send, Subscription
from penstock.streaming.connection import Connection
from penstock.streaming.dialect import Ack, Dialect, Malformed, Refusal

BTC, SKL, ODD = Symbol("BTC", "USD"), Symbol("SKL", "BTC"), Symbol("币", "USD")
SYMBOLS = SymbolMap("coinbase", [("BTC-USD", BTC), ("SKL-BTC", SKL), ("币-USD", ODD)])
AT_NS = 1_700_000_000_000_000_000
MATCH: dict[str, Any] = {
    "type": "match", "trade_id": 280232, "maker_order_id": "2a0da34e", "taker_order_id": "3c82abaa",
    "side": "sell", "size": "985", "price": "0.00001305", "product_id": "SKL-BTC",
    "sequence": 177100030, "time": "2021-04-17T16:43:37.089723Z",
}  # fmt: skip
TICKER: dict[str, Any] = {
    "type": "ticker", "sequence": 333938798, "product_id": "BTC-USD", "price": "14.7775",
    "open_24h": "14.6647", "volume_24h": "94381.28000000", "low_24h": "14.3691",
    "high_24h": "16.55", "volume_30d": "2295579.57000000", "best_bid": "14.7550",
    "best_ask": "14.8060", "side": "buy", "time": "2021-04-17T16:43:30.244075Z",
    "trade_id": 881613, "last_size": "0.04",
}  # fmt: skip
SNAPSHOT: dict[str, Any] = {
    "type": "snapshot", "product_id": "BTC-USD", "asks": [["14.8024", "12.77"]],
    "bids": [["14.7", "1"], ["14.6", "0.5"]],
}  # fmt: skip
UPDATE: dict[str, Any] = {
    "type": "l2update", "product_id": "BTC-USD", "time": "2021-04-17T16:43:37.075687Z",
    "changes": [["sell", "14.8024", "0.0"], ["buy", "14.71", "3"], ["buy", "14.6", "0"]],
}  # fmt: skip


def dialect() -> CoinbaseDialect:
    made = CoinbaseDialect(SYMBOLS)
    for channel in made.channels:
        made.streams(channel, [BTC, SKL])
    return made


def frame(message: dict[str, Any], **changed: Any) -> bytes:
    return json.dumps(message | changed, separators=(",", ":")).encode()


def listed(**channels: list[str]) -> bytes:
    rows = [{"name": name, "product_ids": natives} for name, natives in channels.items()]
    return frame({"type": "subscriptions", "channels": rows})


def only(said: list[Any]) -> Any:
    (one,) = said
    return one


def test_it_is_a_dialect_whose_books_begin_in_their_streams() -> None:
    made: Dialect = dialect()
    assert made.url("wss://ws-feed.exchange.coinbase.com") == "wss://ws-feed.exchange.coinbase.com"
    assert (made.books.begins, made.books.depth, made.books.checksum) == ("stream", None, None)


@pytest.mark.parametrize(
    ("channel", "theirs"),
    [("trades", "matches"), ("book_deltas", "level2_batch"), ("tickers", "ticker")],
)
def test_heartbeats_are_asked_for_with_everything_and_kept(channel: str, theirs: str) -> None:
    made = CoinbaseDialect(SYMBOLS)
    names = made.streams(channel, [BTC, ODD])

    assert json.loads(made.subscribe(names, 7)) == {
        "type": "subscribe",
        "product_ids": ["BTC-USD", "币-USD"],
        "channels": [theirs, "heartbeat"],
    }
    assert json.loads(made.unsubscribe(names[:1], 8)) == {
        "type": "unsubscribe",
        "product_ids": ["BTC-USD"],
        "channels": [theirs],
    }


def test_what_is_not_offered_or_listed_is_never_asked_for() -> None:
    with pytest.raises(UnknownChannel, match="trades book_deltas"):
        dialect().streams("candles_1m", [BTC])
    with pytest.raises(UnknownSymbol):
        dialect().streams("trades", [Symbol("XBT", "USD")])


@pytest.mark.parametrize("kind", ["match", "last_match"])
def test_a_match_tells_the_takers_side(kind: str) -> None:
    trade = only(dialect().read(frame(MATCH, type=kind), AT_NS))

    assert isinstance(trade, Trade)
    assert (trade.id, trade.symbol, trade.taker) == (280232, SKL, "buy")
    assert (trade.price_text, trade.quantity_text) == ("0.00001305", "985")
    assert (trade.at_ns, trade.received_at_ns) == (1_618_677_817_089_723_000, AT_NS)
    assert only(dialect().read(frame(MATCH, side="buy"), AT_NS)).taker == "sell"


def test_a_ticker_is_numbered_by_its_sequence() -> None:
    ticker = only(dialect().read(frame(TICKER), AT_NS))

    assert isinstance(ticker, Ticker)
    assert (ticker.update_id, ticker.at_ns) == (333938798, 1_618_677_810_244_075_000)
    assert (ticker.bid_text, ticker.ask_text, ticker.last_text) == ("14.7550", "14.8060", "14.7775")
    assert (ticker.open_text, ticker.high_text, ticker.low_text) == ("14.6647", "16.55", "14.3691")
    assert ticker.bid_quantity_text is None
    newer = only(dialect().read(frame(TICKER, best_bid_size="3", best_ask_size="0.5"), AT_NS))
    assert (newer.bid_quantity_text, newer.ask_quantity_text) == ("3", "0.5")


def test_a_book_begins_whole_and_changes_by_sides() -> None:
    made = dialect()
    snapshot, delta = only(made.read(frame(SNAPSHOT), 1)), only(made.read(frame(UPDATE), 2))

    assert isinstance(snapshot, BookSnapshot)
    assert bytes(snapshot.asks_raw) == b'[["14.8024","12.77"]]'
    assert (snapshot.at_ms, snapshot.update_id) == (None, 0)
    assert isinstance(delta, BookDelta)
    assert bytes(delta.bids_raw) == b'[["14.71","3"],["14.6","0"]]'
    assert bytes(delta.asks_raw) == b'[["14.8024","0.0"]]'
    assert (delta.at_ns, delta.first_update_id) == (1_618_677_817_075_687_000, None)


def test_a_snapshot_tells_its_time_where_the_exchange_does() -> None:
    snapshot = only(dialect().read(frame(SNAPSHOT, time="2021-04-17T16:43:37.075687Z"), 1))
    assert snapshot.at_ms == 1_618_677_817_075


def test_a_heartbeat_says_nothing() -> None:
    beat = {"type": "heartbeat", "sequence": 90, "last_trade_id": 20, "product_id": "BTC-USD"}
    assert dialect().read(frame(beat), AT_NS) == []


def test_streams_are_acknowledged_by_being_listed() -> None:
    answer = listed(level2_batch=["SKL-BTC", "BTC-USD"], heartbeat=["BTC-USD"], ticker=["BTC-USD"])

    assert dialect().read(answer, AT_NS) == [
        Ack(None, ("level2_batch:SKL-BTC", "level2_batch:BTC-USD", "ticker:BTC-USD"))
    ]
    assert dialect().read(listed(level2=["BTC-USD"]), 1) == [Ack(None, ("level2_batch:BTC-USD",))]
    assert dialect().read(listed(heartbeat=["BTC-USD"]), AT_NS) == []


def test_a_list_of_what_nobody_asked_for_is_told() -> None:
    ack, unknown = dialect().read(listed(matches=["BTC-USD", "ETH-USD"], full=["BTC-USD"]), AT_NS)

    assert ack == Ack(None, ("matches:BTC-USD",))
    assert isinstance(unknown, Malformed)
    assert (unknown.reason, "matches:ETH-USD" in unknown.words) == ("not_asked_for", True)


def refused(reason: str) -> bytes:
    return frame({"type": "error", "message": "Failed to subscribe", "reason": reason})


def test_a_product_that_is_refused_by_name_is_the_one_at_fault() -> None:
    made = dialect()
    made.subscribe(["ticker:BTC-USD"], 6)
    made.subscribe(["matches:BTC-USD", "matches:SKL-BTC"], 7)
    words = "SKL-BTC is not a valid product"

    assert made.read(refused(words), AT_NS) == [
        Refusal(7, "Failed to subscribe", words, ("matches:SKL-BTC",))
    ]


def test_a_refusal_that_names_nothing_hits_the_oldest_request_without_an_answer() -> None:
    made = dialect()
    made.subscribe(["matches:BTC-USD"], 6)
    made.subscribe(["level2_batch:BTC-USD"], 7)
    made.subscribe(["ticker:BTC-USD"], 8)
    made.read(listed(matches=["BTC-USD"]), AT_NS)
    words = "level2, level3, and full channels now require authentication"

    assert made.read(refused(words), AT_NS) == [Refusal(7, "Failed to subscribe", words)]
    assert only(made.read(refused("no"), AT_NS)).request_id == 8
    assert only(made.read(refused("no"), AT_NS)) == Refusal(None, "Failed to subscribe", "no")


def test_a_delisted_product_does_not_keep_its_neighbours_waiting_for_long() -> None:
    machine = Connection(
        CoinbaseDialect(SYMBOLS), [Subscription("trades", (BTC, SKL))], lambda: 0.5
    )
    machine.start()
    machine.opened(AT_NS)
    machine.take_commands()
    machine.received(refused("SKL-BTC is not a valid product"), AT_NS + 1)
    sent = []
    for tenth in range(1, 60):
        machine.woken(AT_NS + tenth * 100_000_000)
        sent += [json.loads(each.text) for each in machine.take_commands() if type(each) is Send]

    assert ["BTC-USD"] in [message["product_ids"] for message in sent]
    assert ["SKL-BTC"] in [message["product_ids"] for message in sent]
    assert machine.state == "connected"
    assert {each.names for each in machine.refusals} == {("matches:SKL-BTC",)}


@pytest.mark.parametrize(
    ("message", "changed", "reason"),
    [
        (MATCH, {"trade_id": 280232.0}, "wrong_shape"),
        (MATCH, {"trade_id": "280232"}, "wrong_shape"),
        (MATCH, {"side": "long"}, "wrong_shape"),
        (MATCH, {"time": "2021-04-17T16:43:37"}, "wrong_shape"),
        (MATCH, {"price": "NaN"}, "not_a_number"),
        (MATCH, {"size": "-1"}, "not_a_number"),
        (MATCH, {"size": "1e3"}, "not_a_number"),
        (MATCH, {"price": 1.5}, "wrong_shape"),
        (MATCH, {"product_id": "ETH-USD"}, "not_asked_for"),
        (MATCH, {"product_id": "币-USD"}, "not_asked_for"),
        (TICKER, {"best_bid": ""}, "not_a_number"),
        (TICKER, {"best_ask_size": "."}, "not_a_number"),
        (SNAPSHOT, {"bids": [["1", "x"]]}, "not_a_number"),
        (SNAPSHOT, {"asks": {"1": "2"}}, "not_a_number"),
        (UPDATE, {"changes": [["buy", "1", "NaN"]]}, "not_a_number"),
        (UPDATE, {"changes": [["bid", "1", "2"]]}, "wrong_shape"),
        (UPDATE, {"changes": [["buy", "1"]]}, "wrong_shape"),
        (MATCH, {"type": "received"}, "unknown_message"),
        (MATCH, {"type": 7}, "wrong_shape"),
    ],
)
def test_what_is_wrong_with_a_frame_is_told(
    message: dict[str, Any], changed: dict[str, Any], reason: str
) -> None:
    said = only(dialect().read(frame(message, **changed), AT_NS))

    assert isinstance(said, Malformed)
    assert said.reason == reason, said


def test_a_frame_of_any_spelling_is_read_by_its_type() -> None:
    spaced = json.dumps(dict(reversed(MATCH.items())), indent=1)
    assert only(dialect().read(spaced, AT_NS)).id == 280232


def test_a_frame_beyond_all_measure_is_not_even_decoded() -> None:
    said = only(dialect().read(b'{"type":"match"' + b" " * LARGEST_FRAME, AT_NS))
    assert (said.reason, len(said.excerpt)) == ("too_large", 120)


prices = st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,8})?", fullmatch=True)


@given(st.lists(st.tuples(st.sampled_from(["buy", "sell"]), prices, prices), max_size=20))
def test_changes_reach_their_side_in_order_and_in_the_wires_digits(
    changes: list[tuple[str, str, str]],
) -> None:
    delta = only(dialect().read(frame(UPDATE, changes=changes), AT_NS))

    for side, raw in (("buy", delta.bids_raw), ("sell", delta.asks_raw)):
        assert json.loads(bytes(raw)) == [[p, q] for each, p, q in changes if each == side]


def with_books() -> Connection:
    """Two books, both begun ten seconds ago."""
    wanted = [Subscription("book_deltas", (BTC, SKL)), Subscription("trades", (BTC, SKL))]
    machine = Connection(CoinbaseDialect(SYMBOLS), wanted, lambda: 0.5)
    machine.start()
    machine.opened(AT_NS - 10_000_000_000)
    machine.woken(AT_NS - 9_000_000_000)
    both = ["BTC-USD", "SKL-BTC"]
    machine.received(listed(level2_batch=both, matches=both), AT_NS - 9_000_000_000)
    for native in both:
        machine.received(frame(SNAPSHOT, product_id=native), AT_NS - 9_000_000_000)
    machine.take_commands()
    return machine


@pytest.mark.parametrize(
    ("spoilt", "doubted"),
    [
        (frame(UPDATE, changes=[["buy", "1", "NaN"]]), {BTC}),
        (frame(UPDATE, product_id="SKL-BTC")[:-30], {SKL}),
        (frame(UPDATE)[:30], {BTC, SKL}),
        (b"<html>", {BTC, SKL}),
        (frame(MATCH)[:-30], set()),
        (frame(UPDATE, product_id="ETH-USD"), set()),
        (frame({"type": "status", "products": []}), set()),
    ],
)
def test_a_change_that_cannot_be_read_begins_its_book_again(
    spoilt: bytes, doubted: set[Symbol]
) -> None:
    machine = with_books()
    assert {book.state for book in machine.books.values()} == {"synced"}
    machine.received(spoilt, AT_NS)

    assert {symbol for symbol, book in machine.books.items() if book.state == "stale"} == doubted
    sent = [json.loads(each.text) for each in machine.take_commands() if type(each) is Send]
    assert bool(sent) == bool(doubted)
    assert all(message["type"] == "unsubscribe" for message in sent[:1])


def test_a_book_that_is_crossed_is_begun_again_by_itself() -> None:
    machine = with_books()
    machine.received(frame(UPDATE, changes=[["buy", "14.9", "1"]]), AT_NS)

    assert (machine.books[BTC].state, machine.books[SKL].state) == ("stale", "synced")
    assert "crossed" in machine.books[BTC].reason
    (first,) = [json.loads(each.text) for each in machine.take_commands() if type(each) is Send]
    assert first == {
        "type": "unsubscribe", "product_ids": ["BTC-USD"], "channels": ["level2_batch"],
    }  # fmt: skip
    machine.received(frame(SNAPSHOT), AT_NS + 1)
    assert machine.books[BTC].state == "synced"
