"""What the simulator keeps is bounded by what it serves, not by how long it runs."""

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import msgspec
import pytest
from aiohttp import ClientSession
from tests.simulator.conftest import quick
from tests.waiting import PATIENCE_S

from penstock.simulator.engine import limits
from penstock.simulator.engine import server as serving
from penstock.simulator.engine.connections import Ended
from penstock.simulator.engine.exchange import Subscriber
from penstock.simulator.engine.history import History, kept_text
from penstock.simulator.engine.limits import Arrival, RequestLimiter
from penstock.simulator.engine.rules import BanPolicy, Rule
from penstock.simulator.engine.server import SimulatorServer
from penstock.simulator.engine.usage import Sliding
from penstock.simulator.engine.windows import Windows
from penstock.simulator.engine.wire import Client

Serve = Callable[..., Awaitable[SimulatorServer]]
PER_SECOND = Rule("r", "sliding", 1000, 1, "ip", "request")
BANS = BanPolicy(refusals_before_ban=0, first_ban_ms=10_000, longest_ban_ms=10_000)


def _client(number: int, *streams: str) -> Client:
    transport = cast("asyncio.Transport", None)
    client = Client(number, "127.0.0.1", "/ws", 0, transport, subscriber=Subscriber())
    client.subscriber.streams = dict.fromkeys(streams)
    return client


def test_a_log_keeps_the_newest_rows_and_counts_what_it_dropped() -> None:
    log = History(Arrival, kept=3)
    for seq in range(1, 11):
        log.append(Arrival(seq, 0, 0, "request", "127.0.0.1", "/", 1, 1, 200))

    assert [row.seq for row in log.page(after=0).rows] == [8, 9, 10]
    assert log.page(after=0).dropped == 7
    assert [row.seq for row in log.page(after=5, most=2).rows] == [8, 9]
    assert log.page(after=5).dropped == 2
    assert log.page(after=8) == ([*log.page(after=0).rows[1:]], 0)
    assert log.page(after=1 << 62) == ([], 0)


def test_a_page_begins_and_ends_anywhere_in_a_long_log() -> None:
    log = History(Arrival, kept=1000)
    for seq in range(1, 2001):
        log.append(Arrival(seq, 0, 0, "request", "127.0.0.1", "/a,\n", 1, 1, 200))

    for after in (0, 999, 1000, 1023, 1024, 1025, 1700, 1999, 2000):
        for most in (0, 1, 255, 256, 257, 600, None):
            first = max(after, 1000) + 1
            end = 2001 if most is None else min(first + most, 2001)
            page = log.page(after, most)
            assert [row.seq for row in page.rows] == [*range(first, end)]
            assert page.dropped == max(0, 1000 - after)
    assert {row.path for row in log.page(0).rows} == {"/a,\n"}


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def _came(limiter: RequestLimiter, addresses: int) -> None:
    """Each address connects once."""
    for number in range(addresses):
        ip = f"127.{number * 7919 % 127}.{number >> 8}.{number & 255}"
        limiter.connect(ip, "/stream", 1_794_886_000_000 + number * 17)


@pytest.mark.usefixtures("traced")
def test_a_row_of_the_request_log_takes_some_tens_of_bytes() -> None:
    limiter = RequestLimiter([], None)
    before = tracemalloc.get_traced_memory()[0]

    _came(limiter, 4096)

    took = tracemalloc.get_traced_memory()[0] - before
    assert took < 4096 * 40


@pytest.mark.usefixtures("traced")
def test_an_answer_with_many_rows_takes_no_more_than_a_few_times_its_size() -> None:
    limiter = RequestLimiter([], None)
    _came(limiter, 4096)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]

    answer = msgspec.json.encode({"requests": limiter.packed_arrivals(0, 4096).rows})

    assert len(answer) > 4096 * 100
    assert tracemalloc.get_traced_memory()[1] - before < 4 * len(answer)


@pytest.mark.usefixtures("traced")
def test_the_count_of_an_address_that_came_once_takes_some_hundreds_of_bytes() -> None:
    rule = Rule("r", "sliding", 600_000, 150, "ip", "connect")
    limiter = RequestLimiter([rule], None, remembered=1)
    before = tracemalloc.get_traced_memory()[0]

    _came(limiter, 3000)

    assert limiter.counted == 3000
    took = tracemalloc.get_traced_memory()[0] - before
    assert took < 3000 * 500


def test_totals_outlive_the_rows_they_count() -> None:
    limiter = RequestLimiter([PER_SECOND], None, remembered=1)
    for _ in range(3):
        limiter.admit("127.0.0.1", "/", 1, 0)
    limiter.connect("127.0.0.1", "/ws", 0)

    assert limiter.totals == {"request": 3, "connect": 1, "200": 2, "429": 2}


def test_a_path_of_any_length_takes_little_room_in_a_log() -> None:
    assert kept_text("/time") == "/time"
    assert len(kept_text("/" + "x" * 100_000)) == 201
    assert kept_text("/\udcff") == "/?"


def test_addresses_that_have_gone_quiet_are_not_counted_any_longer() -> None:
    limiter = RequestLimiter([PER_SECOND], None)
    for number in range(4000):
        limiter.admit(f"10.0.{number >> 8}.{number & 255}", "/", 1, number * 10)

    assert limiter.counted <= 1024
    assert not limiter.admit("10.0.15.159", "/", 1, 3999 * 10).admitted, "the last is known"


def test_of_many_offenders_those_whose_ban_ends_first_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "_MOST_OFFENDERS", 100)
    limiter = RequestLimiter([PER_SECOND], BANS)
    for number in range(105):
        for _ in range(2):
            limiter.admit(f"10.0.0.{number}", "/", 1, number)

    banned = limiter.banned(2000)

    assert [*banned] == [f"10.0.0.{number}" for number in range(5, 105)]


def test_a_flood_of_refusals_neither_outgrows_its_window_nor_slows_down() -> None:
    rule, usage = Rule("r", "sliding", 300_000, 300, "ip", "connect"), Sliding()
    for at_ms in range(0, 300_000, 10):
        usage.charge(rule, 1, at_ms)

    assert len(usage.charges) <= 8192
    assert usage.used(rule, 299_998) == 30_000
    # All but the 299 newest have to go, and those are from the last three seconds.
    assert 297_000 - 40 <= usage.wait_ms(rule, 1, 299_998) <= 297_000 + 40


def test_windows_say_how_many_are_gone() -> None:
    windows = Windows(1000, remembered=5)
    for second in range(8):
        windows.lagged(1, second * 1000)

    assert (len(windows.closed(100_000)), windows.dropped) == (5, 3)


def test_ended_connections_are_kept_by_number_and_by_size() -> None:
    few, small = Ended(most=3), Ended(most_bytes=10_000)
    for number in range(1, 11):
        few.append(_client(number))
        small.append(_client(number, *(f"stream-{i}" for i in range(100))))

    told = msgspec.json.decode(few.descriptions())
    assert [each["id"] for each in told] == [8, 9, 10]
    assert few.dropped == 7
    assert 5_000 < len(small.descriptions()) <= 10_100
    assert len(msgspec.json.decode(small.descriptions())) + small.dropped == 10


def test_a_connection_keeps_its_newest_subscriptions_and_counts_the_rest() -> None:
    client = _client(1, *(f"stream-{i}" for i in range(1024)))

    for at_ms in range(10):
        client.changed(at_ms)

    assert [change.at_ms for change in client.changes] == [6, 7, 8, 9]
    assert client.changes_dropped == 6


def test_nothing_waits_for_a_client_that_is_gone() -> None:
    client = _client(1)
    client.gone("the client left", 1)

    client.put(b"late")

    assert client.outbox == []


async def _get(session: ClientSession, server: SimulatorServer, path: str) -> Any:
    async with session.get(f"http://{server.address}/_sim/{path}") as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_whoever_does_not_read_an_answer_is_hung_up_on(
    serve: Serve, session: ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_UNREAD_S", 0.2)
    server = await serve()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)

    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    # Nobody reads on until the server has lost its patience.
    assert server._runner is not None
    listener = server._runner.server
    assert listener is not None
    async with asyncio.timeout(PATIENCE_S):
        while listener.connections:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)

    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(50_000_000), PATIENCE_S)
    writer.transport.abort()


async def test_a_request_that_nobody_waits_for_is_not_held_until_it_is_due(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(faults="latency=1h"))
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /time HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(PATIENCE_S):
        while not (await _get(session, server, "state"))["in_flight"]:
            pass

        writer.transport.abort()

        while (await _get(session, server, "state"))["in_flight"]:
            pass


async def test_a_name_of_any_length_ends_a_connection_before_it_fills_memory(
    serve: Serve, session: ClientSession
) -> None:
    server = await serve(quick(messages_per_second=1000))

    async with session.ws_connect(f"http://{server.address}/ws") as socket:
        for number in range(12):
            await socket.send_str(json.dumps({"join": [f"{number}@nothing" + "x" * 100_000]}))
        async with asyncio.timeout(PATIENCE_S):
            while (await socket.receive()).data != 1008:
                pass

    async with asyncio.timeout(PATIENCE_S):
        while not (closed := (await _get(session, server, "connections"))["closed"]):
            pass
    assert closed[0]["reason"] == "1008 Too many streams"
