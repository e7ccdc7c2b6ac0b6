"""A bus in a folder, run by the test's own loop, and records to publish on it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Bus
from penstock.market.codec import encode
from penstock.market.events import Trade
from penstock.market.symbol import Symbol
from penstock.publish import Message
from penstock.publish.broker import Broker
from penstock.publish.endpoints import BusEndpoints, resolve_endpoints
from penstock.publish.frames import Head
from penstock.publish.subscriber import Delivery, Missing, Subscriber
from penstock.publish.zeromq import ZeroMqPublisher

TOPIC = "sim.trades.btc_usdt"
OTHER = "sim.trades.btc_usd"
LOG = 7


def record(number: int) -> bytes:
    return encode(
        Trade(
            exchange="sim", symbol=Symbol("BTC", "USDT"), received_at_ns=number, id=number, at_ns=1,
            price_text="1.10", quantity_text="1", taker="buy",
        )
    )  # fmt: skip


def messages(first: int, last: int, topic: str = TOPIC, slot: str = "a") -> list[Message]:
    return [Message(topic, slot, number, record(number)) for number in range(first, last + 1)]


class Shelf:
    """A log that holds some numbers of every stream."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = sorted(numbers)
        self.log = LOG
        self.asked: list[tuple[str, str, int, int]] = []

    def holds(self, log: int) -> bool:
        return log == self.log

    def read(self, topic: str, slot: str, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        self.asked.append((topic, slot, first, last))
        return ((n, record(n)) for n in self._numbers if first <= n <= last)

    def close(self) -> None: ...


class Town:
    """One bus, and whoever is on it."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.settings = folder, Bus(**settings)
        self.clock = SystemClock()
        self.runs = count(1)

    def endpoints(self, *, broker: bool = False, **settings: Any) -> BusEndpoints:
        found = resolve_endpoints(
            Bus(**settings) if settings else self.settings, self.folder, broker=broker
        )
        assert found is not None
        return found

    @asynccontextmanager
    async def bus(self, **settings: Any) -> AsyncIterator[Broker]:
        broker = Broker(self.endpoints(broker=True, **settings), self.clock)
        forwarding = asyncio.create_task(broker.forward())
        try:
            yield broker
        finally:
            forwarding.cancel()
            with suppress(asyncio.CancelledError):
                await forwarding
            broker.close()

    @asynccontextmanager
    async def publisher(
        self, slot: str = "a", numbers: dict[str, int] | None = None, **settings: Any
    ) -> AsyncIterator[ZeroMqPublisher]:
        head = Head(next(self.runs), LOG)
        publisher = ZeroMqPublisher(
            self.endpoints(**settings), slot, head, numbers, clock=self.clock
        )
        announcing = asyncio.create_task(publisher.run())
        try:
            yield publisher
        finally:
            announcing.cancel()
            publisher.close()

    def subscriber(self, *wanted: str, **options: Any) -> Subscriber:
        return Subscriber(self.endpoints(), wanted or ("",), **options)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


async def eventually(true: Callable[[], bool]) -> None:
    """Wait until something another part does has happened."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (nobody would set an event)
            await asyncio.sleep(0.01)


async def heard(publisher: ZeroMqPublisher) -> None:
    """Wait until the broker listens."""
    await eventually(publisher._listen)


async def take(subscriber: Subscriber, many: int) -> list[Delivery | Missing]:
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(subscriber) for _ in range(many)]


async def joined(subscriber: Subscriber) -> None:
    """Wait until the broker has answered, which it does once it forwards to this one."""
    async with asyncio.timeout(PATIENCE_S):
        while not subscriber.joined:
            await subscriber._receive()


def numbers(deliveries: Sequence[Delivery | Missing]) -> list[int]:
    return [each.number for each in deliveries if isinstance(each, Delivery)]
