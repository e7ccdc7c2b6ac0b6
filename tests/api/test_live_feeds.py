"""Topics are read only while somebody watches them, at their period, and failures are told."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from penstock.api.live_feeds import FAILED_S, LINGER_S, MOST_TOPICS, Feed, LiveFeeds, ReadFailed
from penstock.api.live_hub import Viewer
from penstock.clock import ManualClock


class Source:
    """A topic that counts how often it is read."""

    def __init__(self, clock: ManualClock, takes_s: float = 0.0) -> None:
        self.clock, self.takes_s, self.reads = clock, takes_s, 0
        self.error: Exception | None = None

    async def read(self) -> object:
        self.reads += 1
        await self.clock.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return self.reads


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def feeds(clock: ManualClock) -> AsyncIterator[LiveFeeds]:
    feeds = LiveFeeds(clock)
    yield feeds
    await feeds.close()
    assert not feeds.topics


def sent(viewer: Viewer) -> list[dict[str, object]]:
    found = []
    while (message := viewer.take()) is not None:
        found.append(msgspec.json.decode(message))
    return found


async def test_a_topic_is_read_at_its_period_while_it_is_watched(
    clock: ManualClock, feeds: LiveFeeds
) -> None:
    source, viewer = Source(clock), Viewer(lambda: None)
    feeds.watch(viewer, {"a": Feed(1.0, source.read)})
    await clock.advance(0)
    assert [one["data"] for one in sent(viewer)] == [1]
    await clock.advance(2.5)

    assert source.reads == 3
    assert [(one["seq"], one["data"]) for one in sent(viewer)] == [(2, 2), (3, 3)]


async def test_it_is_read_a_little_longer_and_begins_anew_after_that(
    clock: ManualClock, feeds: LiveFeeds
) -> None:
    source, viewer, other = Source(clock), Viewer(lambda: None), Viewer(lambda: None)
    feed = Feed(1.0, source.read)
    feeds.watch(viewer, {"a": feed})
    await clock.advance(1.5)
    feeds.leave(viewer)
    await clock.advance(LINGER_S - 2)
    assert feeds.topics == {"a"}
    feeds.watch(other, {"a": feed})
    assert len(sent(other)) == 1, "the latest update comes at once"
    feeds.leave(other)
    await clock.advance(LINGER_S + 2)
    assert not feeds.topics
    reads = source.reads
    await clock.advance(10)
    assert source.reads == reads

    feeds.watch(viewer, {"a": feed})
    assert sent(viewer) == [], "nothing old is sent"
    await clock.advance(0)
    assert [one["seq"] for one in sent(viewer)] == [1]


async def test_many_viewers_cost_one_read(clock: ManualClock, feeds: LiveFeeds) -> None:
    source, viewers = Source(clock), [Viewer(lambda: None) for _ in range(100)]
    for viewer in viewers:
        feeds.watch(viewer, {"a": Feed(1.0, source.read)})
    await clock.advance(3.5)

    assert source.reads == 4
    assert {len(sent(viewer)) for viewer in viewers} == {2}


async def test_a_failure_is_told_and_tried_again_at_leisure(
    clock: ManualClock, feeds: LiveFeeds
) -> None:
    source, viewer = Source(clock), Viewer(lambda: None)
    source.error = ReadFailed("The store does not answer.")
    feeds.watch(viewer, {"a": Feed(0.1, source.read)})
    await clock.advance(FAILED_S * 3 - 0.05)
    assert source.reads == 3
    assert sent(viewer)[-1] == {
        "topic": "a",
        "seq": 3,
        "at_ms": 2000,
        "error": "The store does not answer.",
    }
    source.error = None
    await clock.advance(0.1)
    assert sent(viewer)[-1]["data"] == 4


async def test_a_slow_topic_leaves_time_for_others(clock: ManualClock, feeds: LiveFeeds) -> None:
    source, viewer = Source(clock, takes_s=4.0), Viewer(lambda: None)
    feeds.watch(viewer, {"a": Feed(2.0, source.read)})
    await clock.advance(19)

    assert source.reads == 4, "4 s to read, 1 s in between"


async def test_a_read_that_hangs_is_told(
    clock: ManualClock, feeds: LiveFeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.api.live_feeds._READ_S", 0.01)
    told = asyncio.Event()
    viewer = Viewer(told.set)
    feeds.watch(viewer, {"a": Feed(1.0, asyncio.Event().wait)})
    await asyncio.wait_for(told.wait(), 10)

    assert sent(viewer)[0]["error"] == "It took more than 0.01 s."


async def test_topics_that_nobody_watches_make_room_for_others(
    clock: ManualClock, feeds: LiveFeeds
) -> None:
    source, viewer, stays = Source(clock), Viewer(lambda: None), Viewer(lambda: None)
    feed = Feed(1.0, source.read)
    feeds.watch(stays, {"kept": feed})
    for number in range(MOST_TOPICS + 10):
        feeds.watch(viewer, {f"{number}": feed})
        await asyncio.sleep(0)
    assert len(feeds.topics) == MOST_TOPICS
    assert {"kept", f"{MOST_TOPICS + 9}", "11"} <= feeds.topics
    assert not {f"{number}" for number in range(11)} & feeds.topics

    feeds.watch(viewer, {"0": feed})
    await clock.advance(0)
    assert [one["seq"] for one in sent(viewer)] == [1], "it began anew"
    await clock.advance(LINGER_S + 2)
    assert feeds.topics == {"0", "kept"}
