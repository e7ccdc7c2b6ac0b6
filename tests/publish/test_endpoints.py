"""Endpoints and keys: off this machine nobody speaks without a key that is known."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import zmq
from tests.waiting import PATIENCE_S
from zmq.utils import z85

from penstock.clock import SystemClock
from penstock.config import Bus
from penstock.errors import ConfigError, StorageError
from penstock.publish.endpoints import Side, find_log_id, is_local, log_id, resolve_endpoints
from penstock.publish.keys import AccessGuard, make_keys, read_secret
from penstock.publish.readiness import Socket
from penstock.publish.subscriber import Subscriber

from .conftest import TOPIC, Town, eventually, heard, joined, messages, numbers, take


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("ipc:///run/x.sock", True),
        ("tcp://127.0.0.1:1", True),
        ("tcp://127.9.9.9:1", True),
        ("tcp://[::1]:1", True),
        ("tcp://localhost:1", True),
        ("tcp://0.0.0.0:1", False),
        ("tcp://*:1", False),
        ("tcp://10.0.0.1:1", False),
        ("tcp://localhost.example.org:1", False),
        ("tcp://127.0.0.1.example.org:1", False),
        ("tcp://eth0:1", False),
    ],
)
def test_what_others_can_reach_is_known(endpoint: str, local: bool) -> None:
    assert is_local(endpoint) is local


@pytest.mark.parametrize("side", ["publish", "subscribe"])
@pytest.mark.parametrize("broker", [True, False])
def test_off_this_machine_there_must_be_keys(side: str, broker: bool, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"bus.{side}.*penstock bus keys"):
        resolve_endpoints(Bus(**{side: "tcp://0.0.0.0:7000"}), tmp_path, broker=broker)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "endpoint", ["tcp://nowhere", "tcp://:1", "udp://127.0.0.1:1", "ipc://", "tcp://h:70000", "x"]
)
def test_what_is_no_address_is_refused(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"write ipc, ipc://FILE"):
        resolve_endpoints(Bus(publish=endpoint), tmp_path)


def test_without_an_address_there_is_no_bus(tmp_path: Path) -> None:
    assert resolve_endpoints(Bus(publish=""), tmp_path) is None
    assert resolve_endpoints(Bus(subscribe=""), tmp_path) is None


def test_one_address_does_not_do_for_both_sides(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the same as bus\.publish"):
        resolve_endpoints(Bus(publish="ipc://x", subscribe="ipc://x"), tmp_path)


def test_a_key_is_let_in_only_where_its_folder_says_so(tmp_path: Path) -> None:
    context: zmq.Context[Socket] = zmq.Context()
    folders = {"publish": tmp_path / "publishers", "subscribe": tmp_path / "clients"}
    known = make_keys(folders["subscribe"], "known").public_key
    unknown = make_keys(tmp_path / "elsewhere", "unknown").public_key
    guard = AccessGuard(context, folders, SystemClock())
    asking = context.socket(zmq.REQ)
    asking.connect("inproc://zeromq.zap.01")

    def answer(side: str, key: str) -> bytes:
        asked = [b"1.0", b"1", side.encode(), b"", b"", b"CURVE", z85.decode(key)]
        asking.send_multipart(asked)
        assert guard.socket.poll(int(PATIENCE_S * 1000))
        assert guard.answer()
        return asking.recv_multipart()[2]

    assert answer("subscribe", known) == b"200"
    assert answer("publish", known) == b"300"
    assert answer("subscribe", unknown) == b"300"
    context.destroy(0)


@pytest.mark.parametrize("side", ["publish", "subscribe"])
def test_no_socket_takes_a_message_of_any_size(side: Side, tmp_path: Path) -> None:
    endpoints = resolve_endpoints(Bus(message_bytes=2048), tmp_path)
    assert endpoints is not None
    context: zmq.Context[Socket] = zmq.Context()
    listening, connected = context.socket(zmq.XPUB), context.socket(zmq.XSUB)
    endpoints.bind(listening, side)
    endpoints.connect(connected, side)
    largest = [int(socket.getsockopt(zmq.MAXMSGSIZE)) for socket in (listening, connected)]
    context.destroy(0)

    assert all(0 < size < 8192 for size in largest)


def test_a_folder_keeps_the_name_of_its_log(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"

    assert log_id(one) == log_id(one)
    assert log_id(one) != log_id(two)


@pytest.mark.parametrize("torn", [b"", b"3f2a", b"\0" * 16, b"\xff" * 16])
def test_the_name_of_a_log_that_a_power_cut_left_in_pieces_is_made_anew(
    tmp_path: Path, torn: bytes
) -> None:
    before = log_id(tmp_path)
    (tmp_path / "bus" / "log.id").write_bytes(torn)

    assert log_id(tmp_path) != before
    assert log_id(tmp_path) == find_log_id(tmp_path), "and stays"


def test_a_secret_key_is_its_owners_alone(tmp_path: Path) -> None:
    made = make_keys(tmp_path, "broker")

    assert made.secret.stat().st_mode & 0o777 == 0o600
    assert made.public.read_text().strip() == made.public_key
    secret = read_secret(made.secret)
    assert zmq.curve_public(secret.reveal().encode()).decode() == made.public_key
    assert secret.reveal() not in f"{secret} {secret!r}"
    with pytest.raises(StorageError, match="No key was overwritten"):
        make_keys(tmp_path, "broker")
    made.secret.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret(made.secret)


@pytest.mark.parametrize("text", ["", "short", "x" * 41, "\u00e4" * 40, '"' * 40])
def test_what_is_no_key_is_refused_without_being_shown(text: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(text)

    with pytest.raises(ConfigError, match="no key of 40 characters") as refused:
        resolve_endpoints(Bus(key_file=str(file)), tmp_path)
    assert len(text) < 10 or text not in str(refused.value)


def test_keys_are_asked_for_on_both_sides(tmp_path: Path) -> None:
    own = make_keys(tmp_path, "own")

    with pytest.raises(ConfigError, match=r"bus\.clients"):
        resolve_endpoints(Bus(key_file=str(own.secret)), tmp_path, broker=True)
    with pytest.raises(ConfigError, match=r"bus\.broker_key"):
        resolve_endpoints(Bus(key_file=str(own.secret)), tmp_path)


class Keys:
    """A broker with a list of clients, and clients with keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.broker = make_keys(folder, "broker")
        self.settings = {"key_file": str(self.broker.secret)}
        for side in ("clients", "publishers"):
            (folder / side).mkdir()
            self.settings[side] = str(folder / side)

    def client(self, name: str, *sides: str) -> dict[str, Any]:
        made = make_keys(self.folder, name)
        for side in sides:
            self.admit(name, side)
        return {"key_file": str(made.secret), "broker_key": self.broker.public_key}

    def admit(self, name: str, side: str) -> None:
        public = self.folder / f"{name}.public"
        (self.folder / side / public.name).write_text(public.read_text())


async def test_whose_key_is_known_comes_in(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    one, two = keys.client("one", "publishers"), keys.client("two", "clients")
    async with town.bus(**keys.settings), town.publisher(**one) as publisher:
        await heard(publisher)
        async with Subscriber(town.endpoints(**two), [TOPIC]) as subscriber:
            await joined(subscriber)
            publisher.publish(messages(1, 2))
            assert numbers(await take(subscriber, 2)) == [1, 2]


async def test_whose_key_is_not_known_stays_outside_until_it_is(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    late = keys.client("late")
    async with town.bus(**keys.settings) as broker, town.publisher(**late) as publisher:
        await eventually(lambda: broker.counts.refused >= 2)
        assert not publisher._listen()
        keys.admit("late", "publishers")
        await heard(publisher)


async def test_who_has_no_key_or_another_brokers_stays_outside(tmp_path: Path) -> None:
    keys, town = Keys(tmp_path), Town(tmp_path)
    good = keys.client("good", "publishers", "clients")
    wrong = {**good, "broker_key": make_keys(tmp_path, "impostor").public_key}
    async with (
        town.bus(**keys.settings),
        town.publisher("plain") as plain,
        town.publisher("wrong", **wrong) as misled,
        town.publisher(**good) as publisher,
        Subscriber(town.endpoints(**good), [TOPIC]) as subscriber,
        Subscriber(town.endpoints(), [""]) as eavesdropper,
    ):
        await heard(publisher)
        await joined(subscriber)
        publisher.publish(messages(1, 100))
        assert numbers(await take(subscriber, 100)) == [*range(1, 101)]
        assert not plain._listen()
        assert not misled._listen()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(eavesdropper), 0.2)
