"""The bus: what comes from whoever may connect ends nothing, fills no memory and steers nothing."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from tests.cli.conftest import invoke, run, started
from tests.publish.conftest import (
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
from tests.publish.test_endpoints import Keys
from tests.waiting import PATIENCE_S

from penstock.cli.tail import _text
from penstock.errors import BusUnreachable, ConfigError
from penstock.publish.asking import ask_bus
from penstock.publish.broker import Broker
from penstock.publish.facts import BusRefused
from penstock.publish.frames import ANNOUNCE, Announcement, Frame, FrameKind, write_frame
from penstock.publish.outbox import _MOST_BYTES, Outbox
from penstock.publish.registry import BusCounts
from penstock.publish.subscriber import Delivery, Missing, Subscriber
from penstock.publish.subscriptions import LONGEST, ClientSubscriptions
from penstock.telemetry import Fact

from .attacked_bus import attacked, check
from .bus_attack import handshake

EVIL = "a[/b].\x1b[2J\u202e.x"


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


@contextmanager
def stranger(kind: int, endpoint: str) -> Iterator["zmq.Socket[bytes]"]:
    """A socket that is not ours; what becomes of its connection is told by ``lost``."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        found = context.socket(kind)
        found.connect(endpoint)
        yield found
    finally:
        context.destroy(0)


def lost(watched: "zmq.Socket[bytes]") -> Any:
    """Whether a connection was lost since this was first called, to be asked."""
    events = watched.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    return lambda: bool(events.poll(0))


def is_closed(connection: socket.socket) -> bool:
    try:
        while connection.recv(1000):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


# Keys


async def test_a_key_that_may_subscribe_may_not_publish(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    reads, writes = keys.client("reads", "clients"), keys.client("writes", "publishers")
    facts: list[Fact] = []
    async with (
        town.bus(**keys.settings) as broker,
        town.publisher("forger", **reads) as forger,
        town.publisher(**writes) as publisher,
        Subscriber(town.endpoints(**reads), [TOPIC]) as subscriber,
    ):
        broker._emit = facts.append
        await heard(publisher)
        await joined(subscriber)
        await eventually(lambda: broker.counts.refused >= 2)
        assert not forger._listen()
        publisher.publish(messages(1, 1))
        assert numbers(await take(subscriber, 1)) == [1]
        broker.report()

    assert isinstance(facts[0], BusRefused)
    assert "may subscribe only" in facts[0].why
    assert "bus.publishers" in facts[0].why


async def test_a_key_that_may_publish_may_not_subscribe(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    writes = keys.client("writes", "publishers")
    async with (
        town.bus(**keys.settings) as broker,
        Subscriber(town.endpoints(**writes), [TOPIC]) as subscriber,
    ):
        await eventually(lambda: broker.counts.refused >= 2)
        assert not subscriber.joined


async def test_keys_from_before_there_were_two_folders_may_subscribe_only(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    old = keys.client("old", "clients")
    del keys.settings["publishers"]
    async with (
        town.bus(**keys.settings) as broker,
        town.publisher(**old) as publisher,
        Subscriber(town.endpoints(**old), [TOPIC]) as subscriber,
    ):
        await joined(subscriber)
        await eventually(lambda: broker.counts.refused >= 2)
        assert not publisher._listen()


def test_a_broker_that_nobody_may_publish_to_says_so_and_what_to_do(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    environment = {
        "PENSTOCK_BUS_KEY_FILE": keys.settings["key_file"],
        "PENSTOCK_BUS_CLIENTS": keys.settings["clients"],
    }
    done = run("bus", "--seconds", "0.1", folder=tmp_path, **environment)

    assert done.returncode == 0, done.stderr
    assert "bus.publishers is not set, so no client may publish" in done.stderr


def test_a_folder_of_publishers_that_is_none_is_refused(tmp_path: Path) -> None:
    keys = Keys(tmp_path)
    settings = {**keys.settings, "publishers": str(tmp_path / "nowhere")}

    with pytest.raises(ConfigError, match=r"bus\.publishers"):
        Town(tmp_path).endpoints(broker=True, **settings)


async def test_what_is_no_key_in_a_folder_of_keys_locks_nobody_out(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    writes = keys.client("writes", "publishers")
    os.mkfifo(tmp_path / "publishers" / "pipe.public")
    (tmp_path / "publishers" / "folder.public").mkdir()
    (tmp_path / "publishers" / "empty.public").touch()
    async with town.bus(**keys.settings), town.publisher(**writes) as publisher:
        await heard(publisher)


async def test_the_largest_message_passes_with_keys_too(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    both = keys.client("both", "publishers", "clients") | {"message_bytes": 4096}
    frame_bytes = len(write_frame(Frame(TOPIC, "a", 1, FrameKind.JSON, b"")))
    large = type(messages(1, 1)[0])(TOPIC, "a", 1, b"\x02" + b"x" * (4096 - frame_bytes))
    async with (
        town.bus(**keys.settings, message_bytes=4096),
        town.publisher(**both) as publisher,
        Subscriber(town.endpoints(**both), [TOPIC]) as subscriber,
    ):
        await heard(publisher)
        await joined(subscriber)
        publisher.publish([large])
        assert numbers(await take(subscriber, 1)) == [1]


# Numbers


async def test_one_forged_number_silences_no_topic(town: Town) -> None:
    async with town.bus() as broker, town.publisher() as publisher:
        await heard(publisher)
        publisher.publish(messages(1, 3))
        publisher.announce()
        await eventually(lambda: broker.counts.forwarded >= 3)
        shelf = Shelf(range(10))
        async with town.subscriber(TOPIC, fill=shelf) as subscriber:
            assert numbers(await take(subscriber, 1)) == [3]
            told = Announcement(slot="a", run=1 << 62, log=7, numbers={TOPIC: 1 << 62})
            forged = [
                write_frame(Frame(TOPIC, "a", 1 << 62, FrameKind.JSON, b"{}")),
                write_frame(Frame(ANNOUNCE, "a", 0, FrameKind.FACTS, msgspec.json.encode(told))),
            ]
            with stranger(zmq.XPUB, town.endpoints().publish) as forger:
                assert await asyncio.to_thread(forger.recv) == b"\x01"
                before = broker.counts.forwarded
                for frame in reversed(forged):
                    forger.send(frame)
                await eventually(lambda: broker.counts.forwarded > before)
            publisher.publish(messages(4, 6))
            publisher.announce()
            assert numbers(await take(subscriber, 3)) == [4, 5, 6]
            assert subscriber.counts.doubted
            async with town.subscriber(TOPIC, fill=shelf) as fresh:
                await joined(fresh)
                publisher.publish(messages(7, 7))
                assert numbers(await take(fresh, 2)) == [6, 7]


async def test_numbers_given_while_no_bus_was_there_are_announced_to_the_first(town: Town) -> None:
    async with town.publisher(numbers={OTHER: 4}) as publisher:
        publisher.publish(messages(1, 3))
        assert publisher.counts.unheard == 3
        async with (
            town.bus(),
            town.subscriber(TOPIC, start=1, fill=Shelf(range(1, 4))) as one,
            town.subscriber(OTHER, fill=Shelf([4])) as other,
        ):
            assert numbers(await take(one, 3)) == [1, 2, 3]
            assert numbers(await take(other, 1)) == [4]


# Sizes and counts


async def test_a_message_larger_than_the_bus_takes_costs_its_sender_the_connection(
    tmp_path: Path,
) -> None:
    town = Town(tmp_path, message_bytes=100_000)
    with stranger(zmq.XPUB, town.endpoints().publish) as sender:
        is_lost = lost(sender)
        async with town.bus() as broker, town.publisher() as publisher:
            assert await asyncio.to_thread(sender.recv) == b"\x01"
            sender.send(write_frame(Frame(TOPIC, "b", 1, FrameKind.JSON, b"x" * 101_000)))
            await eventually(is_lost)
            await heard(publisher)
            publisher.publish(messages(1, 1))
            await eventually(lambda: broker.counts.forwarded == 1)


@pytest.mark.parametrize("size", [LONGEST + 1, 1500])
async def test_a_long_subscription_costs_its_sender_the_connection(town: Town, size: int) -> None:
    with stranger(zmq.XSUB, town.endpoints().subscribe) as asking:
        is_lost = lost(asking)
        async with town.bus(), town.publisher() as publisher, town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            asking.send(b"\x01" + b"x" * size)
            await eventually(is_lost)
            await heard(publisher)
            publisher.publish(messages(1, 1))
            assert numbers(await take(subscriber, 1)) == [1]


async def test_many_subscriptions_cost_their_sender_the_connection(tmp_path: Path) -> None:
    town = Town(tmp_path, subscriptions=100)
    with stranger(zmq.XSUB, town.endpoints().subscribe) as asking:
        is_lost = lost(asking)
        async with town.bus() as broker, town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            for number in range(90):
                asking.send(f"\x01{number}".encode())
            await eventually(lambda: len(broker._subscriptions._held) >= 90)
            assert not is_lost(), "so many are allowed"
            for number in range(90, 120):
                asking.send(f"\x01{number}".encode())
            await eventually(is_lost)
            assert broker.counts.cut


def test_subscriptions_are_counted_by_connection_and_in_all() -> None:
    subscriptions = ClientSubscriptions(3)
    for name in (b"a", b"b", b"c"):
        assert not subscriptions.added(1, name)
    assert not subscriptions.added(2, b"a"), "nobody is charged for what is there already"
    assert "more than 3 subscriptions" in subscriptions.added(1, b"d")
    subscriptions.removed(b"d")
    subscriptions.removed(b"a")
    assert not subscriptions.added(1, b"e")
    subscriptions.opened(1)
    assert not subscriptions.added(1, b"f"), "another connection got the number"

    many = ClientSubscriptions(1_000_000)
    refused = [many.added(connection, b"%150d" % n) for connection in range(10) for n in range(800)]
    distinct = [many.added(9 + n % 20, b"x%140d" % n) for n in range(9000)]
    assert not any(refused), "what several ask for is kept once"
    assert "with those of others" in distinct[-1]
    alone = ClientSubscriptions(1_000_000)
    assert "more than 262144 bytes" in [alone.added(1, b"%150d" % n) for n in range(1800)][-1]


def test_answers_that_are_not_read_hold_up_those_after_them() -> None:
    subscriptions = ClientSubscriptions(100)
    for asked in (b"_join.1.\0", b"_join.2.\0", b"_join.3.\0"):
        subscriptions.added(1, asked)
        subscriptions.asked(asked)
    subscriptions.added(2, b"_join.4.\0")
    subscriptions.asked(b"_join.4.\0")

    large = 3 * 1024 * 1024
    answered = []
    while (question := subscriptions.next_question()) is not None:
        subscriptions.answered(question, large)
        answered.append(question[6:7])
    assert answered == [b"1", b"4", b"2"]
    subscriptions.removed(b"_join.1.\0")
    assert subscriptions.next_question() == b"_join.3.\0"


async def test_more_connections_than_allowed_are_closed_and_others_go_on(tmp_path: Path) -> None:
    town = Town(tmp_path, connections=5)
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(20)]
        await _use_while_held(town, held)


async def _use_while_held(town: Town, held: list[socket.socket]) -> None:
    async with town.bus() as broker, town.publisher() as publisher:
        await heard(publisher)
        path = town.endpoints().publish.removeprefix("ipc://")
        for each in held:
            each.connect(path)
            each.setblocking(False)
            with suppress(OSError):
                each.sendall(handshake(b"PUB"))
        await eventually(lambda: sum(map(is_closed, held)) >= 15)
        await eventually(lambda: broker.counts.cut >= 15)
        async with town.subscriber(TOPIC) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 1))
            assert numbers(await take(subscriber, 1)) == [1]
        for each in held:
            each.close()
        async with town.publisher("b") as late:
            await heard(late)


async def test_large_messages_that_nobody_reads_are_bounded_in_bytes(tmp_path: Path) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        sending, reading = context.socket(zmq.XPUB), context.socket(zmq.SUB)
        counts, endpoint = BusCounts(), f"ipc://{tmp_path / 's'}"
        outbox = Outbox(sending, counts)
        reading.setsockopt(zmq.RCVHWM, 1)
        sending.bind(endpoint)
        reading.connect(endpoint)
        reading.subscribe(b"")
        await asyncio.to_thread(sending.recv)
        for _ in range(2 * _MOST_BYTES // 1_000_000):
            outbox.send([bytes(1_000_000)])
        waiting = sum(size for _, size in outbox._waiting)
        assert counts.overflows
        assert waiting <= _MOST_BYTES

        def read_all() -> None:
            while reading.poll(500):
                reading.recv()

        await asyncio.to_thread(read_all)
        overflows = counts.overflows
        outbox.send([bytes(1_000_000)])
        assert counts.overflows == overflows, "what was read makes room"
    finally:
        context.destroy(0)


# Files


@pytest.mark.parametrize("length", [1, 60, 120, 240])
@pytest.mark.parametrize("umask", [0o000, 0o022])
async def test_sockets_are_files_for_their_owner_at_any_length_of_path(
    tmp_path: Path, length: int, umask: int
) -> None:
    town = Town(tmp_path / ("x" * length) / "data")
    (town.folder / "bus").mkdir(parents=True)  # as who publishes makes it, before the bus is there
    before = os.umask(umask)
    try:
        async with (
            town.publisher() as publisher,
            town.bus(),
            town.subscriber(TOPIC) as subscriber,
        ):
            await heard(publisher)
            await joined(subscriber)
            modes = [
                (town.folder / "bus" / f"{side}.sock").stat().st_mode & 0o777
                for side in ("publish", "subscribe")
            ]
    finally:
        os.umask(before)

    assert modes == [0o600 if umask else 0o660] * 2


def test_a_path_that_no_socket_can_have_is_refused(tmp_path: Path) -> None:
    town = Town(tmp_path, publish=f"ipc://{tmp_path}/{'y' * 150}.sock")

    with pytest.raises(ConfigError, match="too long for a socket"):
        Broker(town.endpoints(broker=True), town.clock)


async def test_a_bus_in_a_long_folder_that_is_not_there_is_named_with_its_remedy(
    tmp_path: Path,
) -> None:
    town = Town(tmp_path / ("x" * 150))

    with pytest.raises(BusUnreachable, match="penstock bus"):
        await ask_bus(town.endpoints(), town.clock)


# What is printed

DIRT = [
    b"\x02\xff\xfe",
    b'\x02{"kind":"trade","x":"\xff"}',
    b"\x02[1,2]",
    b"\x02{}",
    b"\x02" + b"[" * 5000,
    b'\x02{"number":7}',
    b'\x01{"kind":"trade","at_ms":' + b"9" * 5000 + b"}",
    b"\x02" + record(1)[1:].replace(b'"id":1', b'"id":\n1'),
    record(1).replace(b"sim", b"\\u001b[31m\\ud800"),
]


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("dirt", DIRT)
def test_any_record_is_one_line_that_can_be_printed(dirt: bytes, as_json: bool) -> None:
    line = _text(Delivery(EVIL, "s\n", 5, dirt), as_json=as_json)

    assert line.isprintable()
    line.encode()
    if as_json:
        told = msgspec.json.decode(line)
        assert (told["topic"], told["number"]) == (EVIL, 5)


@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_missing_is_told_on_one_line_that_can_be_printed(as_json: bool) -> None:
    assert _text(Missing(EVIL, "s\x9b", 1, 2), as_json=as_json).isprintable()


def test_tail_and_streams_go_on_whatever_is_published(tmp_path: Path) -> None:
    with started("bus", "--json", folder=tmp_path, environment={}) as bus:
        assert bus.stdout is not None
        publish = msgspec.json.decode(bus.stdout.readline())["publish"]
        told = Announcement(slot="s[/]", run=1, log=1, numbers={EVIL: 2, TOPIC: 1})
        frames = [
            write_frame(Frame(ANNOUNCE, "s[/]", 0, FrameKind.FACTS, msgspec.json.encode(told))),
            write_frame(Frame(TOPIC, "s[/]", 1, FrameKind.JSON, b"\xff\x1b[2J")),
            write_frame(Frame(EVIL, "s[/]", 2, FrameKind.JSON, record(2)[1:])),
        ]
        with stranger(zmq.XPUB, publish) as sender:
            assert sender.recv() == b"\x01"
            for frame in frames:
                sender.send(frame)
            where = ("--data-dir", str(tmp_path / "penstock-data"))
            streams = invoke("bus", "streams", *where)
            shown = invoke("bus", "streams", "--json", *where)
            plain = invoke("tail", "--count", "2", *where)
            as_json = invoke("tail", "--count", "2", "--json", *where)

    for done in (streams, shown, plain, as_json):
        assert done.returncode == 0, done.stderr
        assert all(line.isprintable() for line in done.stdout.splitlines())
    assert "a[/b].\\x1b[2J\\u202e.x" in streams.stdout
    assert EVIL in msgspec.json.decode(shown.stdout)["slots"][0]["numbers"]
    assert "cannot be read" in plain.stdout
    assert len(plain.stdout.splitlines()) == len(as_json.stdout.splitlines()) == 2


def test_log_lines_steer_no_terminal() -> None:
    script = (
        "from penstock.publish.facts import BusRefused\n"
        "from penstock.telemetry import configure_logging, log_facts\n"
        f"for style in ('human', 'json'):\n"
        f"    configure_logging(style)\n"
        f"    log_facts(BusRefused(count=1, why={EVIL + chr(10)!r}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert len(done.stderr.splitlines()) == 2
    assert all(line.isprintable() for line in done.stderr.splitlines())


# Under attack

STUCK = """
import asyncio, time
from penstock.runtime.stopping import end_in_time, stop_on_signals

async def main():
    stop_on_signals(asyncio.Event())
    end_in_time(0.2)
    print("stuck", flush=True)
    while True:
        time.sleep(0.01)

asyncio.run(main())
"""


def test_a_broker_that_is_stuck_ends_nevertheless() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE) as stuck:
        try:
            assert stuck.stdout is not None
            assert stuck.stdout.readline() == b"stuck\n"
            stuck.send_signal(signal.SIGTERM)
            assert stuck.wait(PATIENCE_S) == 1
        finally:
            stuck.kill()


async def test_a_bus_that_is_attacked_takes_little_memory_and_is_right_afterwards(
    tmp_path: Path,
) -> None:
    check(await attacked(tmp_path, 2.0, seed=1))


async def test_a_bus_that_is_flooded_with_subscriptions_is_right_afterwards(tmp_path: Path) -> None:
    # A flood takes memory while it lasts (docs/bus.md): 60 to 120 MB in three seconds, the more the
    # faster the machine.
    check(await attacked(tmp_path, 2.0, seed=1, flood=True), most_bytes=300_000_000)
