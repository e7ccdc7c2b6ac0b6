"""What is examined in tests: a data folder, and simulated exchanges."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Api, Collect, Exchanges, Settings, Simulator
from penstock.doctor import Subject
from penstock.simulator.engine.server import SimulatorServer

Simulate = Callable[..., Awaitable[SimulatorServer]]


@pytest.fixture
async def simulate() -> AsyncIterator[Simulate]:
    """Start a simulated exchange for the length of a test."""
    servers: list[SimulatorServer] = []

    async def start(exchange: str = "binance") -> SimulatorServer:
        server = build_simulator(Simulator(port=0), SystemClock(), exchange=exchange)
        await server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.stop()


def settings_for(folder: Path, **urls: str) -> Settings:
    return Settings(
        collect=Collect(data_dir=str(folder)),
        exchanges=Exchanges(rest_urls=urls, stream_urls=urls),
        api=Api(port=0),
    )


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return Subject(settings_for(tmp_path), SystemClock(), ())


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)
