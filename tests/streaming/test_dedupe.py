"""Dedupe: of two copies one is kept, of two events that look alike both."""

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from tests import events
from tests.events import delta, snapshot, trade

from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.kraken.stream import KrakenDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.channels import DEDUPE_KEYS
from penstock.market.events import Candle, Disconnect, Event, Ticker, Ticker24h
from penstock.market.symbol import Symbol
from penstock.streaming.dedupe import Deduplicator, RecentKeys
from penstock.streaming.dialect import HasDedupeKeys

BTC = Symbol("BTC", "USDT")
NOTHING = Raw(b"[]")


def dedupe_key(event: Event) -> Hashable | None:
    return DEDUPE_KEYS[type(event)](event)


def ticker(at_ns: int | None = 5, bid: str = "1", update_id: int | None = None) -> Ticker:
    return events.ticker(0, at_ns=at_ns, bid_text=bid, update_id=update_id)


def candle(volume: str) -> Candle:
    return events.candle(0, volume_text=volume)


KEYED: list[Event] = [
    trade(1), trade(2), delta(1, 2), delta(2, 2), snapshot(3), ticker(5), ticker(6),
    ticker(5, "2"), ticker(update_id=7), ticker(update_id=8), candle("1"), candle("2"),
    Disconnect(exchange="x", symbol=BTC, received_at_ns=1, channels=(), reason="cut"),
    Disconnect(exchange="x", symbol=BTC, received_at_ns=2, channels=(), reason="cut"),
]  # fmt: skip


def test_trades_of_two_markets_with_one_number_are_two() -> None:
    other = replace(trade(7), symbol=Symbol("ETH", "USDT"))

    assert dedupe_key(trade(7)) != dedupe_key(other)


def test_copies_share_a_key_and_nothing_else_does() -> None:
    keys = [dedupe_key(event) for event in KEYED]
    assert None not in keys
    assert len(set(keys)) == len(KEYED)
    for event, key in zip(KEYED, keys, strict=True):
        if not isinstance(event, Disconnect):
            assert dedupe_key(replace(event, received_at_ns=99)) == key


def test_what_has_neither_a_number_nor_a_time_has_no_key() -> None:
    assert [dedupe_key(each) for each in (delta(None, None), snapshot(0), ticker(None))] == [
        None
    ] * 3


def test_where_every_connection_stamps_its_own_time_the_time_does_not_count() -> None:
    dialect = BinanceDialect(SymbolMap("binance", [("BTCUSDT", BTC)]))
    assert isinstance(dialect, HasDedupeKeys)
    assert not isinstance(KrakenDialect(SymbolMap("kraken", [])), HasDedupeKeys)
    deduplicator = Deduplicator()
    deduplicator.replace_keys(dialect.dedupe_keys)
    deduplicator.enable()

    def day(at_ns: int, bid: str) -> Ticker24h:
        return Ticker24h(exchange="x", symbol=BTC, received_at_ns=1, at_ns=at_ns, bid_text=bid)

    first = [day(5, "1"), day(5, "2"), ticker(update_id=1), trade(1)]
    deduplicator.filter(first, 1, None, is_primary=True)
    second = [day(6, "1"), day(6, "2"), ticker(update_id=2), trade(1)]
    deduplicator.filter(second, 2, None, is_primary=False)

    assert deduplicator.passed == [*first, ticker(update_id=2)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3))), st.integers(1, 8))
def test_the_memory_knows_the_newest_keys_and_is_bounded(
    notes: list[tuple[int, int]], remembered: int
) -> None:
    copies, fresh = RecentKeys(remembered), list[int]()
    for key, member in notes:
        first = copies.note(key, member)
        if key in fresh[-remembered:]:
            assert first is not None, "one of the newest was forgotten"
        if first is None:
            fresh.append(key)
        assert len(copies) <= 2 * remembered


def test_who_brought_it_first_is_known() -> None:
    copies = RecentKeys()
    assert (copies.note("a", 1), copies.note("a", 2), copies.note("b", 2)) == (None, 1, None)
    assert copies.note("b", 2) == 2


def test_without_a_key_only_the_primary_is_heard() -> None:
    deduplicator = Deduplicator()
    deduplicator.enable()
    deduplicator.filter([trade(1), snapshot(0)], 1, None, is_primary=True)
    deduplicator.filter([trade(1), snapshot(0), trade(2)], 2, None, is_primary=False)

    assert deduplicator.passed == [trade(1), snapshot(0), trade(2)]
    assert deduplicator.dropped == 2
