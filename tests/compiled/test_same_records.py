"""Whatever is appended to the log, both paths write the same bytes and return the same records."""

import gc
import sys
import weakref
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec import Raw, Struct
from msgspec.structs import replace
from tests import events
from tests.compiled import records
from tests.compiled.frames import Chance
from tests.compiled.records import (
    BTC_TRADES,
    NOON_NS,
    SECOND_NS,
    BothWriters,
    Made,
    failing_changes,
)
from tests.paths import in_python

from penstock import compiled
from penstock.market import channels, compiled_codec
from penstock.market.channels import Channel
from penstock.market.codec import encode
from penstock.market.events import Event, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log.compiled_appending import CompiledAppending
from penstock.storage.log.heads import StreamHead
from penstock.storage.log.memory import MemoryPairs
from penstock.storage.log.writer import SlotWriter

pytestmark = pytest.mark.skipif(compiled.Appender is None, reason=compiled.WHY_NOT)


# A seed says nothing when it is smaller.
@settings(deadline=None, phases=[Phase.generate], max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_records_are_the_same(seed: int) -> None:
    records.run(seed, 20)


def trades(first: int, count: int, at_ns: int = NOON_NS, **fields: Any) -> list[Trade]:
    ids = range(first, first + count)
    return [events.trade(each, received_at_ns=at_ns + each, **fields) for each in ids]


def usual_events(number: int) -> list[Event]:
    """One event of every class whose records are appended by the compiled code."""
    common: dict[str, Any] = {"received_at_ns": NOON_NS + number, "at_ns": NOON_NS}
    of_time: dict[str, Any] = {"received_at_ns": NOON_NS + number}
    return [
        events.trade(number, **common),
        events.delta(number, number, **common),
        events.delta(None, None, symbol=Symbol("ETH", "USDT"), **common),
        events.snapshot(number, **common),
        events.ticker(symbol=events.BTC, bid_text="1", **of_time),
        events.ticker(symbol=Symbol("ETH", "USDT"), update_id=number, **of_time),
    ]


class Left:
    """Which events a writer leaves to the Python code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[Event] = []
        whole = SlotWriter._add_new

        def noted(writer: SlotWriter, new: list[Event], *others: Any) -> None:
            self.events += new
            whole(writer, new, *others)

        monkeypatch.setattr(SlotWriter, "_add_new", noted)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Left:
    return Left(monkeypatch)


def test_usual_events_are_appended_by_the_compiled_code(left: Left) -> None:
    """Otherwise all the others would compare the Python code with itself."""
    writer = SlotWriter("a", MemoryPairs)
    first, *others = (usual_events(number) for number in range(1, 600))

    writer.append(first)
    stored = [each for batch in others for each in writer.append(batch)]

    assert left.events == first
    assert {type(each.known) for each in stored} == {type(each) for each in first}
    assert stored[-1].number == 599


def test_usual_events_in_order_are_the_same() -> None:
    """Over more records than a batch holds, and over several seconds."""
    both = BothWriters()
    for number in range(1, 600):
        assert both.append(usual_events(number)) == 6
    for number in range(600, 1_200):
        batch = [
            replace(event, received_at_ns=NOON_NS + number * SECOND_NS // 70)
            for event in usual_events(number)
        ]
        assert both.append(batch) == 6


def test_a_stream_is_known_whatever_object_names_its_exchange(left: Left) -> None:
    both = BothWriters()
    both.append(trades(1, 1))
    left.events.clear()

    exchange = "".join(("t", "oy"))
    both.append([*trades(2, 3), *trades(5, 3, exchange=exchange), *trades(8, 2)])

    assert len(left.events) == 8, "those of the writer in Python alone"


UNUSUAL: dict[str, dict[str, Any]] = {
    "a text with a quote": {"price_text": '"'},
    "a text with a backslash": {"price_text": "\\"},
    "a text with a control character": {"price_text": "a\x1f"},
    "an id of more than 64 bits": {"id": 2**63},
    "a time of more than 64 bits": {"at_ns": -(2**63) - 1},
    "a number that is no text": {"price_text": 1.5},
    "several seconds": {"received_at_ns": NOON_NS + SECOND_NS},
    "an id that comes again": {"id": 4},
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_all_events_of_a_stream_with_an_unusual_one_are_left_to_python(
    left: Left, kind: str
) -> None:
    both = BothWriters()
    both.append([*trades(1, 1), *trades(1, 1, exchange="other")])
    left.events.clear()
    *before, last = trades(2, 4)
    odd = replace(last, **UNUSUAL[kind])

    both.append([*before, odd, *trades(2, 4, exchange="other")])

    assert left.events[:4] == [*before, odd]
    assert both.append(trades(10, 2)) == 2


@pytest.mark.parametrize(
    "text", ["\x7f", "é", "\u2028", "😀", "", "9" * 100_000], ids=lambda text: text[:3]
)
def test_a_text_that_json_does_not_escape_is_encoded(left: Left, text: str) -> None:
    both = BothWriters()
    both.append(trades(1, 1))
    left.events.clear()

    both.append(trades(2, 3, price_text=text))

    assert len(left.events) == 3, "those of the writer in Python alone"


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_put_that_fails_leaves_nothing_behind(at: int) -> None:
    both = BothWriters()
    both.append(trades(1, 2))

    recorded = both.append(trades(3, 3), fails_at=at)

    assert recorded == (0 if 0 < at < 4 else 3)
    assert both.append(trades(6, 2)) == 2
    assert both.append(trades(3, 5)) == 3 - recorded


def test_a_failure_takes_no_references_along() -> None:
    batch = trades(2, 3)
    before = sys.getrefcount(batch[0]), sys.getrefcount(batch[0].price_text)

    for _ in range(3):
        appending, changes = _known_to(batch[0]), failing_changes(2)
        with pytest.raises(records.Refused):
            appending.add(batch, changes, "a")
        del appending, changes

    assert (sys.getrefcount(batch[0]), sys.getrefcount(batch[0].price_text)) == before


def _known_to(event: Event) -> CompiledAppending:
    appending = CompiledAppending()
    head = StreamHead(BTC_TRADES, 1, channels.TRADES)
    appending.learn(event, head)
    return appending


def test_while_events_are_appended_the_streams_stay_as_they_are() -> None:
    first, *others = trades(1, 3)
    appending = _known_to(first)
    refused: list[str] = []

    class Batch:
        def put(self, key: bytes, value: bytes, /) -> None:
            for call in (appending.forget_heads, lambda: appending.learn(first, head)):
                with pytest.raises(RuntimeError, match="in progress") as error:
                    call()
                refused.append(str(error.value))
            assert appending.add(others, self, "a") == ([], others)  # type: ignore[arg-type]

    head = StreamHead(BTC_TRADES, 1, channels.TRADES)

    stored, rest = appending.add(others, Batch(), "a")  # type: ignore[arg-type]

    assert [each.known for each in stored] == others
    assert rest == []
    assert refused


def test_a_thousand_streams_are_found() -> None:
    """They are found by a hash, in a table that grows."""
    both = BothWriters()
    symbols = [Symbol(f"A{number}", "B") for number in range(1_000)]

    for number in range(1, 4):
        batch = [events.trade(number, each, received_at_ns=NOON_NS) for each in symbols]
        assert both.append(batch) == len(symbols)


def test_streams_that_nobody_appends_to_are_freed() -> None:
    writer = SlotWriter("a", MemoryPairs)
    symbol = Symbol("FREED", "B")
    writer.append([events.trade(1, symbol, received_at_ns=NOON_NS)])
    gone = weakref.ref(symbol)

    writer.skip_numbers({})
    del symbol
    gc.collect()

    assert gone() is None


class Liquidation(Event, frozen=True, kw_only=True, gc=False, tag="liquidation"):
    """An event of a channel of a user."""

    number: int
    note: str | None = "none"
    size_text: str = msgspec.field(name="größe", default="1")


class Settlement(Event, frozen=True, kw_only=True, gc=False, tag="settlement", omit_defaults=False):
    """Another, whose defaults are written."""

    number: int
    note: str | None = None
    value: Raw = Raw(b"{}")


class Listing(Event, frozen=True, kw_only=True, gc=False, tag="listing"):
    """Another, with a default that is made anew for each event."""

    number: int
    note: str | None = None
    tags: list[str] = msgspec.field(default_factory=list)


def channel(event: type[Event]) -> Channel:
    return Channel(name="own", event=event, id_kind="exchange_id", id_field="number", dedupe_key=id)


@pytest.mark.parametrize("kind", [Liquidation, Settlement, Listing])
def test_channels_of_users_are_the_same(
    kind: type[Any], left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(channels.BY_EVENT, kind, channel(kind))
    both = BothWriters()
    for number in range(1, 9, 2):
        common = {"symbol": events.BTC, "exchange": "toy", "received_at_ns": NOON_NS + number}
        batch = [kind(number=number, **common), kind(number=number + 1, note="other", **common)]
        assert both.append(batch) == 2

    assert len(left.events) == (16 if kind is Listing else 10)


def test_records_are_encoded_as_msgspec_does() -> None:
    made = Made(Chance(1))
    encoded = 0
    for _ in range(2_000):
        event = made.one()
        try:
            record = encode(event)
        except UnicodeEncodeError:
            continue
        encoder = compiled_codec.encoder_of(event)
        assert encoder is not None
        ours = encoder.encode(compiled_codec.beginning_of(event), event)
        assert ours in (None, record)
        encoded += ours is not None

    assert encoded > 1_500


def test_an_encoder_is_for_one_class() -> None:
    trade, ticker = events.trade(1), events.ticker(1)
    encoder = compiled_codec.encoder_of(trade)
    assert encoder is not None
    assert compiled.Appender is not None

    assert encoder.encode(b"", ticker) is None
    assert encoder.encode(b"", object()) is None
    with pytest.raises(TypeError, match="another class"):
        _learner().learn(ticker, StreamHead(BTC_TRADES, 1, channels.TRADES), encoder, b"")
    with pytest.raises(TypeError, match="another class"):
        _learner().learn(trade, object(), encoder, b"")


def _learner() -> Any:
    return CompiledAppending()._appender


def test_classes_that_are_not_as_expected_are_refused() -> None:
    class Few(Struct):
        stream: int = 0

    assert compiled.Appender is not None
    assert compiled.Encoder is not None
    head = StreamHead.__new__(StreamHead)
    with pytest.raises(ValueError, match="too few fields"):
        compiled.Appender(Few(), (Few.stream,), head, (), 256)
    with pytest.raises(TypeError, match="not a slot"):
        compiled.Appender(Few(), (Few.__doc__,), head, (), 256)
    with pytest.raises(ValueError, match="too few fields"):
        compiled.Encoder(Few(), (Few.stream,), (), ())


def test_without_the_extension_nothing_is_compiled() -> None:
    with in_python():
        appending = CompiledAppending()
    batch = trades(1, 2)

    appending.learn(batch[0], StreamHead(BTC_TRADES, 1, channels.TRADES))
    stored, rest = appending.add(batch, failing_changes(0), "a")

    assert stored == []
    assert rest is batch
