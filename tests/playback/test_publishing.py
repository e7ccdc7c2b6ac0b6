"""A replay to publishers: what they drop is published again, in order and with the same numbers."""

import asyncio
from collections.abc import Sequence
from contextlib import closing

import pytest
from msgspec import Raw
from tests import events

from penstock.clock import ManualClock
from penstock.errors import BusUnreachable, PenstockError
from penstock.playback.books import BookFeed
from penstock.playback.publishing import ReplayPublisher
from penstock.publish import Published, PublishedCounts
from penstock.publish.by_url import PreparedPublisher
from penstock.storage.log import Received, open_log, received_at_ns

RECORDS = [
    Received(n, "collect-a", n, f"toy.trades.{'xy'[n % 2]}_z", b"\x02{}") for n in range(500)
]


class Dropping:
    """A publisher that drops, or has no receiver, the first few times."""

    def __init__(self, *, drops: int = 0, unheard: int = 0) -> None:
        self.counts = PublishedCounts()
        self.sent: list[Published] = []
        self._drops, self._unheard = drops, unheard

    def publish(self, messages: Sequence[Published]) -> None:
        if self._unheard:
            self._unheard -= 1
            self.counts.unheard += len(messages)
        elif self._drops:
            self._drops -= 1
            self.counts.dropped += 1
            self.sent += messages[:-1]
        else:
            self.counts.published += len(messages)
            self.sent += messages

    async def run(self) -> None: ...

    def close(self) -> None: ...


async def published(
    publisher: Dropping, records: Sequence[Received] = RECORDS
) -> list[tuple[str, int]]:
    """Topic and number of what arrived, as a subscriber sees it: each number once, in order."""
    clock = ManualClock()
    with closing(ReplayPublisher([PreparedPublisher("toy", lambda _: publisher)], clock)) as replay:
        task = asyncio.create_task(replay.publish(records))
        while not task.done():
            await clock.advance(0.02)
        await task
        assert {each.slot for each in publisher.sent} == {replay.slot}
    return [*dict.fromkeys((each.topic, each.number) for each in publisher.sent)]


@pytest.mark.parametrize("publisher", [Dropping(), Dropping(drops=5), Dropping(unheard=20)])
async def test_everything_is_published_in_order_however_often_it_is_dropped(
    publisher: Dropping,
) -> None:
    found = await published(publisher)

    assert found == [(each.topic, each.number // 2 + 1) for each in RECORDS]


async def test_books_are_published_as_the_collector_published_them() -> None:
    made = [
        events.snapshot(10, exchange="binance", received_at_ns=1, bids_raw=Raw(b'[["1","7"]]')),
        events.delta(11, 11, exchange="binance", received_at_ns=2, bids_raw=Raw(b'[["2","5"]]')),
        events.delta(12, 12, exchange="binance", received_at_ns=3, bids_raw=Raw(b'[["1","0"]]')),
        events.snapshot(12, exchange="binance", received_at_ns=4, bids_raw=Raw(b'[["2","5"]]')),
    ]
    with closing(open_log("memory:").writer("collect-binance")) as writer:
        live = sorted(
            Received(each.received_at_ns, each.slot, each.number, each.topic, each.record)
            for each in writer.append(made)
        )
    publisher = Dropping()

    await published(publisher, live)

    topics = ["binance.book_snapshots.btc_usdt", "binance.book_deltas.btc_usdt"]
    assert [each.topic for each in publisher.sent] == [topics[n] for n in (0, 1, 1, 0)]
    sent = [
        Received(received_at_ns(each.record), each.slot, each.number, each.topic, each.record)
        for each in publisher.sent
    ]
    assert [each.record for each in sent] == [each.record for each in live]
    assert [*BookFeed().add(sent)] == [*BookFeed().add(live)]


async def test_without_a_receiver_it_gives_up() -> None:
    with pytest.raises(BusUnreachable):
        await published(Dropping(unheard=10**9))


async def test_a_publisher_that_drops_everything_is_an_error() -> None:
    with pytest.raises(PenstockError, match="drops every message"):
        await published(Dropping(drops=10**9))
