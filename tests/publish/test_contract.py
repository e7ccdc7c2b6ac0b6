"""Every publisher keeps the same promises, whatever URL it is found by."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from tests.waiting import PATIENCE_S

from penstock.config import Collect, Publish, Settings
from penstock.publish import Message, PublishedSlot
from penstock.publish.by_url import prepare_publishers
from penstock.publish.memory import MemoryPublisher, MemorySubscription
from penstock.publish.subscriber import Delivery, Subscriber
from penstock.publish.zeromq import ZeroMqPublisher
from penstock.runtime.publishers import Publishers

from .conftest import LOG, OTHER, TOPIC, Town, heard, joined, messages

CAPACITY = 100


class Listening(Protocol):
    async def take(self, last: int) -> list[Message]:
        """Everything up to a number, as far as it came."""
        ...


class _Memory:
    def __init__(self, subscription: MemorySubscription) -> None:
        self._subscription = subscription

    async def take(self, last: int) -> list[Message]:
        taken: list[Message] = []
        while not taken or taken[-1].number < last:
            received = await self._subscription.receive()
            taken += [Message(each.topic, each.slot, each.number, each.record) for each in received]
        return taken


class _ZeroMq:
    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber

    async def take(self, last: int) -> list[Message]:
        taken: list[Message] = []
        while not taken or taken[-1].number < last:
            found = await anext(self._subscriber)
            if isinstance(found, Delivery):
                taken.append(Message(found.topic, found.slot, found.number, found.record))
        return taken


class Subject(NamedTuple):
    publisher: Publishers
    listen: Callable[[str], Awaitable[Listening]]


@pytest.fixture(params=["memory", "zeromq"])
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    town = Town(tmp_path, queue=CAPACITY)
    settings = Settings(
        collect=Collect(data_dir=str(tmp_path)),
        bus=town.settings,
        publish=Publish(urls=(f"{request.param}:",)),
    )
    async with AsyncExitStack() as stack:
        source = PublishedSlot("a", LOG, {}, town.clock)
        publishers = Publishers(prepare_publishers(settings), source, CAPACITY)
        stack.enter_context(closing(publishers))
        [publisher] = publishers
        if isinstance(publisher, MemoryPublisher):
            memory = publisher

            async def listen(wanted: str) -> Listening:
                return _Memory(memory.subscribe(wanted, CAPACITY))

            yield Subject(publishers, listen)
            return
        assert isinstance(publisher, ZeroMqPublisher)
        await stack.enter_async_context(town.bus())
        await heard(publisher)

        async def listen_far(wanted: str) -> Listening:
            subscriber = await stack.enter_async_context(town.subscriber(wanted))
            await joined(subscriber)
            return _ZeroMq(subscriber)

        yield Subject(publishers, listen_far)


async def test_messages_arrive_whole_and_in_order(subject: Subject) -> None:
    listening = await subject.listen(TOPIC)
    given = messages(1, 50)

    subject.publisher.publish(given[:20])
    subject.publisher.publish([])
    subject.publisher.publish(given[20:])

    async with asyncio.timeout(PATIENCE_S):
        assert await listening.take(50) == given


async def test_each_listener_gets_what_it_wants(subject: Subject) -> None:
    everything, one, none = [await subject.listen(w) for w in ("sim.", OTHER + "c", "toy.")]
    mine, others = messages(1, 3), messages(1, 3, OTHER + "c")
    for_all = messages(4, 4, "toy.trades.x_y")

    subject.publisher.publish([*mine, *others, *for_all])

    async with asyncio.timeout(PATIENCE_S):
        assert await one.take(3) == others
        assert await none.take(4) == for_all
        got = await everything.take(3)
        got += [] if len(got) == 6 else await everything.take(3)
        assert got == [*mine, *others]


async def test_nobody_need_listen(subject: Subject) -> None:
    subject.publisher.publish(messages(1, 50))

    listening = await subject.listen(TOPIC)
    subject.publisher.publish(messages(51, 51))

    async with asyncio.timeout(PATIENCE_S):
        assert (await listening.take(51))[-1:] == messages(51, 51)


async def test_a_listener_that_does_not_read_holds_up_neither_publisher_nor_others(
    subject: Subject,
) -> None:
    await subject.listen(TOPIC)
    reading = await subject.listen(TOPIC)
    given = messages(1, 40_000)
    got: list[Message] = []

    async def read() -> None:
        while not got or got[-1].number < given[-1].number:
            got.extend(await reading.take(1))

    task = asyncio.create_task(read())
    async with asyncio.timeout(PATIENCE_S):
        for first in range(0, len(given), 20):
            subject.publisher.publish(given[first : first + 20])
            await asyncio.sleep(0)
        # The end may have found a queue full; what follows finds room in the end.
        while not task.done():
            subject.publisher.publish(given[-1:])
            await asyncio.sleep(0.01)

    assert got == sorted(got, key=lambda message: message.number)
    assert set(got) <= set(given)


async def test_what_a_full_queue_drops_is_counted(subject: Subject) -> None:
    await subject.listen(TOPIC)  # and never reads
    given = messages(1, 40_000)

    for first in range(0, len(given), 20):
        subject.publisher.publish(given[first : first + 20])

    counts = subject.publisher.total()
    assert counts.dropped
    assert counts.published
    assert list(subject.publisher.counts().values()) == [counts]
