"""Serves an ASGI application on an address, in the current event loop or in a thread."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from threading import Thread

from aiohttp import web

from penstock.errors import ConfigError, PortInUse
from penstock.web.asgi import Application, AsgiAdapter
from penstock.web.connections import Bounds, HttpConnections

# The rest of a rejected request is read for this long, since closing the connection earlier may
# lose the response.
_LINGER_S = 1.0
_CANCEL_S = 0.1
_NO_SUCH_FAMILY = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class WebServer:
    """The server of one ASGI application."""

    def __init__(
        self,
        application: Application,
        address: tuple[str, int],
        holder_of: Callable[[int], str | None],
        *,
        section: str,
        bounds: Bounds | None = None,
    ) -> None:
        """``section`` is the section of the settings that has the address.

        ``holder_of`` returns the program that listens on a port, if known.
        """
        self._host, self.port = address
        self._application, self._section, self._holder_of = application, section, holder_of
        self._bounds = bounds or Bounds()
        self._listening: list[asyncio.Server] = []
        self._http: web.Server | None = None
        self._connections: HttpConnections | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        host = self._host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Listen on every address that the host resolves to.

        Raises:
            PortInUse: another program listens there.
            ConfigError: this machine has no such address.
        """
        with ExitStack() as unless_listening:
            sockets = self._bound(unless_listening)
            adapter = AsgiAdapter(self._application, self._bounds.write_s)
            self._http = web.Server(
                adapter, access_log=None, auto_decompress=False, lingering_time=_LINGER_S
            )
            adapter.connections = self._connections = HttpConnections(self._http, self._bounds)
            loop = asyncio.get_running_loop()
            for each in sockets:
                self._listening.append(await loop.create_server(self._connections, sock=each))
            unless_listening.pop_all()

    async def stop(self) -> None:
        """Stop, after finishing responses in progress within ``Bounds.stop_s``."""
        for listening in self._listening:
            listening.close()
        if self._connections is not None and self._http is not None:
            await self._connections.finish()
            await self._http.shutdown(_CANCEL_S)
            self._connections.abort()

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Serve in a separate thread until the block is left.

        Raises:
            PortInUse, ConfigError: see ``start``.
        """
        started: Future[Callable[[], object]] = Future()
        thread = Thread(
            target=lambda: asyncio.run(self._serve(started)), name="penstock-web", daemon=True
        )
        thread.start()
        stop = started.result()
        try:
            yield
        finally:
            stop()
            thread.join()

    async def _serve(self, started: "Future[Callable[[], object]]") -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self.start()
        except (PortInUse, ConfigError) as error:
            started.set_exception(error)
            return
        started.set_result(lambda: loop.call_soon_threadsafe(stop.set))
        await stop.wait()
        await self.stop()

    def _bound(self, stack: ExitStack) -> list[socket.socket]:
        bound: list[socket.socket] = []
        try:
            found = socket.getaddrinfo(self._host, self.port, type=socket.SOCK_STREAM)
            for family, kind, _, _, (name, _, *rest) in dict.fromkeys(found):
                one = stack.enter_context(socket.socket(family, kind))
                try:
                    _listen(one, (name, self.port, *rest))
                except OSError as error:
                    # A name may resolve to an address of a family that is disabled here.
                    if error.errno not in _NO_SUCH_FAMILY or (len(found) == 1):
                        raise
                    continue
                # Port 0 selects a free port; all addresses use the same one.
                self.port = one.getsockname()[1]
                bound.append(one)
            if not bound:
                raise OSError(errno.EADDRNOTAVAIL, "this machine has no such address")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(self._host, self.port, self._holder_of(self.port)) from error
            problem = f"cannot listen on {self._host}: {error.strerror}."
            name = f"{self._section}.host"
            raise ConfigError(name, problem=problem, origin="settings") from error
        return bound


def _listen(one: socket.socket, address: tuple[object, ...]) -> None:
    # Closed connections of an earlier server do not block the port.
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if one.family == socket.AF_INET6:
        one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    one.bind(address)
    one.listen(512)
    one.setblocking(False)
