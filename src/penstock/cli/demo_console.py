"""The console of a demo: served from its data folder while it collects."""

import asyncio
import errno
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from urllib.parse import quote

import msgspec

from penstock.cli.demo_parts import DemoPlan
from penstock.cli.processes import running
from penstock.config import environment_name
from penstock.errors import ConfigError, PortInUse
from penstock.market.symbol import Symbol
from penstock.net.port_owner import port_owner

NOT_INSTALLED = "not installed: pip install 'penstock[api]'"
_HOST = "127.0.0.1"
_LIBRARIES = ("litestar", "prometheus_client")


def free_port(wanted: int) -> int:
    """The port if it is free now; for 0, any free one.

    Raises:
        PortInUse: another program listens on it.
        ConfigError: this user may not listen on it.
    """
    with socket.socket() as probe:
        # As the server does: closed connections do not block a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, wanted))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(_HOST, wanted, port_owner(wanted)) from error
            problem = f"cannot listen on {_HOST}:{wanted}: {error.strerror}."
            raise ConfigError("--port", problem=problem, origin="command line") from error
        port: int = probe.getsockname()[1]
        return port


def market_address(console: str, exchange: str, slug: str) -> str:
    """The address of a market's page."""
    return f"{console}market/{quote(exchange)}/{quote(Symbol.parse(slug).unified, safe='')}"


@asynccontextmanager
async def console_served(
    plan: DemoPlan, environment: Mapping[str, str], port: int, show: Callable[[str], None]
) -> AsyncIterator[asyncio.subprocess.Process | None]:
    """Serve the console until the block is left; ``show`` gets its address, or why there is none.

    Yields its process, if its libraries are installed.
    """
    if not all(map(find_spec, _LIBRARIES)):
        show(NOT_INSTALLED)
        yield None
        return
    own = {
        environment_name("api.host"): _HOST,
        environment_name("api.port"): str(port),
        # A page on this machine, with nothing to protect.
        environment_name("api.token"): "",
        environment_name("api.read_token"): "",
        environment_name("logging.level"): "warning",
    }
    words = [*plan.base, "serve", "--json"]
    async with running(words, {**environment, **own}) as server:
        listening = asyncio.create_task(_show_address(server, show))
        try:
            yield server
        finally:
            listening.cancel()


async def _show_address(server: asyncio.subprocess.Process, show: Callable[[str], None]) -> None:
    assert server.stdout is not None
    line = await server.stdout.readline()
    try:
        address = msgspec.json.decode(line, type=dict[str, str])["listening"]
    except (msgspec.DecodeError, KeyError):
        show("it did not start. Try it alone: penstock serve")
    else:
        show(f"{address.rstrip('/')}/")


async def open_in_browser(address: str) -> None:
    """Open an address in the browser, if there is one."""
    with suppress(Exception):
        await asyncio.to_thread(webbrowser.open, address)
