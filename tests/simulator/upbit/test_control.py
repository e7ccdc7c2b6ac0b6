"""What a client may say: an array that is obeyed in silence, or an error and no change."""

import json
from itertools import product
from typing import Any

import pytest

from penstock.config import SimulatedUpbit, Simulator
from penstock.simulator.engine.exchange import Asked, Subscriber
from penstock.simulator.upbit import Upbit
from penstock.simulator.upbit.control import TYPES, Stream, read_name
from penstock.simulator.upbit.formats import FORMATS
from penstock.simulator.upbit.instrument import Instrument

TICKET = {"ticket": "one"}


def _say(exchange: Upbit, subscriber: Subscriber, *parts: object) -> list[Any]:
    replies = exchange.control(json.dumps(parts), subscriber, 0)
    assert not any(reply.acknowledges for reply in replies)
    return [json.loads(reply.text) for reply in replies]


def _streams(exchange: Upbit, *parts: object) -> list[str]:
    subscriber = Subscriber()
    assert _say(exchange, subscriber, TICKET, *parts) == [], "success is silent"
    assert subscriber.renewed == set(subscriber.streams)
    return list(subscriber.streams)


def test_a_request_names_types_and_codes(exchange: Upbit) -> None:
    streams = _streams(
        exchange,
        {"type": "trade", "codes": ["KRW-BTC", "BTC-ETH"], "is_only_realtime": True},
        {"type": "orderbook", "codes": ["KRW-BTC.15"], "level": 0},
        {"type": "ticker", "codes": ["KRW-BTC"], "isOnlySnapshot": True},
        {"type": "candle.1m", "codes": ["KRW-BTC"]},
    )

    assert streams == [
        "trade:KRW-BTC:DEFAULT:realtime",
        "trade:BTC-ETH:DEFAULT:realtime",
        "orderbook:KRW-BTC.15",
        "ticker:KRW-BTC:DEFAULT:snapshot",
        "candle.1m:KRW-BTC",
    ]
    assert all(exchange.feed(stream) is not None for stream in streams)


def test_the_format_may_stand_anywhere(exchange: Upbit) -> None:
    streams = _streams(
        exchange,
        {"format": "SIMPLE"},
        {"type": "trade", "codes": ["KRW-BTC"], "isOnlyRealtime": True},
    )

    assert streams == ["trade:KRW-BTC:SIMPLE:realtime"]


def test_a_name_says_all_that_shapes_a_stream() -> None:
    for kind, form, part in product(TYPES, FORMATS, ("", "realtime", "snapshot")):
        stream = Stream(kind, "KRW-BTC.5", form, part)
        assert read_name(stream.name) == stream


def test_a_new_request_takes_the_place_of_the_old(
    exchange: Upbit, instruments: dict[str, Instrument]
) -> None:
    lasting = Upbit(
        list(instruments.values()), Simulator(upbit=SimulatedUpbit(requests_replace=False))
    )
    trade, ticker = ({"type": kind, "codes": ["KRW-BTC"]} for kind in ("trade", "ticker"))

    replaced, kept = Subscriber(), Subscriber()
    for one, subscriber in ((exchange, replaced), (lasting, kept)):
        _say(one, subscriber, TICKET, trade)
        _say(one, subscriber, TICKET, ticker)

    assert list(replaced.streams) == ["ticker:KRW-BTC"]
    assert list(kept.streams) == ["trade:KRW-BTC", "ticker:KRW-BTC"]


def test_a_market_that_is_not_listed_is_passed_over(exchange: Upbit) -> None:
    streams = _streams(exchange, {"type": "trade", "codes": ["KRW-NO", "krw-btc", "KRW-BTC"]})

    assert streams == ["trade:KRW-BTC"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{", "WRONG_FORMAT"),
        ("{}", "WRONG_FORMAT"),
        ("[1]", "WRONG_FORMAT"),
        ("\ud800", "WRONG_FORMAT"),
        ("[]", "NO_TICKET"),
        ('[{"type":"trade","codes":["KRW-BTC"]}]', "NO_TICKET"),
        ('[{"ticket":"x"}]', "NO_TYPE"),
        ('[{"ticket":"x"},{"codes":["KRW-BTC"]}]', "NO_TYPE"),
        ('[{"ticket":"x"},{"type":"trade"}]', "NO_CODES"),
        ('[{"ticket":"x"},{"type":"trade","codes":[]}]', "NO_CODES"),
        ('[{"ticket":"x"},{"type":"gossip","codes":["KRW-BTC"]}]', "INVALID_PARAM"),
        ('[{"ticket":"x"},{"type":["trade"],"codes":["KRW-BTC"]}]', "INVALID_PARAM"),
        ('[{"ticket":"x"},{"type":"trade","codes":"KRW-BTC"}]', "INVALID_PARAM"),
        ('[{"ticket":"x"},{"type":"trade","codes":[1]}]', "INVALID_PARAM"),
        (
            '[{"ticket":"x"},{"type":"trade","codes":["KRW-BTC"],"is_only_realtime":1}]',
            "INVALID_PARAM",
        ),
        ('[{"ticket":"x"},{"type":"trade","codes":["KRW-BTC"]},{"format":"XML"}]', "WRONG_FORMAT"),
        ('[{"ticket":"x"},{"type":"trade","codes":["KRW-BTC"]},{"format":[]}]', "WRONG_FORMAT"),
    ],
)
def test_a_request_that_is_wrong_changes_nothing(exchange: Upbit, text: str, name: str) -> None:
    subscriber = Subscriber({"ticker:KRW-BTC": None})

    (reply,) = exchange.control(text, subscriber, 0)

    error = json.loads(reply.text)["error"]
    assert error["name"] == name
    assert error["message"]
    assert list(subscriber.streams) == ["ticker:KRW-BTC"]
    assert not subscriber.renewed


def test_a_client_may_ask_what_it_has(exchange: Upbit) -> None:
    subscriber = Subscriber()
    codes = ["KRW-BTC", "BTC-ETH"]
    _say(exchange, subscriber, TICKET, {"type": "trade", "codes": codes}, {"format": "SIMPLE"})

    (told,) = _say(exchange, subscriber, {"ticket": "two"}, {"method": "LIST_SUBSCRIPTIONS"})

    assert told == {
        "method": "LIST_SUBSCRIPTIONS",
        "result": [{"type": "trade", "codes": codes}],
        "ticket": "two",
    }
    assert len(subscriber.streams) == 2


def test_a_ping_is_answered(exchange: Upbit) -> None:
    (reply,) = exchange.control("PING", Subscriber(), 0)

    assert reply.text == b'{"status":"UP"}'


def test_streams_have_one_path(exchange: Upbit) -> None:
    here, page = (
        exchange.open("/websocket/v1", Asked({}, headers)) for headers in ({}, {"Origin": "x"})
    )

    assert here is not None
    assert page is not None
    assert (here.group, page.group) == ("websocket-connect", "origin")
    assert exchange.open("/websocket/v2", Asked({})) is None
    assert json.loads(exchange.refuse_ack(b""))["error"]["name"] == "WRONG_FORMAT"
