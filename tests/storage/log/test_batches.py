"""Records are found by number and by time, in however many appends they came."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.market.events import Candle, Event, Ticker, Trade
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog, Span, open_log
from penstock.storage.log.index import find_batches
from penstock.storage.log.keys import Stream, key_of_id, key_text
from penstock.storage.log.memory import MemoryPairs
from penstock.storage.log.writer import SlotWriter

BTC = Symbol("BTC", "USDT")
TICKERS = Stream("sim", "tickers", "btc_usdt")
TRADES = Stream("sim", "trades", "btc_usdt")
SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND


def ticker(at_ns: int, update_id: int | None) -> Ticker:
    return events.ticker(at_ns, exchange="sim", last_text="1", update_id=update_id)


def trades(first: int, end: int, at_ns: int = NOON) -> list[Trade]:
    return [
        events.trade(number, exchange="sim", received_at_ns=at_ns + number)
        for number in range(first, end)
    ]


class Slot:
    """A slot, next to what it must hold: every record by its number."""

    def __init__(self) -> None:
        self.log: EventLog = open_log("memory:")
        self.writer = self.log.writer("a")
        self.told: dict[int, Event] = {}
        self.deleted: set[int] = set()
        self.at_ns, self.highest_id = NOON, 0

    def append(self, steps: list[tuple[int | None, int]]) -> None:
        """Tickers with and without ids; each so many tenths of a second after the one before."""
        events = []
        for update_id, tenths in steps:
            self.at_ns += tenths * SECOND // 10
            events.append(ticker(self.at_ns, update_id))
            self.highest_id = max(self.highest_id, update_id or 0)
        for stored in self.writer.append(events):
            assert stored.number == len(self.told) + 1
            self.told[stored.number] = stored.event

    def rise(self, tenths: list[int]) -> None:
        """Tickers newer than all others, with holes between them."""
        first = self.highest_id + 1
        self.append([(first + 3 * place, each) for place, each in enumerate(tenths)])

    def restart(self) -> None:
        self.writer.close()
        self.writer = self.log.writer("a")
        assert self.writer.last_numbers().get(TICKERS, 0) == len(self.told)

    def delete_below(self, update_id: int) -> None:
        self.writer.delete_below(TICKERS, key_of_id(update_id))
        for number, event in self.told.items():
            assert isinstance(event, Ticker)
            if event.update_id is not None and event.update_id < update_id:
                self.deleted.add(number)

    def check(self) -> None:
        """Look for every record by its number, and by every half second."""
        reader = self.log.reader()
        kept = {n: event for n, event in self.told.items() if n not in self.deleted}
        for number in self.told:
            found = reader.numbers(TICKERS, "a", number, number + 2)
            wanted = [kept[each] for each in range(number, number + 3) if each in kept]
            assert [each.event for each in found] == wanted
        latest_ns = max((event.received_at_ns for event in kept.values()), default=NOON)
        for since_ns in range(NOON - SECOND, latest_ns + 1, SECOND // 2):
            until_ns = since_ns + SECOND // 2
            by_time = reader.scan(TICKERS, Span(since_ns=since_ns, until_ns=until_ns))
            assert {each.number for each in by_time} == {
                n for n, event in kept.items() if since_ns <= event.received_at_ns < until_ns
            }
        for slot in reader.stats():
            for stream in slot.streams:
                assert stream.last_number == len(self.told)


update_ids = st.none() | st.integers(0, 20)
steps = st.lists(st.tuples(update_ids, st.integers(-3, 6)), min_size=1, max_size=4)
tenths = st.lists(st.integers(-3, 6), min_size=1, max_size=4)
doings = st.lists(
    st.one_of(
        st.tuples(st.just("rise"), tenths),
        st.tuples(st.just("rise"), tenths),
        st.tuples(st.just("append"), steps),
        st.tuples(st.just("delete_below"), st.integers(0, 60)),
        st.tuples(st.just("restart")),
    ),
    max_size=25,
)


@given(doings)
@example([("rise", [0, 0]), ("restart",), ("append", [(2, 0)])])  # among what was left open
@example([("rise", [0]), ("restart",), ("append", [(None, 0)]), ("rise", [0])])
def test_all_is_found_by_number_and_by_time(doings: list[tuple[object, ...]]) -> None:
    slot = Slot()
    for doing, *more in doings:
        getattr(slot, str(doing))(*more)
    slot.check()


def test_records_that_rise_within_a_second_are_one_batch() -> None:
    kv = MemoryPairs()
    writer = SlotWriter("a", lambda: kv)
    for first, end in pairwise(range(0, 202, 2)):
        writer.append(trades(first, end))
    (batch,) = find_batches(kv, 1, 100)
    assert (batch.first_number, batch.last_number) == (1, 200)

    for first in range(200, 1200):
        writer.append(trades(first, first + 1))
    held = [batch.records for batch in find_batches(kv, 1, 0)]
    assert sum(held) == 1200
    assert max(held) == 256, "to find one of them by its number takes no longer than that"


def test_a_stream_that_began_with_nothing_to_keep_is_there_nevertheless() -> None:
    log = open_log("memory:")
    writer = log.writer("a")
    for closed in (False, True):
        writer.append([
            Candle(
                exchange="sim", symbol=BTC, received_at_ns=NOON, interval="1m", open_ms=60_000,
                close_ms=119_999, open_text="1", high_text="3", low_text="1", close_text="2",
                volume_text="7", closed=closed,
            )
        ])  # fmt: skip
    writer.close()

    (stream,) = log.reader().streams()
    assert [key_text(each.key) for each in log.reader().scan(stream)] == ["60000"]
    log.writer("a").append(trades(0, 1))
    assert log.reader().streams() == [stream, TRADES]
