"""Whatever an exchange sends, both paths give the same answer."""

import gc
import re
import weakref
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.compiled.both import NATIVES, Both
from tests.compiled.frames import MAKERS, Chance, Frame, some_frame
from tests.paths import in_python

from penstock import compiled
from penstock.books.changing_levels import ChangingLevels, new_levels
from penstock.errors import MalformedLevels
from penstock.exchanges.binance.layouts import LAYOUTS
from penstock.exchanges.frame_reader import FrameReader
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.exchanges.layouts import NamedLayouts, Reads
from penstock.market.events import BookDelta, BookSnapshot, Ticker, Trade
from penstock.market.levels import LevelText, as_decimals, write_levels
from penstock.market.numbers import is_plain
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Received

pytestmark = pytest.mark.skipif(compiled.Reader is None, reason=compiled.WHY_NOT)
every_exchange = pytest.mark.parametrize("exchange", NATIVES)


@every_exchange
# A seed says nothing when it is smaller.
@settings(deadline=None, phases=[Phase.generate], max_examples=25)
@given(seed=st.integers(0, 2**32), at_once=st.sampled_from([1, 1, 2, 5, 20]))
def test_frames_and_books_are_the_same(exchange: str, seed: int, at_once: int) -> None:
    chance, both = Chance(seed), Both(exchange)

    for _ in range(8):
        both.receive([some_frame(exchange, chance) for _ in range(at_once)])


@every_exchange
def test_frames_in_the_usual_spelling_are_read_by_the_compiled_reader(
    exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all the others would compare the Python code with itself."""
    chance = Chance(1)
    frames = [MAKERS[exchange](chance).encode() for _ in range(400)]
    for name in ("read", "read_many"):
        monkeypatch.setattr(FrameReader, name, lambda *_: [])
    dialect: Any = Both(exchange).compiled._dialect
    if exchange == "coinbase":
        monkeypatch.setattr(type(dialect), "_read_unusual", lambda *_: [])
        dialect = Both(exchange).compiled._dialect
    read = dialect._usual.read if exchange == "upbit" else dialect.read

    kinds = {type(event) for frame in frames for event in read(frame, 1) or ()}

    assert len(kinds) == {"binance": 7, "upbit": 2}.get(exchange, 3)


BAD: dict[str, Callable[[str], list[Frame]]] = {
    "cut": lambda frame: [frame[:place].encode() for place in range(len(frame))],
    "doubled": lambda frame: [frame + frame, f"{frame},{frame}", f"[{frame},{frame}]"],
    "nested": lambda frame: [frame.replace(":", ":" + "[" * 1_000 + "]" * 1_000 + ",", 1)],
    "deep": lambda frame: [
        "[" * 1_000 + frame + "]" * 1_000,
        '{"a":' * 1_000 + frame + "}" * 1_000,
    ],
    "60 digits": lambda frame: [
        re.sub(r"[0-9]+", "7" * 60, frame, count=count) for count in range(1, 12)
    ],
    "60 decimals": lambda frame: [
        re.sub(r"[.][0-9]+", "." + "7" * 60, frame, count=count) for count in range(1, 5)
    ],
    "a number among no levels": lambda frame: [re.sub(r"\[[^{]*\]", "[7]", frame)],
    "NUL": lambda frame: [frame[:at] + "\0" + frame[at:] for at in range(0, len(frame), 3)],
    "surrogate": lambda frame: [
        frame[:at] + "\ud800" + frame[at + 1 :] for at in range(0, len(frame), 3)
    ],
    "escaped surrogate": lambda frame: [
        frame[:at] + "\\ud800" + frame[at + 1 :] for at in range(0, len(frame), 3)
    ],
}


@every_exchange
@pytest.mark.parametrize("kind", BAD)
def test_bad_frames_are_the_same(exchange: str, kind: str) -> None:
    chance, both = Chance(7), Both(exchange)
    chance.odd = False
    frames = [min((MAKERS[exchange](chance) for _ in range(5)), key=len) for _ in range(8)]

    for frame in frames:
        for bad in BAD[kind](frame):
            both.receive([bad])
        both.receive([*BAD[kind](frame)[-5:], frame])


@every_exchange
def test_a_frame_of_ten_megabytes_is_the_same(exchange: str) -> None:
    both = Both(exchange)
    frame = MAKERS[exchange](Chance(3))

    both.receive([frame.replace("[", "[" + " " * 10_000_000, 1)])
    both.receive(["[" * 10_000_000])
    both.receive([b"\xff" * 10_000_000, frame])


Step = tuple[str, list[LevelText], list[LevelText]]
_ODD = ("", ".", "-1", "1e5", '"', "\\u0030", "1..2", "é", "7" * 40, f"0.{'1' * 60}", "0" * 90)
_LONG = (
    "9" * 20,
    f"{'8' * 17}.5",
    f"1.{'0' * 30}",
    f"2.{'3' * 18}",
    "123456789012.12345678",
    "0" * 33,
    f"1.{'2' * 20}",
    f"1.{'2' * 21}",
)
_UNUSUAL = (".5", "5.", "05", "00", "00.5", "0.", ".0")
price = st.sampled_from(
    [f"{n // 2}{'.5' * (n % 2)}{zeros}" for n in range(1, 24) for zeros in ("", "0")]
    + ["0", "0.0", "0.00", "0.05", "0.050", "1.10", "1.1", "1.100", "0.000000001", "10.0000000010"]
)
plain = price | price | st.sampled_from(_UNUSUAL)
usual = st.lists(st.tuples(price, plain | st.just("0.0")), max_size=12)
# Of an event's levels, the quantities are plain numbers.
pair = st.tuples(
    plain | st.sampled_from(_LONG) | st.sampled_from(_ODD),
    plain | st.just("0.0") | st.sampled_from(_LONG),
)
# Mostly usual: at the first change that is not, a compiled book hands over to the Python code.
side = st.integers(0, 30).flatmap(lambda n: st.lists(pair, max_size=3) if n == 30 else usual)
step = st.tuples(st.sampled_from(["apply", "apply", "apply", "load", "forget"]), side, side)


def told_by(levels: ChangingLevels, step: Step) -> list[object]:
    """What levels show after a step."""
    kind, bids, asks = step
    told: list[object] = []
    try:
        if kind == "forget":
            prices = [_decimal(side[0][0]) if side else None for side in (bids, asks)]
            levels.forget_beyond(*prices)
        elif kind == "load":
            levels.load_raw(write_levels(bids), write_levels(asks))
        else:
            levels.apply_raw(write_levels(bids), write_levels(asks))
    except MalformedLevels as error:
        told.append(str(error))
    told += levels.texts(), levels.texts(1), len(levels), levels.crossed(), levels.checksum()
    told += levels.best_bid, levels.best_ask
    return told


def _decimal(text: str) -> Decimal | None:
    return Decimal(text) if is_plain(text) else None


@settings(deadline=None)
@given(st.sampled_from([None, 2, 10]), st.lists(step, max_size=12))
def test_books_are_the_same(depth: int | None, steps: list[Step]) -> None:
    rule = CHECKSUM if depth == 10 else None
    with in_python():
        python = new_levels(depth, rule)
    book = new_levels(depth, rule)
    assert type(book) is not type(python)

    for each in steps:
        assert told_by(book, each) == told_by(python, each)


@given(st.lists(pair, max_size=5).map(write_levels) | st.binary(max_size=30).map(Raw))
def test_decimals_are_the_same(raw: Raw) -> None:
    def told() -> object:
        try:
            return [[str(number) for number in level] for level in as_decimals(raw)]
        except MalformedLevels as error:
            return str(error)

    ours = told()
    with in_python():
        assert told() == ours


def test_a_snapshot_begins_with_a_scale_of_its_own() -> None:
    assert compiled.Book is not None
    book = compiled.Book(0)
    assert book.load(b'[["0.000000000000000001","1"]]', b"[]")
    assert book.load(b'[["60000.00","1"]]', b"[]")


def test_of_two_symbols_with_one_name_the_first_counts() -> None:
    layouts = NamedLayouts("binance", 1_000, LAYOUTS, Reads(lambda *_: [], lambda *_: None))
    for symbol in ("BTC/USD", "XBT/USD"):
        layouts.add("trades", "btcusd@trade", "BTCUSD", Symbol.parse(symbol))

    (trade,) = layouts.reads.read(_trade("btcusd"), 1)
    assert trade.symbol.unified == "BTC/USD"  # type: ignore[union-attr]


def _trade(market: str) -> str:
    return (
        f'{{"stream":"{market}@trade","data":{{"e":"trade","E":1,"s":"{market.upper()}","t":2,'
        '"p":"1.5","q":"2","T":3,"m":true,"M":true}}'
    )


def test_every_one_of_a_thousand_streams_is_found() -> None:
    """They are found by a hash, in a table that grows."""
    layouts = NamedLayouts("binance", 1_000, LAYOUTS, Reads(lambda *_: [], lambda *_: None))
    names = [f"a{number}b" for number in range(1_000)]
    for name in names:
        symbol = Symbol(name, "B")
        layouts.add("trades", f"{name}@trade", name.upper(), symbol)

    for name in names:
        (trade,) = layouts.reads.read(_trade(name), 1)
        assert trade.symbol == Symbol(name, "B")  # type: ignore[union-attr]
    assert layouts.reads.read(_trade("a1000b"), 1) == []


def test_a_name_that_json_escapes_is_left_to_the_python_code() -> None:
    layouts = NamedLayouts("binance", 1_000, LAYOUTS, Reads(lambda *_: [], lambda *_: None))
    layouts.add("trades", 'a"b@trade', "AB", Symbol("A", "B"))

    assert layouts.reads.read(_trade('a\\"b'), 1) == []
    assert layouts.reads.read(_trade('a"b'), 1) == []


def test_a_reader_that_nobody_holds_is_freed() -> None:
    """It holds what reads all other frames, which holds it."""

    class Dialect:
        def __init__(self) -> None:
            layouts = NamedLayouts("binance", 1_000, LAYOUTS, Reads(self.unusual, lambda *_: None))
            self.reads = layouts.reads

        def unusual(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
            return []

    dialect = weakref.ref(Dialect())
    gc.collect()

    assert dialect() is None


@given(st.lists(plain | st.sampled_from(_LONG), min_size=4, max_size=4))
def test_numbers_of_events_are_the_same(texts: list[str]) -> None:
    common: dict[str, Any] = {"exchange": "any", "symbol": Symbol("A", "B"), "received_at_ns": 1}
    raw = write_levels(zip(texts[::2], texts[1::2], strict=True))
    price, quantity, bid, _ = texts
    trade = Trade(**common, id=1, at_ns=1, price_text=price, quantity_text=quantity, taker="buy")
    ticker = Ticker(**common, bid_text=bid)
    delta = BookDelta(**common, at_ns=1, bids_raw=raw, asks_raw=raw)
    book = BookSnapshot(**common, bids_raw=raw, asks_raw=raw)

    assert str(trade.price) == str(Decimal(price))
    assert str(trade.quantity) == str(Decimal(quantity))
    assert (str(ticker.bid), ticker.ask) == (str(Decimal(bid)), None)
    with in_python():
        told = repr(as_decimals(raw))
    for levels in (delta.bids, delta.asks, book.bids, book.asks):
        assert repr(levels) == told


def test_numbers_that_are_none_are_refused_alike() -> None:
    common: dict[str, Any] = {"exchange": "any", "symbol": Symbol("A", "B"), "received_at_ns": 1}
    ticker = Ticker(**common, bid_text="1e", ask_text="\ud800")
    delta = BookDelta(**common, at_ns=1, bids_raw=Raw(b'[["1","x"]]'), asks_raw=Raw(b"["))

    with pytest.raises(InvalidOperation):
        _ = ticker.bid
    with pytest.raises(InvalidOperation):
        _ = ticker.ask
    with pytest.raises(MalformedLevels, match="not a plain number"):
        _ = delta.bids
    with pytest.raises(MalformedLevels, match="not pairs"):
        _ = delta.asks
