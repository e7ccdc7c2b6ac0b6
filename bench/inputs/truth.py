"""What a program saw in the inputs, sealed so that two programs can be compared.

Numbers are compared as the exact decimals they are: "1.10" is "1.1", and 1.1 as a binary float is
neither. The truth comes from the plainest replay there is: a dict per side, and nothing clever.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal

from bench.inputs.stored import Inputs

Level = tuple[Decimal, Decimal]
Seal = Mapping[str, str | int]
"""Counts and digests by what they are of."""

_UNITS = Decimal(10) ** 8


class Testimony:
    """Everything one program says it saw, in order."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._digests = {
            name: hashlib.sha256() for name in ("trades", "tickers", "touches", "books")
        }

    def trade(self, name: str, trade_id: int | None, price: Decimal, quantity: Decimal) -> None:
        """A trade, or several told as one; without an id where a format has none."""
        self._say("trades", name, str(trade_id), _plain(price), _plain(quantity))

    def ticker(self, name: str, bid: Decimal, ask: Decimal) -> None:
        """Best prices, as the exchange told them."""
        self._say("tickers", name, _plain(bid), _plain(ask))

    def touch(self, name: str, bid: Level, ask: Level) -> None:
        """The best levels of a book right after a change."""
        self._say("touches", name, *map(_plain, bid), *map(_plain, ask))

    def book(self, name: str, bids: Iterable[Level], asks: Iterable[Level]) -> None:
        """A whole book in the end, best levels first; markets in alphabetical order."""
        for side in (bids, asks):
            self._say("books", name, *(_plain(number) for level in side for number in level))

    def seal(self) -> Seal:
        """What can be compared."""
        return {
            **{f"{name}_digest": each.hexdigest()[:16] for name, each in self._digests.items()},
            **dict(sorted(self._counts.items())),
        }

    def _say(self, name: str, *words: str) -> None:
        self._counts[name] += 1
        self._digests[name].update(" ".join((*words, "\n")).encode())


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


class _Book:
    """Two dicts: quantity by price, both in hundred-millionths."""

    def __init__(self, snapshot: str) -> None:
        data = json.loads(snapshot)
        self.update_id: int = data["lastUpdateId"]
        self._bids: dict[int, int] = {}
        self._asks: dict[int, int] = {}
        self.change(data["bids"], data["asks"])

    def change(self, bids: Iterable[list[str]], asks: Iterable[list[str]]) -> None:
        for side, levels in ((self._bids, bids), (self._asks, asks)):
            for price, quantity in levels:
                side[_units(price)] = _units(quantity)
                if not side[_units(price)]:
                    del side[_units(price)]

    def touch(self) -> tuple[Level, Level]:
        bid, ask = max(self._bids), min(self._asks)
        assert bid < ask, "the inputs cross"
        return _level(bid, self._bids[bid]), _level(ask, self._asks[ask])

    def sides(self) -> tuple[list[Level], list[Level]]:
        bids = [_level(price, self._bids[price]) for price in sorted(self._bids, reverse=True)]
        return bids, [_level(price, self._asks[price]) for price in sorted(self._asks)]


def _units(text: str) -> int:
    return int(Decimal(text) * _UNITS)


def _level(price: int, quantity: int) -> Level:
    return Decimal(price) / _UNITS, Decimal(quantity) / _UNITS


def tell_truth(inputs: Inputs) -> Seal:
    """Replay the inputs and say what they hold; every delta must follow the one before."""
    books = {native: _Book(body) for native, body in inputs.snapshots().items()}
    names = {market.native: market.name for market in inputs.markets()}
    truth = Testimony()
    for frame in inputs.frames():
        data = json.loads(frame)["data"]
        native = data["s"]
        match data.get("e"):
            case "depthUpdate":
                book = books[native]
                assert data["U"] == book.update_id + 1, "the inputs have a gap"
                book.update_id = data["u"]
                book.change(data["b"], data["a"])
                truth.touch(names[native], *book.touch())
            case "aggTrade":
                truth.trade(names[native], data["a"], Decimal(data["p"]), Decimal(data["q"]))
            case _:
                truth.ticker(names[native], Decimal(data["b"]), Decimal(data["a"]))
    for native, book in sorted(books.items()):
        truth.book(names[native], *book.sides())
    return truth.seal()
