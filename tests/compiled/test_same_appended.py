"""Records that were appended in C are what a list of them is, to whoever takes them."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests import events
from tests.compiled.appended import BothForms
from tests.compiled.frames import Chance

from penstock import compiled
from penstock.market.events import Disconnect, Event
from penstock.market.symbol import Symbol
from penstock.storage.log import Stored
from penstock.storage.log.memory import MemoryPairs
from penstock.storage.log.writer import SlotWriter

pytestmark = pytest.mark.skipif(compiled.Appender is None, reason=compiled.WHY_NOT)

ETH = Symbol("ETH", "USDT")


def trades(*ids: int, symbol: Symbol = events.BTC, **fields: Any) -> list[Event]:
    return [events.trade(each, symbol, received_at_ns=each, **fields) for each in ids]


def marker(at_ns: int) -> Disconnect:
    return Disconnect(
        exchange="toy", symbol=events.BTC, received_at_ns=at_ns, channels=("trades",), reason="cut"
    )


def appended(*batches: Sequence[Event]) -> list[Sequence[Stored]]:
    """The records of several appends; the first of each stream are left to Python."""
    writer = SlotWriter("a", MemoryPairs)
    return [writer.append(batch) for batch in batches]


BATCHES: dict[str, list[Sequence[Event]]] = {
    "consecutive ids": [trades(2, 3, 4), trades(5, 6)],
    "ids that skip": [trades(2, 3, 5, 6), trades(7), trades(9, 10)],
    "several streams": [[*trades(2, 3), *trades(7, symbol=ETH)], [*trades(4, 5, 6)]],
    "several sources": [[*trades(2), *trades(3, source="rest"), *trades(4)], trades(5, 6)],
    "another source at once": [trades(2, 3, source="rest"), trades(4, source="rest")],
    "without ids": [[events.ticker(at, update_id=None) for at in (2, 3, 4)]],
}
FIRST = [*trades(1), *trades(1, symbol=ETH), events.ticker(1, update_id=None)]


@pytest.mark.parametrize("name", BATCHES)
def test_taps_and_packers_take_them_like_a_list(name: str) -> None:
    forms = BothForms(Chance(0))
    first, *others = appended(FIRST, *BATCHES[name])
    assert type(first) is list

    forms.take(first)
    for records in others:
        assert type(records) is not list, "they were left to Python"
        forms.take(records)
    forms.pass_on()


def test_markers_are_not_among_them() -> None:
    """Taps look for markers in lists only."""
    _, *others = appended(FIRST, [*trades(2, 3), marker(4)], [marker(5)])

    assert [type(records) for records in others] == [list, list]


def test_each_record_is_made_with_its_own_bytes() -> None:
    _, records = appended(FIRST, [*trades(20, 300), *trades(2, symbol=ETH)])

    expected = [*trades(20, 300), *trades(2, symbol=ETH)]
    assert [each.known for each in records] == expected
    assert [each.number for each in records] == [2, 3, 2]
    assert [each.decoded for each in map(_Decoded, records)] == [each.event for each in records]
    assert records[-1] == records[2]
    assert records != list(records[:2])
    with pytest.raises(IndexError):
        records[3]
    with pytest.raises(TypeError):
        hash(records)


class _Decoded:
    """A record as whoever has only its bytes reads it."""

    def __init__(self, stored: Stored) -> None:
        self.decoded = Stored(
            stored.stream, stored.slot, stored.number, stored.key, stored.record, stored.topic
        ).event


def test_records_may_outlive_what_appended_them() -> None:
    _, records = appended(FIRST, trades(2, 3))
    kept = records[1]
    del records

    assert kept.event == trades(3)[0]
