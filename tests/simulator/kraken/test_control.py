"""What clients say and hear: one answer for each pair, and refusals in Kraken's words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.engine.exchange import Asked, Opening, Subscriber
from penstock.simulator.kraken import Kraken

AT_MS = 1_741_178_096_789


def _say(
    exchange: Kraken, subscriber: Subscriber, method: str = "subscribe", **params: Any
) -> list[Any]:
    message = json.dumps({"method": method, "params": params, "req_id": 7})
    replies = exchange.control(message, subscriber, AT_MS)
    said = [json.loads(reply.text) for reply in replies]
    for reply, answer in zip(replies, said, strict=True):
        assert answer.pop("req_id") == 7
        assert answer["time_in"] < answer["time_out"]
        assert (
            answer.pop("time_in")[:23] == answer.pop("time_out")[:23] == "2025-03-05T12:34:56.789"
        )
        assert reply.acknowledges == answer["success"]
    return said


def test_there_is_one_address_and_the_first_word_is_the_exchanges(exchange: Kraken) -> None:
    assert exchange.open("/v2", Asked({})) == Opening((), wrapped=False)
    assert exchange.open("/", Asked({})) is None
    (frame,) = exchange.greeting(3, AT_MS)
    status = json.loads(frame)

    (data,) = status.pop("data")
    assert status == {"channel": "status", "type": "update"}
    assert data.pop("connection_id") > 2**53
    assert data == {"version": "2.0.10", "system": "online", "api_version": "v2"}
    assert exchange.greeting(4, AT_MS) != exchange.greeting(3, AT_MS)


def test_each_pair_is_answered_for_itself(exchange: Kraken) -> None:
    subscriber = Subscriber()
    symbols = ["ETH/USD", "XBT/EUR", "BTC/EUR"]

    answers = _say(exchange, subscriber, channel="book", symbol=symbols, depth=25)

    assert answers == [
        {
            "method": "subscribe",
            "result": {"channel": "book", "depth": 25, "snapshot": True, "symbol": "ETH/USD"},
            "success": True,
        },
        {
            "error": "Currency pair not supported XBT/EUR",
            "method": "subscribe",
            "success": False,
            "symbol": "XBT/EUR",
        },
        {
            "method": "subscribe",
            "result": {"channel": "book", "depth": 25, "snapshot": True, "symbol": "BTC/EUR"},
            "success": True,
        },
    ]
    assert list(subscriber.streams) == [
        "book-25/ETH/USD+snapshot",
        "book-25/BTC/EUR+snapshot",
        "heartbeat",
    ]
    for stream in subscriber.streams:
        assert exchange.feed(stream) is not None


@pytest.mark.parametrize(
    ("params", "result", "stream"),
    [
        ({"channel": "trade"}, {"snapshot": False}, "trade/ETH/USD"),
        (
            {"channel": "trade", "snapshot": True},
            {"snapshot": True},
            "trade/ETH/USD+snapshot",
        ),
        (
            {"channel": "ticker"},
            {"event_trigger": "trades", "snapshot": True},
            "ticker-trades/ETH/USD+snapshot",
        ),
        ({"channel": "book"}, {"depth": 10, "snapshot": True}, "book-10/ETH/USD+snapshot"),
        (
            {"channel": "book", "depth": 1000, "snapshot": False},
            {"depth": 1000, "snapshot": False},
            "book-1000/ETH/USD",
        ),
        (
            {"channel": "ohlc", "interval": 60},
            {
                "interval": 60,
                "snapshot": True,
                "warnings": ["timestamp is deprecated, use interval_begin"],
            },
            "ohlc-60/ETH/USD+snapshot",
        ),
    ],
)
def test_options_have_their_usual_values_and_are_told(
    exchange: Kraken, params: dict[str, Any], result: dict[str, Any], stream: str
) -> None:
    subscriber = Subscriber()

    (answer,) = _say(exchange, subscriber, symbol=["ETH/USD"], **params)

    assert answer["result"] == {"channel": params["channel"], "symbol": "ETH/USD", **result}
    assert list(subscriber.streams) == [stream, "heartbeat"]


def test_instruments_have_no_pair_and_one_answer(exchange: Kraken) -> None:
    subscriber = Subscriber()

    (answer,) = _say(exchange, subscriber, channel="instrument")

    assert answer["result"] == {"channel": "instrument", "snapshot": True}
    assert list(subscriber.streams) == ["instrument+snapshot", "heartbeat"]


def test_what_is_subscribed_to_cannot_be_again_in_whatever_depth(exchange: Kraken) -> None:
    subscriber = Subscriber()
    _say(exchange, subscriber, channel="book", symbol=["ETH/USD"], depth=10)
    _say(exchange, subscriber, channel="ohlc", symbol=["ETH/USD"], interval=1)

    (again,) = _say(exchange, subscriber, channel="book", symbol=["ETH/USD"], depth=100)
    (other,) = _say(exchange, subscriber, channel="ohlc", symbol=["ETH/USD"], interval=5)

    assert again == {
        "error": "Already subscribed",
        "method": "subscribe",
        "success": False,
        "symbol": "ETH/USD",
    }
    assert other["success"]


def test_leaving_needs_the_same_options_and_ends_the_heartbeat_with_the_last_stream(
    exchange: Kraken,
) -> None:
    subscriber = Subscriber()
    _say(exchange, subscriber, channel="book", symbol=["ETH/USD"], depth=25)

    (wrong,) = _say(exchange, subscriber, "unsubscribe", channel="book", symbol=["ETH/USD"])
    (right,) = _say(
        exchange, subscriber, "unsubscribe", channel="book", symbol=["ETH/USD"], depth=25
    )

    assert wrong["error"] == "Subscription Not Found"
    assert right == {
        "method": "unsubscribe",
        "result": {"channel": "book", "depth": 25, "symbol": "ETH/USD"},
        "success": True,
    }
    assert not subscriber.streams


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"channel": "book", "depth": 11}, "Subscription depth not supported"),
        ({"channel": "book", "depth": True}, "Subscription depth not supported"),
        ({"channel": "ohlc", "interval": 7}, "Subscription ohlc interval not supported"),
        ({"channel": "ticker", "event_trigger": "x"}, "Subscription event_trigger not supported"),
        ({"channel": "gossip"}, "Channel not supported"),
        ({}, "Channel not supported"),
        ({"channel": ["book"]}, "Channel not supported"),
        ({"channel": "trade", "symbol": "ETH/USD"}, "Malformed request"),
        ({"channel": "trade", "symbol": []}, "Malformed request"),
        ({"channel": "trade", "symbol": [7]}, "Malformed request"),
        ({"channel": "trade", "snapshot": "yes"}, "Malformed request"),
    ],
)
def test_a_request_that_is_wrong_as_a_whole_is_refused_once_without_a_pair(
    exchange: Kraken, params: dict[str, Any], error: str
) -> None:
    subscriber = Subscriber()

    answers = _say(exchange, subscriber, **{"symbol": ["ETH/USD", "BTC/EUR"], **params})

    assert answers == [{"error": error, "method": "subscribe", "success": False}]
    assert not subscriber.streams


def test_a_ping_is_answered_with_its_number(exchange: Kraken) -> None:
    (reply,) = exchange.control('{"method":"ping","req_id":101}', Subscriber(), AT_MS)

    assert reply.text.startswith(b'{"method":"pong","req_id":101,"time_in":"2025-03-05T12:34:56.')
    assert not reply.acknowledges


@given(
    st.text()
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(json.dumps)
)
def test_nothing_a_client_says_breaks_the_exchange(exchange: Kraken, text: str) -> None:
    (reply,) = exchange.control(text, Subscriber(), AT_MS)

    answer = json.loads(reply.text)
    assert (answer["error"], answer["success"]) == ("Malformed request", False)
    assert exchange.overrun(text)


def test_an_acknowledgement_can_be_turned_into_a_refusal(exchange: Kraken) -> None:
    message = '{"method":"subscribe","params":{"channel":"trade","symbol":["ETH/USD"]},"req_id":1}'
    (reply,) = exchange.control(message, Subscriber(), AT_MS)

    refusal = json.loads(exchange.refuse_ack(reply.text))

    assert (refusal["success"], refusal["symbol"], refusal["req_id"]) == (False, "ETH/USD", 1)
    assert refusal["error"] == "Exceeded msg rate"
    assert "result" not in refusal


def test_a_stop_is_announced_by_the_status(exchange: Kraken) -> None:
    notice = exchange.shutdown_notice(AT_MS)

    assert notice is not None
    stream, payload = notice
    assert stream == "status"
    assert json.loads(payload)["data"][0]["system"] == "maintenance"
