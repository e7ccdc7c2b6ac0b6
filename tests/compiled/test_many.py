"""With many streams and books memory is prefetched, and the results stay the same."""

from collections.abc import Sequence
from random import Random

import pytest
from tests import events
from tests.compiled.appended import BothForms
from tests.compiled.both import books_of
from tests.compiled.deltas import some_levels, some_snapshot
from tests.compiled.frames import Chance
from tests.paths import in_python

from penstock import compiled
from penstock.exchanges.registry import load
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import BookDelta, Event
from penstock.market.symbol import Symbol
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream
from penstock.storage.log.memory import MemoryPairs
from penstock.storage.log.writer import SlotWriter
from penstock.streaming.commands import Subscription
from penstock.streaming.connection import Connection

pytestmark = pytest.mark.skipif(compiled.Appender is None, reason=compiled.WHY_NOT)

SYMBOLS = [Symbol(f"M{number}", "USDT") for number in range(150)]


def connection() -> Connection:
    symbols = SymbolMap("binance", [(f"{each.base}USDT", each) for each in SYMBOLS])
    wanted = [Subscription("book_deltas", tuple(SYMBOLS))]
    made = Connection(load("binance").dialect(symbols), wanted, lambda: 0.5)
    made.start()
    made.opened(0)
    return made


@pytest.mark.parametrize("seed", range(3))
def test_many_books_are_the_same_on_both_paths(seed: int) -> None:
    chance = Random(seed)
    with in_python():
        in_python_only = connection()
    both = in_python_only, connection()
    ids = dict.fromkeys(SYMBOLS, 10)
    for symbol in SYMBOLS[:140]:  # the others wait for theirs
        snapshot = some_snapshot(chance, symbol, 10)
        for each in both:
            each.snapshot_arrived(snapshot)
    for turn in range(40):
        deltas: list[Event] = []
        for symbol in chance.sample(SYMBOLS, 60):
            # Some are late, some are lost: these are left to Python, among the others.
            ids[symbol] += chance.choice((1, 1, 1, 1, 1, 1, 1, 1, 0, 2))
            deltas.append(
                BookDelta(
                    exchange="binance", symbol=symbol, received_at_ns=turn, at_ns=turn,
                    first_update_id=ids[symbol], final_update_id=ids[symbol],
                    bids_raw=some_levels(chance, 100), asks_raw=some_levels(chance, 120),
                )
            )  # fmt: skip
        deltas.insert(7, events.trade(turn, SYMBOLS[turn]))
        for each in both:
            each._deliver(deltas)
        assert books_of(both[0]) == books_of(both[1])


def by_stream(records: Sequence[Stored]) -> dict[Stream, list[Stored]]:
    found: dict[Stream, list[Stored]] = {}
    for each in records:
        found.setdefault(each.stream, []).append(each)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_records_of_many_streams_are_the_same_on_both_paths(seed: int) -> None:
    chance, taken = Random(seed), BothForms(Chance(seed))
    with in_python():
        in_python_only = SlotWriter("a", MemoryPairs)
    writer, at_ns = SlotWriter("a", MemoryPairs), 0
    ids = dict.fromkeys(SYMBOLS, 0)
    for turn in range(40):
        symbols, batch = chance.choices(SYMBOLS, k=80), list[Event]()
        at_ns += 300_000_000 - at_ns % 100_000_000
        is_first = turn % 8 == 0
        if is_first:  # and from the second on as after a failure: streams get other indexes
            writer._forget_heads()
            in_python_only._forget_heads()
            symbols = chance.sample(SYMBOLS, len(SYMBOLS))
        # An id that was there is left to Python, and with it all of its batch is a list.
        steps = (1,) * 8 + ((0, 3) if turn % 4 == 2 else (1, 3))
        for symbol in symbols:
            at_ns += 100_000
            ids[symbol] += chance.choice(steps)
            batch.append(events.trade(ids[symbol], symbol, received_at_ns=at_ns))
            if is_first or chance.random() < 0.2:
                batch.append(events.ticker(at_ns, symbol, update_id=None))
        records = writer.append(batch)
        assert by_stream(records) == by_stream(in_python_only.append(batch))
        taken.take(records)
    taken.pass_on()
