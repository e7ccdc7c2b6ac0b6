"""Subscribing and unsubscribing: one acknowledgement of everything, or an error and no change."""

import base64
from typing import Any

import msgspec
import pytest

from penstock.simulator.coinbase import Coinbase
from penstock.simulator.engine.exchange import Asked, Subscriber

SIGNED = {
    "key": "anybody",
    "passphrase": "anything",
    "timestamp": "1741178096",
    "signature": base64.b64encode(bytes(32)).decode(),
}


def _say(exchange: Coinbase, subscriber: Subscriber, message: object) -> dict[str, Any]:
    text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    (reply,) = exchange.control(text, subscriber, 0)
    told: dict[str, Any] = msgspec.json.decode(reply.text)
    assert reply.acknowledges == (told["type"] == "subscriptions")
    return told


def _subscribe(*channels: object, **more: object) -> dict[str, object]:
    return {"type": "subscribe", "channels": list(channels), **more}


def _listed(told: dict[str, Any]) -> dict[str, set[str]]:
    assert told["type"] == "subscriptions"
    return {each["name"]: set(each["product_ids"]) for each in told["channels"]}


def test_an_acknowledgement_tells_all_that_the_connection_has(exchange: Coinbase) -> None:
    subscriber = Subscriber()
    _say(exchange, subscriber, _subscribe("matches", product_ids=["BTC-USD"]))

    told = _say(
        exchange,
        subscriber,
        _subscribe(
            "heartbeat",
            {"name": "ticker", "product_ids": ["SHIB-USD"]},
            product_ids=["ETH-BTC", "1INCH-USD"],
        ),
    )

    assert _listed(told) == {
        "matches": {"BTC-USD"},
        "heartbeat": {"ETH-BTC", "1INCH-USD"},
        "ticker": {"SHIB-USD", "ETH-BTC", "1INCH-USD"},
    }
    assert len(subscriber.streams) == 6
    assert "ticker:SHIB-USD" in subscriber.streams


def test_a_product_is_left_alone_or_a_channel_wholly(exchange: Coinbase) -> None:
    subscriber = Subscriber()
    everything = _subscribe("matches", "ticker", product_ids=["BTC-USD", "ETH-BTC"])
    _say(exchange, subscriber, everything)

    one = {"type": "unsubscribe", "channels": ["matches"], "product_ids": ["BTC-USD", "NO-SUCH"]}
    assert _listed(_say(exchange, subscriber, one)) == {
        "matches": {"ETH-BTC"},
        "ticker": {"BTC-USD", "ETH-BTC"},
    }
    rest = {"type": "unsubscribe", "channels": ["ticker", {"name": "matches"}]}
    assert _listed(_say(exchange, subscriber, rest)) == {}
    assert not subscriber.streams


@pytest.mark.parametrize("channel", ["level2", "level3", "full"])
def test_some_channels_want_a_signature(exchange: Coinbase, channel: str) -> None:
    subscriber = Subscriber()

    told = _say(exchange, subscriber, _subscribe("matches", channel, product_ids=["BTC-USD"]))

    assert (told["type"], told["message"]) == ("error", "Failed to subscribe")
    assert told["reason"].startswith("level2, level3, and full channels now require authentication")
    assert not subscriber.streams, "not even what came before it"


def test_any_signature_that_looks_like_one_is_accepted(exchange: Coinbase) -> None:
    subscriber = Subscriber()

    told = _say(exchange, subscriber, _subscribe("level2", product_ids=["BTC-USD"], **SIGNED))

    assert _listed(told) == {"level2": {"BTC-USD"}}
    numbered = {**SIGNED, "timestamp": 1741178096.5}
    told = _say(exchange, subscriber, _subscribe("user", product_ids=["BTC-USD"], **numbered))
    assert "user" in _listed(told)
    assert exchange.feed("user:BTC-USD") is None, "nobody has an account"


@pytest.mark.parametrize(
    "spoiled",
    [
        {"signature": "!!"},
        {"signature": base64.b64encode(bytes(31)).decode()},
        {"signature": None},
        {"timestamp": "now"},
        {"key": ""},
        {"passphrase": 7},
    ],
)
def test_what_does_not_look_like_a_signature_fails(
    exchange: Coinbase, spoiled: dict[str, object]
) -> None:
    message = _subscribe("level2", product_ids=["BTC-USD"], **{**SIGNED, **spoiled})

    told = _say(exchange, Subscriber(), message)

    assert told["message"] == "Authentication Failed"
    assert "message" in msgspec.json.decode(told["reason"])


@pytest.mark.parametrize(
    ("message", "said", "reason"),
    [
        ("{", "Malformed JSON", None),
        ("\ud800", "Malformed JSON", None),
        ([], "Type has to be either subscribe or unsubscribe", None),
        ({"type": "hello"}, "Type has to be either subscribe or unsubscribe", None),
        ({"type": "subscribe"}, "Failed to subscribe", "No channels provided"),
        (_subscribe("matches"), "Failed to subscribe", "matches needs product_ids"),
        (
            _subscribe("matches", product_ids=["BTC-USD", "XXX-YYY"]),
            "Failed to subscribe",
            "XXX-YYY is not a valid product",
        ),
        (
            _subscribe("gossip", product_ids=["BTC-USD"]),
            "Failed to subscribe",
            "gossip is not a valid channel",
        ),
        (
            _subscribe("full", product_ids=["BTC-USD"], **SIGNED),
            "Failed to subscribe",
            "full is not a valid channel",
        ),
        (_subscribe(7, product_ids=["BTC-USD"]), "Failed to subscribe", "Invalid channel"),
        (
            _subscribe("matches", product_ids="BTC-USD"),
            "Failed to subscribe",
            "Invalid product_ids",
        ),
    ],
)
def test_a_message_that_is_wrong_changes_nothing(
    exchange: Coinbase, message: object, said: str, reason: str | None
) -> None:
    subscriber = Subscriber({"ticker:BTC-USD": None})

    told = _say(exchange, subscriber, message)

    assert (told["type"], told["message"], told.get("reason")) == ("error", said, reason)
    assert list(subscriber.streams) == ["ticker:BTC-USD"]


def test_the_status_needs_no_product(exchange: Coinbase) -> None:
    subscriber = Subscriber()

    assert _listed(_say(exchange, subscriber, _subscribe("status"))) == {"status": set()}
    assert list(subscriber.streams) == ["status"]


def test_the_feed_is_at_the_root(exchange: Coinbase) -> None:
    assert exchange.open("/", Asked({})) is not None
    assert exchange.open("/ws", Asked({})) is None
    assert exchange.greeting(1, 0) == []


def test_a_refused_acknowledgement_is_an_error(exchange: Coinbase) -> None:
    told = msgspec.json.decode(exchange.refuse_ack(b"{}"))

    assert (told["type"], told["message"]) == ("error", "Failed to subscribe")
