"""Exchanges that do not answer, clocks that are off, and ports in use."""

import asyncio
import re
import socket
import ssl
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.certificates import certificate

from penstock.clock import SystemClock
from penstock.config import Api, Bus
from penstock.connectors import ConnectorManager
from penstock.doctor import Subject, exchanges, worst
from penstock.doctor.exchanges import check_exchanges, clock_finding, days_left
from penstock.doctor.model import Fleet
from penstock.doctor.ports import check_ports
from penstock.runtime.stores import open_state
from penstock.throttle.offset import Offset

from .conftest import Simulate, settings_for

DAY_NS = 86_400 * 10**9


class Off(SystemClock):
    """A machine's clock that is a day behind."""

    def now_ns(self) -> int:
        return super().now_ns() - DAY_NS


async def test_an_exchange_that_answers_and_a_clock_that_is_right(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    settings = settings_for(tmp_path, binance=f"http://{server.address}")
    subject = Subject(settings, SystemClock(), ("binance",))

    found = list(await check_exchanges(subject))

    assert worst(found) == 0, found
    assert [each.check for each in found] == ["exchange", "clock"]


async def test_a_clock_a_day_off_is_a_problem(tmp_path: Path, simulate: Simulate) -> None:
    server = await simulate()
    settings = settings_for(tmp_path, binance=f"http://{server.address}")

    *_, clock = await check_exchanges(Subject(settings, Off(), ("binance",)))

    assert (clock.check, clock.level) == ("clock", "problem")
    assert "behind that of 1 exchange" in clock.words
    assert re.search(r" 86,(399|400)\.\d+ s ", clock.words)


offsets = st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e4)).map(
    lambda drawn: Offset(drawn[0] - drawn[1], drawn[0] + drawn[1], 0)
)


@given(st.lists(offsets, min_size=1, max_size=5))
@example([Offset(-4_000, 10_000, 0)])
def test_a_clock_is_blamed_only_for_what_is_certain(found: list[Offset]) -> None:
    level = clock_finding(found).level
    if all(each.low_ms <= 0 <= each.high_ms for each in found):
        assert level == "ok"
    if all(each.low_ms > 60_000 for each in found) and all(each.error_ms < 1e4 for each in found):
        assert level == "problem"


async def test_a_closed_port_is_an_exchange_that_cannot_be_reached(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        subject = Subject(settings_for(tmp_path, kraken=url), SystemClock(), ("kraken",))
        [found] = await check_exchanges(subject)
    assert (found.level, "cannot be reached" in found.words) == ("problem", True)


async def test_an_exchange_that_accepts_and_says_nothing_is_a_problem_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "REQUEST_S", 0.3)
    connected = list[asyncio.StreamWriter]()
    server = await asyncio.start_server(lambda _, writer: connected.append(writer), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    for scheme in ("http", "https"):
        urls = {"kraken": f"{scheme}://{host}:{port}"}
        subject = Subject(settings_for(tmp_path, **urls), SystemClock(), ("kraken",))
        assert worst(await check_exchanges(subject)) == 2
    for writer in connected:
        writer.close()
    server.close()


async def test_what_speaks_no_tls_is_a_problem(tmp_path: Path, simulate: Simulate) -> None:
    server = await simulate()
    settings = settings_for(tmp_path, binance=f"https://{server.address}")
    [found] = await check_exchanges(Subject(settings, SystemClock(), ("binance",)))
    assert found.level == "problem"


async def test_tls_is_checked_and_a_certificate_that_expires_soon_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "client_for", lambda *_: pytest.fail("it is not to be asked"))
    monkeypatch.setattr(exchanges, "headroom", lambda *_: 0.0)
    trusted, key = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(trusted, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    host, port = server.sockets[0].getsockname()
    settings = settings_for(tmp_path, kraken=f"https://{host}:{port}")
    subject = Subject(settings, SystemClock(), ("kraken",))
    [refused, *_] = await check_exchanges(subject)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    [expiring, *_] = await check_exchanges(subject)
    server.close()
    assert (refused.level, "TLS fails" in refused.words) == ("problem", True)
    assert (expiring.level, "certificate expires in" in expiring.words) == ("warning", True)


def test_the_days_of_a_certificate_are_counted() -> None:
    noon_ms = 1_893_499_200_000
    assert days_left("Jan  2 12:00:00 2030 GMT", noon_ms) == 1
    assert days_left("Jan  2 11:59:59 2030 GMT", noon_ms) == 0
    assert days_left("Jan  1 11:00:00 2030 GMT", noon_ms) == -1
    assert days_left("", noon_ms) is None


async def test_the_request_is_charged_to_the_shared_budget(
    tmp_path: Path, simulate: Simulate
) -> None:
    server = await simulate()
    settings = settings_for(tmp_path, binance=f"http://{server.address}")
    async with open_state(settings, SystemClock()) as store:
        connectors = ConnectorManager(store)
        await connectors.ensure_connector("binance")
        subject = Subject(settings, SystemClock(), ("binance",), Fleet())

        found = list(await check_exchanges(subject))

        assert worst(found) == 0, found
        [connector] = await connectors.find()
        assert any(each.used for each in connector.limits)


async def test_nothing_is_sent_while_little_of_the_budget_is_left(
    tmp_path: Path, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanges, "headroom", lambda *_: 0.05)
    monkeypatch.setattr(exchanges, "client_for", lambda *_: pytest.fail("it is not to be asked"))
    server = await simulate()
    settings = settings_for(tmp_path, binance=f"http://{server.address}")
    subject = Subject(settings, SystemClock(), ("binance",), Fleet())
    *_, found = await check_exchanges(subject)
    assert (found.level, "not queried" in found.words) == ("ok", True)


async def test_without_exchanges_it_says_how_to_name_them(subject: Subject) -> None:
    assert worst(await check_exchanges(subject)) == 1


async def test_a_port_in_use_is_a_problem_with_its_owner(subject: Subject) -> None:
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        numbers = [each.getsockname()[1] for each in (taken, free)]
        free.close()
        settings = replace(
            subject.settings,
            api=Api(port=numbers[0]),
            bus=Bus(publish=f"tcp://127.0.0.1:{numbers[1]}", subscribe="tcp://192.0.2.1:5"),
        )
        found = list(await check_ports(subject._replace(settings=settings)))
    assert [each.level for each in found] == ["problem", "ok", "ok"]
    assert "(pid " in found[0].words
    assert "api.port" in found[0].remedy
    assert "another machine" in found[2].words
