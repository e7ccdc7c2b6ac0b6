"""The console of a demo, and what happens after the verdict. The processes are not started."""

import asyncio
import os
import signal
import socket
import webbrowser
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.waiting import PATIENCE_S

from penstock.cli import demo, demo_console, demo_parts
from penstock.cli.context import Sources
from penstock.cli.demo_console import NOT_INSTALLED, console_served, free_port, market_address
from penstock.cli.demo_parts import DemoPlan, RunningSimulator
from penstock.config import Simulator
from penstock.errors import PenstockError
from penstock.simulator.judge import Findings

CONSOLE = "http://127.0.0.1:4711/"
FINDINGS = Findings()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():  # noqa: ASYNC110 (nobody would set an event)
            await asyncio.sleep(0.01)


class Ending:
    """A process that runs until it is told to end."""

    def __init__(self) -> None:
        self._code = asyncio.get_running_loop().create_future()

    def end(self, code: int) -> None:
        self._code.set_result(code)

    async def wait(self) -> int:
        return await asyncio.shield(self._code)


class Demo:
    """A demo whose processes are names in a list."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.plan = DemoPlan(Simulator(), 1.0, folder, Sources({}, None))
        self.started: list[list[str]] = []
        self.ended: list[list[str]] = []
        self.reported: list[Mapping[str, Findings]] = []
        self.opened: list[str] = []
        self.processes: dict[str, Ending] = {}
        """By command; a later one replaces an earlier one."""

        @asynccontextmanager
        async def running(words: Sequence[str], *_: object) -> AsyncIterator[object]:
            self.started.append([*words])
            try:
                yield self._process(words[0])
            finally:
                self.ended.append([*words])

        @asynccontextmanager
        async def simulators_of(*_: object) -> AsyncIterator[dict[str, RunningSimulator]]:
            symbols = ["btc_usdt", "eth_usdt"]
            yield {"binance": RunningSimulator("http://sim", symbols, self._process("sim"))}

        @asynccontextmanager
        async def served(*arguments: object) -> AsyncIterator[Process]:
            tell: Callable[[str], None] = arguments[-1]  # type: ignore[assignment]
            tell(CONSOLE)
            yield self._process("serve")

        async def judged(*_: object) -> Findings:
            return FINDINGS

        async def nothing(*_: object) -> None: ...

        replaced = {
            "running": running, "simulators_of": simulators_of, "console_served": served,
            "judge": judged, "_collect": nothing, "until_filled": nothing,
        }  # fmt: skip
        for name, fake in replaced.items():
            monkeypatch.setattr(demo, name, fake)
        monkeypatch.setattr(webbrowser, "open", self.opened.append)

    def _process(self, name: str) -> Process:
        self.processes[name] = process = Ending()
        return cast(Process, process)

    async def run(self, *, opens: bool = False, stays: bool = False) -> dict[str, Findings]:
        page = demo._Page(0, opens, stays)
        return await demo._demo(self.plan, ["binance"], page, self.reported.append)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Demo:
    return Demo(monkeypatch, tmp_path)


async def test_the_address_is_printed_and_nothing_goes_on_where_no_one_watches(
    fake: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await fake.run() == {"binance": FINDINGS}

    assert f"Console: {CONSOLE}\n" in capsys.readouterr().err
    assert fake.started == fake.ended == [["work"]]
    assert fake.opened == []


async def test_on_a_terminal_the_collection_goes_on_after_the_verdict_until_ctrl_c(
    fake: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    running = asyncio.create_task(fake.run(stays=True))
    collecting = ["collect", "binance", "btc_usdt", "eth_usdt"]
    await until(lambda: collecting in fake.started)
    assert fake.reported == [{"binance": FINDINGS}]
    assert collecting not in fake.ended

    os.kill(os.getpid(), signal.SIGINT)

    assert await running == {"binance": FINDINGS}
    assert sorted(fake.started) == sorted(fake.ended)
    shown = capsys.readouterr().out
    assert f"Candles, live: {CONSOLE}market/binance/BTC%2FUSDT\n" in shown
    assert "The collection goes on. Ctrl-C ends it.\n" in shown


@pytest.mark.parametrize(
    ("ended", "code", "says"),
    [
        ("collect", 75, r"The collector of binance ended early \(exit code 75\); its last output"),
        ("work", -9, r"The worker ended early \(signal 9\)"),
        ("sim", 1, r"The simulator of binance ended early"),
        ("serve", -11, r"The console ended early"),
    ],
)
async def test_a_process_that_ends_after_the_verdict_ends_the_demo_with_an_error(
    fake: Demo, ended: str, code: int, says: str
) -> None:
    running = asyncio.create_task(fake.run(stays=True))
    await until(lambda: "collect" in fake.processes)
    assert fake.reported == [{"binance": FINDINGS}]

    fake.processes[ended].end(code)

    with pytest.raises(PenstockError, match=says):
        await asyncio.wait_for(running, PATIENCE_S)
    assert sorted(fake.started) == sorted(fake.ended)


async def test_the_market_is_opened_in_the_browser(fake: Demo) -> None:
    await fake.run(opens=True)

    await until(lambda: bool(fake.opened))
    assert fake.opened == [f"{CONSOLE}market/binance/BTC%2FUSDT"]


async def test_a_machine_without_a_browser_does_not_matter(
    fake: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: str) -> bool:
        raise webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(webbrowser, "open", failing)

    assert await fake.run(opens=True) == {"binance": FINDINGS}


async def test_without_its_libraries_the_demo_goes_on_without_a_console(
    fake: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_console, "_LIBRARIES", ("litestar", "no_such_library"))
    told: list[str] = []

    async with console_served(fake.plan, {}, 0, told.append):
        assert told == [NOT_INSTALLED]


async def test_a_console_that_does_not_start_says_so(
    fake: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    wrong = {"PENSTOCK_STATE_URL": "nowhere:"}

    async with console_served(fake.plan, wrong, 0, told.append):
        await until(lambda: bool(told))

    assert told == ["it did not start. Try it alone: penstock serve"]


@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_simulator_that_does_not_start_is_named(
    fake: Demo, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    @asynccontextmanager
    async def silent(*_: object) -> AsyncIterator[object]:
        output = asyncio.StreamReader()
        if has_ended:
            output.feed_eof()
        yield SimpleNamespace(stdout=output)

    monkeypatch.setattr(demo_parts, "running", silent)
    monkeypatch.setattr(demo_parts, "_START_S", 0.05)

    with pytest.raises(PenstockError, match=r"did not start\. Try it alone: penstock sim kraken"):
        async with demo_parts.simulators_of(fake.plan, ["kraken"]):
            raise AssertionError("it started")


def test_a_port_of_closed_connections_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), server.accept()[0]:
            pass

    assert free_port(port) == port
    assert free_port(0) not in (0, port)


def test_the_symbol_of_an_address_is_one_part_of_its_path() -> None:
    assert market_address(CONSOLE, "kraken", "btc_usd") == f"{CONSOLE}market/kraken/BTC%2FUSD"
