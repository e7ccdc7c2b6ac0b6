"""The bus: what is published arrives, once and in order, whoever comes late, is slow, or dies."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import zmq
from tests.paths import both_paths  # noqa: F401 (every test runs on both)
from tests.waiting import PATIENCE_S

from penstock.app.bus import subscribe
from penstock.config import Bus, Collect, Settings
from penstock.errors import BusUnreachable, ConfigError
from penstock.market.codec import decode
from penstock.market.events import Candle
from penstock.market.symbol import Symbol
from penstock.publish import PublishedSlot
from penstock.publish.asking import ask_bus
from penstock.publish.broker import Broker
from penstock.publish.by_url import prepare_publishers
from penstock.publish.endpoints import log_id
from penstock.publish.facts import BusFell, MessagesDropped
from penstock.publish.frames import (
    BATCH,
    JOIN,
    Frame,
    FrameKind,
    Head,
    pack_frames,
    read_announcement,
    read_frame,
    write_frame,
)
from penstock.publish.readiness import Socket
from penstock.publish.subscriber import Delivery, Missing, Subscriber
from penstock.publish.zeromq import ZeroMqPublisher
from penstock.runtime.publishers import Publishers
from penstock.storage.log import open_log
from penstock.telemetry import Fact

from .conftest import (
    OTHER,
    TOPIC,
    Shelf,
    Town,
    eventually,
    heard,
    joined,
    messages,
    numbers,
    record,
    take,
)


async def test_a_subscriber_begins_with_the_last_record_and_goes_on_live(town: Town) -> None:
    async with town.bus() as broker, town.publisher() as publisher:
        await heard(publisher)
        publisher.publish(messages(1, 5) + messages(1, 2, OTHER))
        await forwarded(broker, 7)

        async with town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(6, 7) + messages(3, 3, OTHER))
            got = await take(subscriber, 3)

    assert got == [Delivery(TOPIC, "a", n, record(n)) for n in (5, 6, 7)]
    assert isinstance(got[0], Delivery)
    assert got[0].event == decode(record(5))


async def test_from_now_on_and_from_a_number(town: Town) -> None:
    async with town.bus() as broker, town.publisher() as publisher:
        await heard(publisher)
        publisher.publish(messages(1, 5))
        await forwarded(broker, 5)
        async with (
            town.subscriber(TOPIC, start="now") as now,
            town.subscriber(TOPIC, start=3, fill=Shelf(range(6))) as third,
        ):
            await joined(now)
            await joined(third)
            publisher.publish(messages(6, 6))

            assert numbers(await take(now, 1)) == [6]
            assert numbers(await take(third, 4)) == [3, 4, 5, 6]
            assert third.counts.missed == 0, "it came late, nothing was dropped"


async def test_streams_and_slots_appear_without_anybody_being_restarted(town: Town) -> None:
    async with town.bus(), town.subscriber("sim.") as subscriber:
        await joined(subscriber)
        async with town.publisher() as one, town.publisher("b") as two:
            await heard(one)
            await heard(two)
            one.publish(messages(1, 1))
            first = await take(subscriber, 1)
            one.publish(messages(1, 1, "sim.tickers.btc_usdt") + messages(1, 1, "toy.trades.x_y"))
            second = await take(subscriber, 1)
            two.publish(messages(1, 1, slot="b"))
            third = await take(subscriber, 1)

    got = [(d.topic, d.slot) for d in (*first, *second, *third)]
    assert got == [(TOPIC, "a"), ("sim.tickers.btc_usdt", "a"), (TOPIC, "b")]


async def test_what_the_bus_dropped_is_read_from_the_log_in_its_place(town: Town) -> None:
    async with town.bus() as broker, town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC, fill=Shelf(range(100))) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 2) + messages(5, 6))
            got = await take(subscriber, 6)
            publisher.publish(messages(9, 9))
            got += await take(subscriber, 3)
            await until(lambda: bool(broker.counts.missed), subscriber)

    assert numbers(got) == list(range(1, 10))
    assert [d.number for d in got if isinstance(d, Delivery) and d.filled] == [3, 4, 7, 8]
    assert subscriber.counts.missed == subscriber.counts.filled == 4


async def test_a_lost_tail_is_read_once_it_is_announced(town: Town) -> None:
    async with town.bus(), town.subscriber(TOPIC, fill=Shelf(range(100))) as subscriber:
        async with town.publisher() as publisher:
            await joined(subscriber)
            await heard(publisher)
            publisher.publish(messages(1, 3))
            assert numbers(await take(subscriber, 3)) == [1, 2, 3]
        # It died with two records in its log that it never sent; the next one finds them there.
        async with town.publisher(numbers={TOPIC: 5}) as publisher:
            assert numbers(await take(subscriber, 2)) == [4, 5]
            await heard(publisher)
            publisher.publish(messages(6, 6))
            assert numbers(await take(subscriber, 1)) == [6]


def test_a_publisher_that_begins_announces_the_numbers_of_its_log(town: Town) -> None:
    endpoints = town.endpoints()
    context: zmq.Context[Socket] = zmq.Context()
    broker = context.socket(zmq.XSUB)
    endpoints.bind(broker, "publish")
    broker.send(b"\x01")
    publisher = ZeroMqPublisher(endpoints, "a", Head(run=1, log=2), {TOPIC: 7})
    for _ in range(int(PATIENCE_S * 10)):
        publisher.announce()
        if broker.poll(100):
            break
    announced = read_announcement(read_frame(broker.recv(zmq.NOBLOCK)).payload)
    publisher.close()
    context.destroy(0)

    assert announced.numbers == {TOPIC: 7}


async def test_what_nobody_has_is_named_once(town: Town) -> None:
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC, fill=Shelf([4, 5, 8])) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 1) + messages(10, 11))
            got = await take(subscriber, 9)

    assert got == [
        Delivery(TOPIC, "a", 1, record(1)),
        Missing(TOPIC, "a", 2, 3),
        Delivery(TOPIC, "a", 4, record(4), filled=True),
        Delivery(TOPIC, "a", 5, record(5), filled=True),
        Missing(TOPIC, "a", 6, 7),
        Delivery(TOPIC, "a", 8, record(8), filled=True),
        Missing(TOPIC, "a", 9, 9),
        Delivery(TOPIC, "a", 10, record(10)),
        Delivery(TOPIC, "a", 11, record(11)),
    ]
    assert subscriber.counts.lost == 5


async def test_a_slot_of_the_same_name_in_another_log_is_not_read(town: Town) -> None:
    shelf = Shelf(range(100))
    shelf.log += 1
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC, fill=shelf) as subscriber:
            await joined(subscriber)
            publisher.announce()
            publisher.publish(messages(1, 1))
            publisher.announce()
            publisher.publish(messages(4, 4))
            got = await take(subscriber, 3)

    assert got[1] == Missing(TOPIC, "a", 2, 3)
    assert shelf.asked == []


@pytest.mark.parametrize("corrected", ["a", "b"])
async def test_a_candle_that_another_slot_has_corrected_is_replayed_as_corrected(
    town: Town, corrected: str
) -> None:
    def candle(slot: str) -> Candle:
        late = slot == corrected
        return Candle(
            exchange="sim", symbol=Symbol("BTC", "USDT"), received_at_ns=1 + late, interval="1m",
            open_ms=0, close_ms=59_999, open_text="1", high_text="9", low_text="1",
            close_text="7.5" if late else "7", volume_text="1",
        )  # fmt: skip

    log = open_log(f"rocksdb:{town.folder}")
    settings = Settings(collect=Collect(data_dir=str(town.folder)))
    topic = "sim.candles_1m.btc_usdt"
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(town.bus())
        for slot in "ab":
            writer = stack.enter_context(closing(log.writer(slot)))
            writer.append([candle(slot)])
            numbers = {str(stream): last for stream, last in writer.last_numbers().items()}
            source = PublishedSlot(slot, log_id(town.folder), numbers, town.clock)
            publishers = Publishers(prepare_publishers(settings), source, 1)
            stack.enter_context(closing(publishers))
        subscriber = await stack.enter_async_context(subscribe(topic, start=1, settings=settings))
        got = await take(subscriber, 2)

    assert sorted(each.slot for each in got) == ["a", "b"]
    assert {each.event.close_text for each in got} == {"7.5"}  # type: ignore[union-attr]


async def test_a_long_hole_is_read_piece_by_piece(town: Town) -> None:
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC, fill=Shelf(range(6000))) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 1) + messages(5000, 5000))
            got = await take(subscriber, 5000)

    assert numbers(got) == list(range(1, 5001))


async def test_waiting_may_be_cancelled_without_loss(town: Town) -> None:
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)
        got: list[Delivery | Missing] = []
        async with town.subscriber(TOPIC, fill=Shelf(range(400))) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 1))
            for number in range(3, 300, 3):  # every other message is dropped
                publisher.publish(messages(number, number))
                waiting = asyncio.ensure_future(anext(subscriber))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait({waiting})
                if not waiting.cancelled():
                    got.append(waiting.result())
            got += await take(subscriber, 297 - len(got))

    assert numbers(got) == list(range(1, 298))


async def test_publisher_and_subscriber_outlive_the_broker(town: Town) -> None:
    async with (
        town.publisher() as publisher,
        town.subscriber(TOPIC, fill=Shelf(range(100))) as subscriber,
    ):
        async with town.bus():
            await heard(publisher)
            await joined(subscriber)
            publisher.publish(messages(1, 3))
            assert numbers(await take(subscriber, 3)) == [1, 2, 3]
        publisher.publish(messages(4, 6))
        async with town.bus():
            publisher.publish(messages(7, 9))
            assert numbers(await take(subscriber, 6)) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("wanted", [TOPIC, "sim.", ""])
async def test_what_was_asked_once_is_not_asked_of_the_next_broker(town: Town, wanted: str) -> None:
    shelf = Shelf(range(9))
    async with town.publisher() as publisher, town.subscriber(wanted, fill=shelf) as subscriber:
        async with town.bus():
            await heard(publisher)
            await joined(subscriber)
            publisher.publish(messages(1, 1))
            assert numbers(await take(subscriber, 1)) == [1]
        async with town.bus():
            publisher.publish(messages(2, 2))
            assert numbers(await take(subscriber, 1)) == [2]
            publisher.publish(messages(3, 3))
            assert numbers(await take(subscriber, 1)) == [3], "and nothing a second time"

    assert subscriber._unanswered == 0


@pytest.mark.parametrize("at", ["ipc", "tcp"])
async def test_a_second_broker_is_told_so(town: Town, at: str, unused_tcp_port: int) -> None:
    where = "ipc" if at == "ipc" else f"tcp://127.0.0.1:{unused_tcp_port}"
    town.settings = Bus(publish=where, subscribe="ipc" if at == "ipc" else "ipc://@nobody-else")
    async with town.bus(), town.publisher() as publisher:
        with pytest.raises(ConfigError, match=r"another .* already"):
            Broker(town.endpoints(broker=True), town.clock)
        await heard(publisher)  # and the first is unharmed


async def test_what_the_broker_does_not_take_is_counted_to_the_last_message(town: Town) -> None:
    facts: list[Fact] = []
    async with town.publisher(queue=100) as publisher:
        publisher._emit = facts.append
        async with town.bus() as first:
            await heard(publisher)
            publisher.publish(messages(1, 20))
            await forwarded(first, 20)
        for number in range(21, 1020, 4):
            publisher.publish(messages(number, number + 2))
            publisher.publish(messages(number + 3, number + 3))
        publisher.announce()
        counts = publisher.counts
        async with town.bus() as second:
            await forwarded(second, counts.published - 20)
            publisher.publish(messages(1021, 1021))  # behind all others, were there more
            await forwarded(second, counts.published - 20)

    assert second.counts.forwarded == counts.published - 20
    assert counts.published + counts.dropped == 1021
    assert counts.dropped > 800
    assert facts == [MessagesDropped(slot="a", count=counts.dropped)]


async def test_closing_waits_for_a_broker_that_is_gone_no_longer_than_it_is_told(
    town: Town,
) -> None:
    async with town.publisher(linger=0.2) as publisher:
        async with town.bus():
            await heard(publisher)
        publisher.publish(messages(1, 1000))
        before = time.monotonic()

    assert 0.15 < time.monotonic() - before < 30


async def test_while_no_broker_was_there_nothing_is_made_or_queued(town: Town) -> None:
    async with town.publisher(queue=10) as publisher:
        publisher.publish(messages(1, 1000))

    assert publisher.counts.unheard == 1000
    assert publisher.counts.dropped == 0


async def test_a_slow_subscriber_loses_to_the_log_and_nobody_waits_for_it(tmp_path: Path) -> None:
    town, last = Town(tmp_path, queue=50), 20_000
    async with town.bus() as broker, town.publisher() as publisher:
        facts: list[Fact] = []
        broker._emit = facts.append
        await heard(publisher)
        async with (
            town.subscriber(TOPIC, fill=Shelf(range(last + 1))) as slow,
            town.subscriber(TOPIC, fill=Shelf(range(last + 1))) as quick,
        ):
            await joined(slow)
            await joined(quick)
            reading = asyncio.create_task(take(quick, last))
            for first in range(1, last, 20):
                publisher.publish(messages(first, first + 19))
                await asyncio.sleep(0)
            assert numbers(await reading) == list(range(1, last + 1))
            assert numbers(await take(slow, last)) == list(range(1, last + 1))
            missed = slow.counts.missed + quick.counts.missed
            await until(lambda: broker.counts.missed > 0, slow)
            broker.report()

    assert slow.counts.filled > 1000
    assert broker.counts.overflows
    told = next(fact for fact in facts if isinstance(fact, BusFell))
    assert 0 < told.missed <= missed, "a report is lost where the broker is far behind"


async def test_messagepack_brings_the_same_records(town: Town) -> None:
    async with town.bus(), town.publisher(payload="msgpack") as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 2))
            got = await take(subscriber, 2)

    assert got == [Delivery(TOPIC, "a", n, record(n)) for n in (1, 2)]


async def test_a_message_too_large_is_dropped_and_harms_no_other(tmp_path: Path) -> None:
    town = Town(tmp_path, message_bytes=1024)
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC, fill=Shelf(range(9))) as subscriber:
            await joined(subscriber)
            large = messages(2, 2)[0]
            publisher.publish(messages(1, 1))
            publisher.publish([type(large)(TOPIC, "a", 2, b"\x01" + b"[" * 2000)])
            publisher.publish(messages(3, 3))
            got = await take(subscriber, 3)

    assert numbers(got) == [1, 2, 3]
    assert publisher.counts.dropped == 1


@pytest.mark.parametrize("largest", [1024, 16 * 1024 * 1024])
async def test_what_is_published_at_once_arrives_whole(tmp_path: Path, largest: int) -> None:
    town = Town(tmp_path, message_bytes=largest)
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 2000))
            got = await take(subscriber, 2000)

    assert got == [Delivery(TOPIC, "a", n, record(n)) for n in range(1, 2001)]
    assert (publisher.counts.published, publisher.counts.dropped) == (2000, 0)


async def test_junk_on_the_bus_is_counted_and_harms_nobody(town: Town) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stranger = context.socket(zmq.PUB)
    asking = context.socket(zmq.XSUB)
    try:
        async with town.bus() as broker, town.publisher() as publisher:
            stranger.connect(town.endpoints().publish)
            asking.connect(town.endpoints().subscribe)
            for word in (b"\x01_join.\xff\0", b"\x01_join\0", b"\x02", b"\x02" + b"x" * 8, b"zz"):
                asking.send(word)
            await heard(publisher)
            async with town.subscriber(TOPIC) as subscriber:
                await joined(subscriber)
                broken = b"_announce" + bytes([0, 1, 5, 1]) + b"a" + bytes(8) + b"{"

                inner = write_frame(Frame(BATCH, "a", 0, FrameKind.BATCH, b"\xc1"))
                nested = write_frame(Frame(BATCH, "a", 1, FrameKind.BATCH, pack_frames([inner])))
                reply = write_frame(Frame(f"{JOIN}.x.y", "a", 1, FrameKind.JOINED, b""))

                def send_junk() -> bool:
                    for junk in (b"", b"x", broken, b"_", inner, nested, reply):
                        stranger.send(junk)
                    return broker.counts.malformed >= 21

                await eventually(send_junk)
                publisher.publish(messages(1, 1))
                assert numbers(await take(subscriber, 1)) == [1]
    finally:
        context.destroy(0)


async def test_a_damaged_frame_in_a_batch_harms_no_other_of_the_batch(town: Town) -> None:
    async with town.bus() as broker, town.publisher() as publisher:
        await heard(publisher)
        async with town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            one, two = publisher._frames(messages(1, 2))
            publisher._send([one, b"junk", two])
            assert numbers(await take(subscriber, 2)) == [1, 2]

    assert (broker.counts.forwarded, broker.counts.malformed) == (2, 1)


async def test_the_bus_tells_which_streams_there_are(town: Town) -> None:
    async with town.bus() as broker, town.publisher(numbers={OTHER: 4}) as publisher:
        await heard(publisher)
        publisher.publish(messages(1, 2))
        publisher.announce()
        publisher.publish(messages(3, 3))
        await forwarded(broker, 3)
        facts = await ask_bus(town.endpoints(), town.clock)

    (slot,) = facts.slots
    assert (slot.slot, slot.numbers) == ("a", {OTHER: 4, TOPIC: 2})
    assert (slot.published, slot.dropped) == (2, 0)


async def test_a_bus_that_is_not_there_is_named_with_its_remedy(town: Town) -> None:
    with pytest.raises(BusUnreachable, match="penstock bus"):
        await ask_bus(town.endpoints(), town.clock, timeout_s=0.05)


async def test_a_folder_with_a_very_long_name_has_a_bus_too(tmp_path: Path) -> None:
    town = Town(tmp_path / ("x" * 120))
    async with town.bus(), town.publisher() as publisher:
        await heard(publisher)


async def forwarded(broker: Broker, many: int) -> None:
    await eventually(lambda: broker.counts.forwarded >= many)


async def until(true: Callable[[], bool], subscriber: Subscriber) -> None:
    """Let a subscriber that has everything go on reading until something is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(subscriber), 0.05)
