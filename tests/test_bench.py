"""The benchmarks' own parts: who gets which frames, what is counted, and what counts as lost."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import zmq
from bench import _c_loop, _sides
from bench.inputs import binance
from bench.inputs.exchange import Exchange
from bench.inputs.stored import Inputs
from bench.inputs.subscriber import Subscriber
from bench.ours.long import measure

from penstock.publish.frames import BATCH, Frame, FrameKind, pack_frames, write_frame

ROOT = Path(__file__).parent.parent
FRAMES = 400


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return binance.make_inputs(tmp_path_factory.mktemp("inputs") / "few", FRAMES, markets=3)


def stream_of(frame: bytes) -> str:
    name: str = json.loads(frame)["stream"]
    return name


async def test_each_client_of_the_stand_in_gets_the_frames_of_its_streams(inputs: Inputs) -> None:
    exchange, frames = Exchange(inputs), inputs.frames()
    names = sorted({stream_of(frame) for frame in frames})
    by_address, by_message = names[:4], names[4:]
    url = f"ws://127.0.0.1:{exchange.ports['stream']}/stream"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}?streams={'/'.join(by_address)}") as first,
        session.ws_connect(url) as second,
    ):
        await second.send_json({"method": "SUBSCRIBE", "params": by_message, "id": 7})
        assert json.loads(await second.receive_str())["id"] == 7
        waited = await asyncio.to_thread(exchange.wait)
        sent = await asyncio.to_thread(exchange.send, 0, FRAMES, None)

        for client, wanted in ((first, by_address), (second, by_message)):
            expected = [frame for frame in frames if stream_of(frame) in wanted]
            got = [(await client.receive_str()).encode() for _ in expected]
            assert got == expected
    assert waited == {"missing": 0, "connections": 2}
    assert sent["ticks"][-1][0] == FRAMES


async def test_the_stand_in_answers_pings_and_outlives_a_client(inputs: Inputs) -> None:
    exchange, frames = Exchange(inputs), inputs.frames()
    names = "/".join(sorted({stream_of(frame) for frame in frames}))
    url = f"ws://127.0.0.1:{exchange.ports['stream']}/stream?streams={names}"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, autoping=False) as client,
    ):
        await client.ping(b"alive")
        answer = await client.receive()
        await asyncio.to_thread(exchange.wait)
        for each in exchange._clients:
            each._connection.close()
        sent = await asyncio.to_thread(exchange.send, 0, FRAMES, None)

    assert (answer.type, answer.data) == (aiohttp.WSMsgType.PONG, b"alive")
    assert sent["ticks"][-1][0] == FRAMES


async def test_the_stand_in_tells_markets_and_the_books_before_the_first_frame(
    inputs: Inputs,
) -> None:
    exchange = Exchange(inputs)
    url = f"http://127.0.0.1:{exchange.ports['rest']}/api/v3"
    async with aiohttp.ClientSession() as session:
        info = await (await session.get(f"{url}/exchangeInfo")).json()
        book = await (await session.get(f"{url}/depth?symbol=BTCUSDT&limit=1000")).text()
        async with session.get(f"{url}/klines") as unknown:
            await unknown.read()

    assert [each["symbol"] for each in info["symbols"]] == list(inputs.snapshots())
    assert book == inputs.snapshots()["BTCUSDT"]
    assert unknown.status == 404
    assert exchange.unknown == ["/api/v3/klines"]


@pytest.fixture
def wire() -> Iterator[tuple[zmq.Socket[bytes], Subscriber]]:
    """A publisher, and a subscriber that has everything."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher, listening = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    listening.connect(f"tcp://127.0.0.1:{port}")
    listening.subscribe(b"")
    publisher.recv()  # the subscription is there
    yield publisher, Subscriber(listening)
    for each in (publisher, listening):
        each.close(0)
    context.term()


def record(number: int, kind: FrameKind = FrameKind.JSON) -> bytes:
    payload = json.dumps({"id": 1000 + number}).encode()
    return write_frame(Frame("binance.agg_trades.btc_usdt", "collect", number, kind, payload))


def test_records_are_counted_and_nothing_else(
    wire: tuple[zmq.Socket[bytes], Subscriber],
) -> None:
    publisher, subscriber = wire
    batch = pack_frames([record(2), record(3)])
    for data in (
        record(1),
        record(1, FrameKind.HEAD),
        write_frame(Frame(BATCH, "collect", 2, FrameKind.BATCH, batch)),
        write_frame(Frame("binance.book_snapshots.btc_usdt", "collect", 1, FrameKind.JSON, b"{}")),
        b'BINANCE-trades-BTC-USDT {"id": "1004"}',
    ):
        publisher.send(data)

    told = subscriber.take(expected=9, quiet_s=0.3, patience_s=5, tell_trades=True)

    trades = told["trades"]
    assert isinstance(trades, list)
    assert (told["records"], told["others"]) == (4, 1)
    assert [trade[:2] for trade in trades] == [("BTCUSDT", 1001 + n) for n in range(4)]


def test_announcements_do_not_keep_a_subscriber_waiting(
    wire: tuple[zmq.Socket[bytes], Subscriber],
) -> None:
    publisher, subscriber = wire
    publisher.send(record(1))
    done = threading.Event()

    def announce() -> None:
        while not done.wait(0.05):
            publisher.send(record(1, FrameKind.HEAD))

    announcing = threading.Thread(target=announce)
    announcing.start()
    told = subscriber.take(expected=2, quiet_s=0.5, patience_s=5)
    done.set()
    announcing.join()

    assert told["records"] == 1, "one of two is missing, and that is told"


@pytest.mark.skipif(_c_loop.compiler() is None, reason="there is no C compiler")
def test_the_loop_in_c_finds_every_frame(inputs: Inputs, tmp_path: Path) -> None:
    us = _c_loop.measure_loop(inputs, tmp_path)

    assert us is not None
    assert 0 < us < 1000
    frames = tmp_path / "two.txt"
    frames.write_bytes(b'{"a":"x\\"y","b":[1,-2.5,"3"],"c":true}\n{"d":4}')
    told = json.loads(subprocess.check_output([tmp_path / "split", frames, "3"]))
    assert (told["frames"], told["tokens"]) == (6, 3 * (7 + 2))


def test_the_long_case_writes_every_record_once(inputs: Inputs, tmp_path: Path) -> None:
    told = measure(str(tmp_path / "log"), str(inputs.folder), records=1_500, flush=50)

    assert told["records"] == 1_500
    assert told["us"] > 0


def test_a_python_that_is_not_there_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PYENV_ROOT", "nowhere")

    assert _sides.find_python(13) is None


def test_a_wrong_case_is_answered_with_the_right_ones() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench", "stream", "--case", "unreal", "--side", "ours"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode
    assert "real-10k-8" in run.stderr


def test_a_closed_client_does_not_stop_the_stand_in(inputs: Inputs) -> None:
    exchange = Exchange(inputs)
    with socket.create_connection(("127.0.0.1", exchange.ports["stream"])) as client:
        client.sendall(b"GET /stream HTTP/1.1\r\nSec-WebSocket-Key: x\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 101"

    with socket.create_connection(("127.0.0.1", exchange.ports["stream"])) as client:
        client.sendall(b"GET /stream HTTP/1.1\r\nSec-WebSocket-Key: x\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 101"
