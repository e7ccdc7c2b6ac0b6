"""Requests for streams: whatever is asked for, again, anew or no longer, is worded validly."""

import json
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.exchanges import registry
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Dialect
from penstock.streaming.subscribe_requests import SECOND_NS, SubscribeRequests
from penstock.streaming.wanted import StreamKey, Subscriptions, WantedStreams

SYMBOLS = [Symbol(f"A{number}", "USD") for number in range(110)]
LISTED = [ListedMarket(f"A{number}-USD", symbol) for number, symbol in enumerate(SYMBOLS)]


def read_binance(text: str) -> tuple[str, set[str]]:
    request = json.loads(text)
    return request["method"].lower(), set(request["params"])


def read_kraken(text: str) -> tuple[str, set[str]]:
    request = json.loads(text)
    params = request["params"]
    kind = params["channel"]
    kind += f"-{params['interval']}" if "interval" in params else ""
    return request["method"], {f"{kind}:{symbol}" for symbol in params["symbol"]}


def read_coinbase(text: str) -> tuple[str, set[str]]:
    request = json.loads(text)
    (channel,) = {*request["channels"]} - {"heartbeat"}
    return request["type"], {f"{channel}:{product}" for product in request["product_ids"]}


def read_upbit(text: str) -> tuple[str, set[str]]:
    wanted = [each for each in json.loads(text) if "type" in each]
    assert len({each["type"] for each in wanted}) == len(wanted), "each type once"
    return "replace", {f"{each['type']}:{code}" for each in wanted for code in each["codes"]}


READ: dict[str, Callable[[str], tuple[str, set[str]]]] = {
    "binance": read_binance,
    "kraken": read_kraken,
    "coinbase": read_coinbase,
    "upbit": read_upbit,
}
NAMES = [name for name in registry.names() if name in READ]


def test_every_exchange_whose_streams_are_asked_for_is_here() -> None:
    assert set(NAMES) == set(registry.names())


def dialect_of(name: str) -> Dialect:
    return registry.load(name).dialect(SymbolMap(name, LISTED))


def sent(asking: SubscribeRequests, at_ns: int) -> Iterator[str]:
    """Every message of the next minute; no two closer than the exchange allows."""
    for step in range(600):
        due = asking.take_due(at_ns + step * SECOND_NS // 10)
        assert len(due) <= 1, "evenly spaced"
        yield from (text for text, _ in due)


class Exchange:
    """What an exchange makes of the messages it is sent."""

    def __init__(self, name: str, dialect: Dialect) -> None:
        self._name, self._limits = name, dialect.limits
        self.streams: set[str] = set()
        self.asked: list[str] = []
        """Names asked for, in order."""

    def take(self, text: str) -> None:
        kind, names = READ[self._name](text)
        assert names, "a message that asks for nothing"
        if kind == "replace":
            assert len(names) <= self._limits.streams_per_connection
            self.asked += sorted(names - self.streams)
            self.streams = names
            return
        assert len(names) <= self._limits.names_per_message
        if kind == "subscribe":
            self.asked += sorted(names)
            self.streams |= names
        else:
            self.streams -= names


def places_of(name: str) -> st.SearchStrategy[list[StreamKey]]:
    channels = st.sampled_from(dialect_of(name).channels)
    few = st.lists(st.tuples(channels, st.sampled_from(SYMBOLS[:6])), min_size=1, max_size=12)
    many = st.lists(channels, min_size=1, max_size=2, unique=True).map(
        lambda some: [(channel, symbol) for channel in some for symbol in SYMBOLS]
    )
    return st.one_of(few, few, many).map(lambda places: list(dict.fromkeys(places)))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(st.data())
def test_what_is_asked_for_again_is_asked_for_in_valid_messages_and_nothing_else_is(
    name: str, data: st.DataObject
) -> None:
    dialect = dialect_of(name)
    wanted = WantedStreams(dialect)
    places = data.draw(places_of(name))
    for subscription in Subscriptions.of(places):
        wanted.add(subscription)
    names, asking = wanted.names(places), SubscribeRequests(dialect, wanted.group_of)
    exchange, at_ns = Exchange(name, dialect), 0
    asking.ask(names)
    for text in sent(asking, at_ns):
        exchange.take(text)
    assert exchange.streams == set(names)
    assert sorted(exchange.asked) == sorted(names), "each is asked for once"

    again = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=20, unique=True))
    way = data.draw(st.sampled_from(["later", "halves", "anew", "ended"]))
    at_ns += 100 * SECOND_NS
    asking.answered(None, names)
    exchange.asked.clear()
    if way == "later":
        asking.ask_later(again, at_ns)
    elif way == "halves":
        asking.ask_halves(again)
    elif way == "anew":
        for each in again:
            asking.resubscribe(each)
    else:
        asking.end(again)
    for text in sent(asking, at_ns):
        exchange.take(text)

    if way == "ended":
        # A request that would name nothing cannot be sent: the connection is closed instead.
        left = set(names) - set(again)
        assert exchange.streams == left or (not left and name == "upbit")
        assert not exchange.asked
    else:
        assert exchange.streams == set(names)
        if name != "upbit":  # whose requests name everything in any case
            assert sorted(exchange.asked) == sorted(again)
