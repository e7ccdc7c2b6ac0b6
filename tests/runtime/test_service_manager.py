"""What a process tells systemd: ready, alive, stopping, and nothing where there is no systemd."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Collect, Settings
from penstock.runtime.process import Process
from penstock.runtime.service_manager import ServiceManager, service_manager, use_service_manager
from penstock.runtime.status import Report

CLOCK = SystemClock()


class Systemd:
    """Receives the messages of a service."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self.socket.setblocking(False)
        self.environment = {"NOTIFY_SOCKET": address}

    def received(self) -> list[str]:
        found: list[str] = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["file", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    name = str(tmp_path / "n") if request.param == "file" else f"@penstock-test-{os.getpid()}"
    systemd = Systemd(name)
    yield systemd
    use_service_manager({})
    systemd.socket.close()


def test_messages_as_systemd_reads_them(systemd: Systemd) -> None:
    manager = ServiceManager({**systemd.environment, "WATCHDOG_USEC": "3000000"})
    manager.ready()
    manager.ready()
    manager.alive("7 markets\nSTOPPING=1")
    manager.stopping()

    assert manager.watchdog_s == 3
    assert systemd.received() == [
        "READY=1", "WATCHDOG=1\nSTATUS=7 markets STOPPING=1", "STOPPING=1",
    ]  # fmt: skip


def test_the_watchdog_of_another_process_is_not_ours(systemd: Systemd) -> None:
    asked = {**systemd.environment, "WATCHDOG_USEC": "3000000"}

    assert ServiceManager({**asked, "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 3
    assert ServiceManager({**asked, "WATCHDOG_PID": "1"}).watchdog_s is None
    assert ServiceManager({"WATCHDOG_USEC": "3000000"}).watchdog_s is None
    assert ServiceManager({**systemd.environment, "WATCHDOG_USEC": "x"}).watchdog_s is None


def test_nothing_happens_without_a_service_manager_or_when_it_does_not_read() -> None:
    ServiceManager({}).ready()
    ServiceManager({"NOTIFY_SOCKET": "/nowhere/at/all"}).alive("x")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as silent:
        silent.bind(f"\0penstock-silent-{os.getpid()}")
        manager = ServiceManager({"NOTIFY_SOCKET": f"@penstock-silent-{os.getpid()}"})
        for _ in range(10_000):
            manager.alive("x" * 400)

    assert not ServiceManager({})


async def test_every_process_says_when_it_runs_and_that_it_lives(
    systemd: Systemd, tmp_path: Path
) -> None:
    use_service_manager({**systemd.environment, "WATCHDOG_USEC": "20000"})
    received: list[str] = []
    async with Process("bus", Settings(collect=Collect(data_dir=str(tmp_path))), CLOCK) as process:
        await asyncio.sleep(0)
        received += systemd.received()
        assert "READY=1" not in received
        process.running(lambda: Report(doing="forwards"))
        while received.count("WATCHDOG=1\nSTATUS=forwards") < 2:
            await asyncio.sleep(0.005)
            received += systemd.received()

    assert received.count("READY=1") == 1
    assert service_manager().watchdog_s == 0.02


async def test_a_report_that_fails_does_not_make_a_process_look_hung(
    systemd: Systemd, tmp_path: Path
) -> None:
    use_service_manager({**systemd.environment, "WATCHDOG_USEC": "20000"})

    def report() -> Report:
        raise RuntimeError("changed during iteration")

    received: list[str] = []
    async with Process("bus", Settings(collect=Collect(data_dir=str(tmp_path))), CLOCK) as process:
        process.running(report)
        async with asyncio.timeout(PATIENCE_S):
            while received.count("WATCHDOG=1\nSTATUS=") < 3:
                await asyncio.sleep(0.005)
                received += systemd.received()
