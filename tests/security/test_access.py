"""Access: who guesses is slowed down, who comes another way is refused, and no secret is shown."""

import asyncio
import logging
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.api.conftest import Client, served
from tests.stats.test_exposition import free_port
from tests.waiting import PATIENCE_S
from typer.testing import CliRunner

from penstock.api.access import rules_of
from penstock.api.logins import FREE_FAILURES, Logins
from penstock.app.simulator import build_simulator
from penstock.cli import app
from penstock.clock import ManualClock, SystemClock
from penstock.config import Api, Metrics, Secret, Simulator
from penstock.errors import ConfigError, PenstockError, mask_urls
from penstock.simulator.engine.server import SimulatorServer
from penstock.stats.exposition import exposed
from penstock.storage.state import open_store
from penstock.telemetry import configure_logging, log_error
from penstock.web.facts import LoginFailed

TOKEN = "correct horse battery staple"
RIGHT = f"Bearer {TOKEN}"
READ_TOKEN = "another horse may look"
READS = f"Bearer {READ_TOKEN}"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Client]:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    settings = Api(port=0, token=Secret(TOKEN), read_token=Secret(READ_TOKEN))
    async with served(store, settings) as client:
        yield client
    await store.close()


def binance_simulator(host: str = "127.0.0.1") -> SimulatorServer:
    settings = Simulator(host=host, port=0, symbols=("btc_usdt",))
    return build_simulator(settings, SystemClock())


@pytest.fixture
async def simulator() -> AsyncIterator[SimulatorServer]:
    server = binance_simulator()
    await server.start()
    yield server
    await server.stop()


async def simulator_status(port: int, address: str, headers: dict[str, str]) -> int:
    """What a question under /_sim/ is answered with."""
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session,
        session.get(f"http://{address}:{port}/_sim/state", headers=headers) as answer,
    ):
        return answer.status


@pytest.mark.parametrize("length", [1, 5, 15])
def test_a_short_token_is_refused_where_other_machines_reach(length: int) -> None:
    token = "s" * length
    with pytest.raises(ConfigError, match="16") as refused:
        rules_of(Api(host="0.0.0.0", token=Secret(token)))

    assert token not in str(refused.value) or length == 1
    assert rules_of(Api(host="127.0.0.1", token=Secret(token))).tokens.control == token.encode()
    assert rules_of(Api(host="0.0.0.0", token=Secret("s" * 16))).tokens.control == b"s" * 16
    with pytest.raises(ConfigError, match=r"api\.read_token.* 16"):
        rules_of(Api(host="0.0.0.0", token=Secret("s" * 16), read_token=Secret(token)))


def test_the_read_token_must_be_another_one() -> None:
    with pytest.raises(ConfigError, match=r"api\.read_token.*the same as api\.token") as refused:
        rules_of(Api(token=Secret(TOKEN), read_token=Secret(TOKEN)))

    assert TOKEN not in str(refused.value)
    rules = rules_of(Api(token=Secret(TOKEN), read_token=Secret(READ_TOKEN)))
    assert TOKEN not in repr(rules)
    assert READ_TOKEN not in repr(rules)


@pytest.mark.parametrize(
    "wrong", [TOKEN[:-1], TOKEN[:1], TOKEN + "x", TOKEN.upper(), TOKEN[1:], "é" * len(TOKEN)]
)
async def test_no_part_of_a_token_is_the_token(api: Client, wrong: str) -> None:
    (await api.ask("GET", "connectors", Authorization=f"Bearer {wrong}")).is_problem(401)
    (await api.ask("GET", "connectors", Authorization="Bearer ")).is_problem(401)
    assert (await api.ask("GET", "connectors", Authorization=RIGHT)).status == 200


@pytest.mark.parametrize("wrong", [READ_TOKEN[:-1], READ_TOKEN[:1], READ_TOKEN + "x"])
async def test_no_part_of_the_read_token_is_the_read_token(api: Client, wrong: str) -> None:
    (await api.ask("GET", "connectors", Authorization=f"Bearer {wrong}")).is_problem(401)
    (await api.ask("GET", "connectors", Authorization=f"Basic {READ_TOKEN}")).is_problem(401)
    assert (await api.ask("GET", "connectors", Authorization=READS)).status == 200


async def test_the_read_token_does_not_help_to_guess_the_other(api: Client) -> None:
    for number in range(FREE_FAILURES):
        assert (await api.ask("GET", "connectors", Authorization=READS)).status == 200
        wrong = f"Bearer guess-{number}-0123456789"
        (await api.ask("GET", "connectors", Authorization=wrong)).is_problem(401)
    (await api.ask("GET", "connectors", Authorization="Bearer another-guess")).is_problem(429)


async def test_who_guesses_has_to_wait_and_is_counted(api: Client) -> None:
    for number in range(FREE_FAILURES):
        wrong = f"Bearer guess-{number}-0123456789"
        (await api.ask("GET", "connectors", Authorization=wrong)).is_problem(401)
    refused = await api.ask("GET", "connectors", Authorization="Bearer another-guess")
    refused.is_problem(429)
    assert int(refused.headers["Retry-After"]) >= 1
    assert (await api.ask("GET", "/healthz")).status == 200, "probes need no token"

    text = (await api.ask("GET", "/metrics")).body.decode()
    assert f"penstock_api_failed_logins_total {FREE_FAILURES}.0" in text
    told = [fact for fact in api.facts if isinstance(fact, LoginFailed)]
    assert [fact.times for fact in told] == [*range(1, FREE_FAILURES + 1)]
    assert "guess" not in repr(told)


async def test_the_wait_grows_to_a_bound_and_ends_with_the_right_token() -> None:
    clock = ManualClock(0)
    logins, waits = Logins(clock), []
    for _ in range(FREE_FAILURES + 6):
        logins.failed("192.0.2.1")
        waits.append(logins.wait_s("192.0.2.1"))
        await clock.advance(waits[-1])

    assert waits == [0.0] * (FREE_FAILURES - 1) + [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0]
    assert logins.wait_s("192.0.2.2") == 0.0, "another address is another client"
    logins.succeeded("192.0.2.1")
    logins.failed("192.0.2.1")
    assert logins.wait_s("192.0.2.1") == 0.0


def test_addresses_that_one_client_can_choose_count_as_one_and_are_not_kept_for_ever() -> None:
    logins = Logins(ManualClock(0))
    for number in range(FREE_FAILURES):
        logins.failed(f"2001:db8::{number:x}")
    assert logins.wait_s("2001:db8::ffff") == 1.0
    assert logins.wait_s("2001:db8:0:1::1") == 0.0

    for number in range(2_000):
        logins.failed(f"10.0.{number // 250}.{number % 250}")
    assert logins.wait_s("2001:db8::ffff") == 0.0, "forgotten in favour of those after it"


@pytest.mark.parametrize(("host", "status"), [("evil.example", 421), ("localhost", 200)])
def test_metrics_are_shown_only_under_this_machines_names(
    host: str, status: int, tmp_path: Path
) -> None:
    port = free_port()
    with exposed(Metrics(port=port, hosts=("box.internal",)), lambda _: None, tmp_path):
        for name, expected in ((host, status), (f"Box.Internal:{port}", 200)):
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Host": name})
            try:
                with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
                    assert answer.status == expected
            except urllib.error.HTTPError as error:
                assert error.code == expected
                assert b"metrics.hosts" in error.read()


@pytest.mark.parametrize(
    "passed_on",
    [
        {"Via": "1.1 proxy"},
        {"Forwarded": "for=192.0.2.1"},
        {"X-Forwarded-For": "192.0.2.1"},
        {"X-Forwarded-Host": "localhost"},
        {"X-Real-IP": "127.0.0.1"},
    ],
)
async def test_the_simulators_control_refuses_what_passed_a_proxy(
    simulator: SimulatorServer, passed_on: dict[str, str]
) -> None:
    assert await simulator_status(simulator.port, "127.0.0.1", passed_on) == 403
    assert await simulator_status(simulator.port, "127.0.0.1", {}) == 200


async def test_the_simulators_control_refuses_an_address_written_for_a_proxy(
    simulator: SimulatorServer,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", simulator.port)
    whole = f"http://127.0.0.1:{simulator.port}/_sim/state"
    writer.write(f"GET {whole} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    async with asyncio.timeout(PATIENCE_S):
        assert b" 403 " in await reader.readline()
    writer.close()


async def test_the_simulators_control_refuses_another_address_whatever_it_says() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(
                ("192.0.2.1", 9)
            )  # No packet leaves; it tells which address would be used.
        except OSError:
            pytest.skip("this machine has no address but its own loopback")
        ours = probe.getsockname()[0]
    server = binance_simulator("0.0.0.0")
    await server.start()
    try:
        assert await simulator_status(server.port, ours, {"Host": "localhost"}) == 403
        assert await simulator_status(server.port, "127.0.0.1", {"Host": "localhost"}) == 200
    finally:
        await server.stop()


SECRETS = {
    "state.url": "postgresql://teller:hu/sh@h@db.internal/penstock?sslpassword=hush3",
    "exchanges.rest_urls": "binance=https://teller:hush@proxy.internal/x",
    "exchanges.stream_urls": "binance=wss://hush@proxy.internal/x?api_key=hush",
}


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_password_in_a_url_is_shown_with_the_settings(options: list[str]) -> None:
    environment = {f"PENSTOCK_{k.replace('.', '_').upper()}": v for k, v in SECRETS.items()}
    shown = CliRunner().invoke(app, ["config", *options], env={**environment, "COLUMNS": "300"})

    assert shown.exit_code == 0, shown.output
    assert "hush" not in shown.output
    assert "sh@h" not in shown.output
    assert "***@db.internal/penstock" in shown.output
    assert "proxy.internal/x" in shown.output


@pytest.mark.parametrize("url", ["postgresql://u:hush/x@db/p", "mongodb://u:hu:sh@x@db/hush"])
async def test_no_password_is_in_the_complaint_about_a_url(url: str) -> None:
    with pytest.raises(PenstockError) as refused:
        await open_store(url)

    assert "hush" not in str(refused.value)


def test_no_password_in_a_url_reaches_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.getLogger().handlers[:]
    try:
        configure_logging("json")
        log_error("failed", reason="cannot reach postgresql://u:hush@db/p")
        logging.getLogger("somebody").warning("at %s", "redis://:hush@cache")
        try:
            raise ValueError("mongodb://u:hush@db")
        except ValueError:
            logging.getLogger("penstock").exception("crashed")
    finally:
        logging.getLogger().handlers[:] = before
    said = capsys.readouterr().err

    assert said.count("***@") >= 3
    assert "hush" not in said


def test_what_is_no_secret_is_left_as_it_is() -> None:
    streams = ("ws://127.0.0.1:8790/ws/a@trade", "wss://x.io/ws?s=a@trade", "ws://[::1]:1/a@b")
    for text in (*streams, "a@b", "sqlite:/data/x@y.db", "http://h/p?page=2"):
        assert mask_urls(text) == text
