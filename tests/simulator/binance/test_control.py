"""Addresses and messages of stream clients, and what the exchange says back."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.binance import Binance
from penstock.simulator.engine.exchange import Asked, Subscriber


def say(exchange: Binance, subscriber: Subscriber, message: object) -> Any:
    """One message as text or as a value, and its one answer."""
    text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    (reply,) = exchange.control(text, subscriber)
    return msgspec.json.decode(reply.text)


@pytest.mark.parametrize(
    ("path", "query", "streams", "wrapped"),
    [
        ("/ws", {}, (), False),
        ("/ws/", {}, (), False),
        ("/ws/btcusdt@trade", {}, ("btcusdt@trade",), False),
        (
            "/ws/btcusdt@trade/ethbtc@depth@100ms",
            {},
            ("btcusdt@trade", "ethbtc@depth@100ms"),
            False,
        ),
        ("/ws/btcusdt%40trade", {}, ("btcusdt@trade",), False),
        ("/ws/btcusdt@kline_1d@+08:00", {}, ("btcusdt@kline_1d@+08:00",), False),
        ("/ws/0", {}, ("0",), False),
        ("/stream", {"streams": "a@trade/b@trade"}, ("a@trade", "b@trade"), True),
        ("/stream", {"streams": "a%40trade"}, ("a@trade",), True),
        ("/stream", {"streams": "a@kline_1d@ 08:00"}, ("a@kline_1d@+08:00",), True),
        ("/stream", {"streams": "a@trade/a@trade"}, ("a@trade",), True),
        ("/stream", {}, (), True),
    ],
)
def test_an_address_says_what_is_asked_for(
    exchange: Binance, path: str, query: dict[str, str], streams: tuple[str, ...], wrapped: bool
) -> None:
    assert exchange.open(path, Asked(query)) == (streams, wrapped, "", "")


@pytest.mark.parametrize("path", ["/", "/api/v3/ping", "/stream/a", "/wss", ""])
def test_there_is_nothing_at_other_addresses(exchange: Binance, path: str) -> None:
    assert exchange.open(path, Asked({})) is None


def test_subscriptions_come_and_go_and_are_listed_in_order(exchange: Binance) -> None:
    subscriber = Subscriber()

    def params(*names: str) -> dict[str, object]:
        return {"params": list(names), "id": 1}

    assert say(exchange, subscriber, {"method": "SUBSCRIBE", **params("b@trade", "a@depth")}) == {
        "result": None,
        "id": 1,
    }
    say(exchange, subscriber, {"method": "SUBSCRIBE", **params("b@trade", "no such stream")})
    say(exchange, subscriber, {"method": "UNSUBSCRIBE", **params("a@depth", "never@there")})

    assert list(subscriber.streams) == ["b@trade", "no such stream"]
    assert say(exchange, subscriber, {"method": "LIST_SUBSCRIPTIONS", "id": 3}) == {
        "result": ["b@trade", "no such stream"],
        "id": 3,
    }


def test_the_envelope_can_be_switched_on_and_off(exchange: Binance) -> None:
    subscriber = Subscriber()
    switch = {"method": "SET_PROPERTY", "params": ["combined", True], "id": 5}
    ask = {"method": "GET_PROPERTY", "params": ["combined"], "id": 2}

    assert say(exchange, subscriber, ask) == {"result": False, "id": 2}
    assert say(exchange, subscriber, switch) == {"result": None, "id": 5}
    assert subscriber.wrapped
    assert say(exchange, subscriber, ask) == {"result": True, "id": 2}


@pytest.mark.parametrize("request_id", [0, -5, 2**63 - 1, "abc123", "a-b_c", None])
def test_an_id_comes_back_as_it_was_sent(exchange: Binance, request_id: object) -> None:
    message = {"method": "LIST_SUBSCRIPTIONS", "id": request_id}

    assert say(exchange, Subscriber(), message) == {"result": [], "id": request_id}


@pytest.mark.parametrize("request_id", [1.5, True, [1], {"a": 1}, "x" * 37, "", 2**63])
def test_an_id_of_another_kind_is_refused(exchange: Binance, request_id: object) -> None:
    message = {"method": "SUBSCRIBE", "params": ["a@trade"], "id": request_id}
    subscriber = Subscriber()

    assert say(exchange, subscriber, message) == {
        "error": {
            "code": 2,
            "msg": "Invalid request: request ID must be an unsigned integer",
        },
        "id": None,
    }
    assert not subscriber.streams


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        ({"method": "GET_PROPERTY", "params": ["color"]}, 0, "Unknown property"),
        ({"method": "SET_PROPERTY", "params": ["combined", 1]}, 1, "expected Boolean"),
        ({"method": "SET_PROPERTY", "params": ["combined"]}, 1, "expected Boolean"),
        ({"method": "SET_PROPERTY", "params": [7, True]}, 2, "property name must be a string"),
        ({"method": "GET_PROPERTY"}, 2, "property name must be a string"),
        ({"method": "GET_PROPERTY", "params": ["combined", 1]}, 2, "too many parameters"),
        ({"method": "LIST_SUBSCRIPTIONS", "params": ["a"]}, 2, "too many parameters"),
        ({"method": "subscribe", "params": ["a"]}, 2, "unknown variant `subscribe`"),
        ({"method": None}, 2, "unknown variant"),
        ({"method": ["SUBSCRIBE"]}, 2, "unknown variant"),
        ({"params": ["a"]}, 2, "missing field `method`"),
        ({"method": "SUBSCRIBE", "params": [5]}, 2, "must be a string"),
        ({"method": "SUBSCRIBE", "params": "a@trade"}, 2, "must be an array"),
        ({"method": "SUBSCRIBE"}, 2, "must be a string"),
    ],
)
def test_a_wrong_request_is_answered_with_a_wrapped_error(
    exchange: Binance, message: dict[str, object], code: int, text: str
) -> None:
    answer = say(exchange, Subscriber(), {**message, "id": 9})

    assert (answer["error"]["code"], answer["id"]) == (code, 9)
    assert text in answer["error"]["msg"]


def test_what_is_not_json_is_answered_with_a_flat_error(exchange: Binance) -> None:
    assert say(exchange, Subscriber(), "{oops") == {
        "code": 3,
        "msg": "Invalid JSON: expected value at line 1 column 1",
    }


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: msgspec.json.encode(value).decode())
    | st.fixed_dictionaries(
        {"method": st.sampled_from(["SUBSCRIBE", "SET_PROPERTY", 5]), "params": st.lists(st.text())}
    ).map(lambda value: msgspec.json.encode(value).decode())
)
def test_every_message_has_exactly_one_answer(exchange: Binance, text: str) -> None:
    (reply,) = exchange.control(text, Subscriber())

    answer = msgspec.json.decode(reply.text)
    assert reply.acknowledges == (answer.get("result", 0) is None)


def test_only_what_changes_something_is_acknowledged(exchange: Binance) -> None:
    def acknowledges(message: dict[str, object]) -> bool:
        (reply,) = exchange.control(msgspec.json.encode(message).decode(), Subscriber())
        return reply.acknowledges

    assert acknowledges({"method": "SUBSCRIBE", "params": ["a"], "id": 1})
    assert acknowledges({"method": "UNSUBSCRIBE", "params": ["a"], "id": 1})
    assert acknowledges({"method": "SET_PROPERTY", "params": ["combined", True], "id": 1})
    assert not acknowledges({"method": "LIST_SUBSCRIPTIONS", "id": 1})
    assert not acknowledges({"method": "SUBSCRIBE", "params": [], "id": 1})


def test_a_refused_acknowledgement_keeps_its_id(exchange: Binance) -> None:
    refused = msgspec.json.decode(exchange.refuse_ack(b'{"result":null,"id":"x1"}'))

    assert refused["id"] == "x1"
    assert refused["error"]["code"] == 2


def test_the_envelope_names_the_stream(exchange: Binance) -> None:
    wrapped = exchange.wrap("币安人生usdt@trade", b'{"e":"trade"}')

    assert msgspec.json.decode(wrapped) == {
        "stream": "币安人生usdt@trade",
        "data": {"e": "trade"},
    }


def test_a_planned_stop_is_announced(exchange: Binance) -> None:
    stream, payload = exchange.shutdown_notice(1_770_123_456_789)

    assert stream == "!serverShutdown"
    assert payload == b'{"e":"serverShutdown","E":1770123456789}'
