"""``penstock replay --serve``: who connects to it records what was recorded from the exchange."""

import json
import socket
import subprocess
from contextlib import closing
from itertools import groupby
from pathlib import Path

import aiohttp
import pytest
from msgspec.structs import replace
from tests import events
from tests.waiting import PATIENCE_S

from penstock.market.events import Event
from penstock.storage.log import open_log

from .conftest import run, started, stopped, wait_until

MARKETS = {"binance": "btc_usdt", "kraken": "btc_usd", "coinbase": "btc_usd", "upbit": "btc_krw"}
STREAMED_BOOKS = ("kraken", "coinbase")
SECOND = 1_000_000_000


def at(exchange: str, address: str) -> dict[str, str]:
    return {
        "PENSTOCK_EXCHANGES_REST_URLS": f"{exchange}={address}",
        "PENSTOCK_EXCHANGES_STREAM_URLS": f"{exchange}={address}",
        # Books that the collector records by itself depend on how long it runs.
        "PENSTOCK_COLLECT_BOOK_EVERY": "3600",
        "PENSTOCK_COLLECT_AUDIT_EVERY": "0",
    }


def listening(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1][-2000:]
    address: str = json.loads(line)["listening"]
    return address


def recorded(folder: Path, exchange: str) -> dict[str, list[Event]]:
    """What a folder holds of a market, by channel, without what each receiver has of its own.

    Trades that the collector fetched are streamed by a replay. A collector records books of its
    own; only those that a stream begins with, or consists of, are the exchange's. In the end it
    records the last one again.
    """
    found = {}
    with closing(open_log(f"rocksdb:{folder}").reader()) as reader:
        for stream in reader.streams():
            made = [
                replace(each.event, received_at_ns=0, source="live") for each in reader.scan(stream)
            ]
            if stream.channel == "book_snapshots":
                made = (
                    made[:1] if exchange in STREAMED_BOOKS else [book for book, _ in groupby(made)]
                )
            found[stream.channel] = made
    found.pop("disconnects", None)
    if exchange == "binance":
        found.pop("book_snapshots", None)
    return found


def is_enough(found: dict[str, list[Event]]) -> bool:
    return "trades" in found and sum(map(len, found.values())) >= 30


def has_all(found: dict[str, list[Event]], wanted: dict[str, list[Event]]) -> bool:
    return all(len(found.get(channel, ())) >= len(wanted[channel]) for channel in wanted)


@pytest.mark.parametrize("exchange", MARKETS)
def test_a_collector_records_the_same_from_a_replay(exchange: str, tmp_path: Path) -> None:
    market, one, two = MARKETS[exchange], tmp_path / "one", tmp_path / "two"
    sim = ("sim", exchange, "--port", "0", "--json", "--symbols", market)
    with started(*sim, folder=tmp_path, environment={}) as simulating:
        collect = ("collect", exchange, market, "--json", "--data-dir", str(one))
        environment = at(exchange, listening(simulating))
        with started(*collect, folder=tmp_path, environment=environment) as collecting:
            wait_until(lambda: is_enough(recorded(one, exchange)), collecting)
            code, _, errors = stopped(collecting)
        assert code == 0, errors
    first = recorded(one, exchange)

    serve = ("replay", "--serve", "--port", "0", "--json", "--speed", "5", "--data-dir", str(one))
    with started(*serve, folder=tmp_path, environment={}) as serving:
        collect = ("collect", exchange, market, "--json", "--data-dir", str(two))
        environment = at(exchange, listening(serving))
        with started(*collect, folder=tmp_path, environment=environment) as collecting:
            assert serving.stderr is not None
            assert "everything was sent" in serving.stderr.readline()
            # What was sent may still be on its way when the collector is told to stop.
            wait_until(lambda: has_all(recorded(two, exchange), first), collecting)
            code, out, errors = stopped(collecting)
        assert code == 0, errors
        assert json.loads(out)["malformed"] == {}
        code, out, errors = stopped(serving)
        assert code == 0
        assert "SHA-256" in errors

    assert recorded(two, exchange) == first


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder with a few records of one market."""
    noon = 1_700_000_000 * SECOND
    made: list[Event] = [
        events.trade(n, exchange="binance", received_at_ns=noon + n, at_ns=noon) for n in range(5)
    ]
    made += [events.delta(n, n, exchange="binance", received_at_ns=noon + n) for n in range(5, 9)]
    with closing(open_log(f"rocksdb:{tmp_path}").writer("a")) as writer:
        writer.append(made)
    return tmp_path


SERVE = ("replay", "--serve", "--port", "0", "--json", "--speed", "max", "--data-dir", ".")


@pytest.mark.parametrize("path", ["/ws", "/ws/btcusdt@trade", "/stream?streams=btcusdt@trade"])
async def test_a_bot_connects_as_to_the_exchange(served: Path, path: str) -> None:
    with started(*SERVE, folder=served, environment={}) as serving:
        address = listening(serving)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address + path) as bot,
        ):
            if path == "/ws":
                wanted = ["btcusdt@trade", "nonsense", "ethusdt@trade"]
                await bot.send_json({"method": "SUBSCRIBE", "params": wanted, "id": 1})
                assert await bot.receive_json(timeout=PATIENCE_S) == {"result": None, "id": 1}
            frames = [await bot.receive_json(timeout=PATIENCE_S) for _ in range(5)]
            async with session.get(f"{address}/api/v3/depth?symbol=BTCUSDT&limit=5") as answer:
                assert answer.status == 503, "the recording has no book"
            async with session.get(f"{address}/api/v3/klines?symbol=BTCUSDT") as answer:
                assert answer.status == 404
            async with session.get(f"{address}/api/v3/trades?symbol=BTCUSDT") as answer:
                assert [each["id"] for each in await answer.json()] == [0, 1, 2, 3, 4]

    if path.startswith("/stream"):
        assert {frame["stream"] for frame in frames} == {"btcusdt@trade"}
        frames = [frame["data"] for frame in frames]
    assert [(frame["e"], frame["s"], frame["t"]) for frame in frames] == [
        ("trade", "BTCUSDT", n) for n in range(5)
    ]


async def test_events_of_several_streams_come_in_the_order_of_the_replay(served: Path) -> None:
    streams = "btcusdt@depth@100ms/btcusdt@trade"
    with started(*SERVE, folder=served, environment={}) as serving:
        address = listening(serving)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{address}/stream?streams={streams}") as bot,
        ):
            frames = [await bot.receive_json(timeout=PATIENCE_S) for _ in range(9)]

    kinds = [frame["stream"].partition("@")[2] for frame in frames]
    assert kinds == ["trade"] * 5 + ["depth@100ms"] * 4


def test_a_port_in_use_is_told(served: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run("replay", "--serve", "--port", port, "--data-dir", ".", folder=served)

    assert done.returncode == 2
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_server_is_one_exchange_that_is_known(served: Path) -> None:
    with closing(open_log(f"rocksdb:{served}").writer("b")) as writer:
        writer.append([events.trade(1, exchange="toy")])

    both = run("replay", "--serve", "--data-dir", ".", folder=served)
    toy = run("replay", "toy.", "--serve", "--data-dir", ".", folder=served)

    assert both.returncode == toy.returncode == 2
    assert "binance and toy: one server is one exchange" in both.stderr
    assert "'toy' is not supported" in toy.stderr


def test_a_range_without_records_is_not_served(served: Path) -> None:
    words = ("replay", "--serve", "--from", "2024-01-01", "--data-dir", ".")
    done = run(*words, folder=served)

    assert done.returncode == 2
    assert "was received in that range" in done.stderr
