"""The server: the API on an address, in this process and this loop.

granian shares a port with whoever else is willing to share it, so that two servers would take turns
unawares. A socket that is bound first and shared with no listener finds out, and holds the port.
"""

import asyncio
import errno
import socket
from collections.abc import Callable

from granian.constants import HTTPModes, Interfaces
from granian.server.embed import Server
from litestar.types import ASGIApp

from penstock.clock import Clock
from penstock.config import Api
from penstock.errors import ConfigError, PortInUse

_LOOK_S = 0.01


class ApiServer:
    """An ASGI application, served."""

    def __init__(
        self,
        application: ASGIApp,
        settings: Api,
        clock: Clock,
        holder_of: Callable[[int], str | None],
    ) -> None:
        self._application, self._settings = application, settings
        self._clock, self._holder_of = clock, holder_of
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = settings.port

    @property
    def url(self) -> str:
        """Where it listens."""
        host = self._settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            PortInUse: another program does there.
            ConfigError: this machine has no such address.
        """
        with self._bound() as holding:
            self.port = holding.getsockname()[1]
            self._server = Server(
                self._application,
                self._settings.host,
                self.port,
                interface=Interfaces.ASGINL,
                http=HTTPModes.http1,
                websockets=False,
                log_enabled=False,
            )
            self._serving = asyncio.create_task(self._server.serve())
            while not await self._listens():
                if self._serving.done():
                    self._serving.result()
                await self._clock.sleep(_LOOK_S)

    async def stop(self) -> None:
        """Finish what is being answered, and stop."""
        if self._server is not None and self._serving is not None:
            self._server.stop()  # type: ignore[no-untyped-call]
            await self._serving

    def _bound(self) -> socket.socket:
        host, port = self._settings.host, self._settings.port
        try:
            family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind)
            # Connections that a server before this one closed do not keep the port from it.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                bound.bind(address)
            except OSError:
                bound.close()
                raise
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(host, port, self._holder_of(port)) from error
            problem = f"cannot listen on {host}: {error.strerror}."
            raise ConfigError("api.host", problem=problem, origin="settings") from error
        return bound

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(self._settings.host, self.port)
        except OSError:
            return False
        writer.close()
        return True
