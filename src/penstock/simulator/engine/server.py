"""Serves one simulated exchange on one address.

The server opens the port, dispatches requests to their handlers, and runs the background tasks: the
broadcaster, the sweeper and the loop monitor. No client, and no defect in an exchange's code, stops
it.
"""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from penstock.clock import Clock
from penstock.config import Simulator
from penstock.errors import ConfigError, PortInUse
from penstock.net.port_owner import port_owner
from penstock.simulator.engine.control import PREFIX, Control, LedgerPort
from penstock.simulator.engine.engine import build_engine
from penstock.simulator.engine.exchange import SimulatedExchange
from penstock.simulator.engine.history import kept_text
from penstock.simulator.engine.rest import RestServer, respond
from penstock.simulator.engine.sender import Sender
from penstock.simulator.engine.streams import GOING_AWAY, Streams
from penstock.simulator.engine.sweeper import Sweeper
from penstock.telemetry import Listener, log_error, quiet

_STOP_TIMEOUT_S = 0.5  # for open requests and close handshakes when the server stops
_LONGEST_ADDRESS_BYTES = 128 * 1024  # the URL may contain all streams of a connection
_UNREAD_S = 30.0  # how long a client may take to read a response
_RETRY_S = 0.1  # between a background task's failure and its restart


@dataclass(frozen=True)
class State:
    """The simulator's state at one time."""

    exchange: str
    address: str
    at_ms: int
    uptime_ms: int
    clients: int
    streams: int
    frames_sent: int
    frames_per_s: int
    requests: int
    in_flight: int
    refusals: int
    used: Mapping[str, int]
    """Rule name → highest usage of any address in the current window."""
    limits: Mapping[str, int]
    bans: Mapping[str, int]
    """Address → end of its ban (ms)."""
    faults: str
    """The fault plan in force."""
    injected: Mapping[str, int]
    """Fault → how often it was injected."""
    lag_ms: int
    """The largest lag of the event loop in about the last second."""
    slow_clients: int
    feed_failures: int
    failures: int


class SimulatorServer:
    """Serves a simulated exchange until it is stopped."""

    def __init__(
        self,
        exchange: SimulatedExchange,
        settings: Simulator,
        clock: Clock,
        listener: Listener = quiet,
        ledger: LedgerPort | None = None,
        sender: Sender | None = None,
    ) -> None:
        """``sender`` replaces the frames of the exchange's market."""
        self._settings, self._clock, self._ledger = settings, clock, ledger
        self._engine = build_engine(exchange, settings, clock, listener, sender)
        self._rest = RestServer(self._engine)
        self._streams = Streams(self._engine)
        self._sweeper = Sweeper(self._engine, self._streams)
        self._control = Control(self._engine, self._streams, ledger, self.state)
        self._tasks: list[asyncio.Task[None]] = []
        self._runner: web.ServerRunner | None = None
        self._started_ms = 0
        self._port = settings.port

    @property
    def address(self) -> str:
        """``host:port``, with the actual port once started."""
        host = self._settings.host
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    @property
    def symbols(self) -> tuple[str, ...]:
        """The slugs of the ledger's markets."""
        return self._ledger.symbols if self._ledger is not None else ()

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return self._port

    async def start(self) -> None:
        """Open the port and start serving.

        Raises:
            PortInUse: another program listens on the port.
            ConfigError: the server cannot listen on the address.
        """
        runner = web.ServerRunner(
            web.Server(
                self._serve,
                access_log=None,
                max_line_size=_LONGEST_ADDRESS_BYTES,
                # A delayed response is dropped when its client disconnects.
                handler_cancellation=True,
            ),
            shutdown_timeout=_STOP_TIMEOUT_S,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._settings.host, self._settings.port).start()
        except OSError as error:
            await runner.cleanup()
            raise self._explained(error) from error
        self._runner = runner
        self._port = runner.addresses[0][1]
        self._started_ms = self._clock.now_ms()
        self._engine.injector.install(self._engine.injector.plan, self._started_ms)
        for job in (self._engine.broadcaster.run, self._sweeper.run, self._engine.watch.run):
            self._tasks.append(asyncio.create_task(self._keep_up(job)))

    async def stop(self) -> None:
        """Close all connections and the port."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for client in list(self._streams.open.values()):
            client.close(GOING_AWAY, "server stopped", self._clock.now_ms())
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def state(self) -> State:
        """The current state."""
        engine, now_ms = self._engine, self._clock.now_ms()
        return State(
            exchange=engine.exchange.name,
            address=self.address,
            at_ms=now_ms,
            uptime_ms=now_ms - self._started_ms if self._started_ms else 0,
            clients=len(self._streams.open),
            streams=engine.broadcaster.streams,
            frames_sent=engine.broadcaster.frames_sent,
            frames_per_s=engine.broadcaster.frames_per_s,
            requests=engine.requests,
            in_flight=engine.in_flight,
            refusals=engine.refusals,
            used=engine.limiter.used(now_ms),
            limits={rule.name: rule.limit for rule in engine.limiter.rules},
            bans=engine.limiter.banned(now_ms),
            faults=engine.injector.plan.text,
            injected=dict(engine.injector.log.counts),
            lag_ms=engine.watch.lag_ms,
            slow_clients=engine.broadcaster.slow_clients,
            feed_failures=engine.broadcaster.feed_failures,
            failures=engine.failures,
        )

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send the response; abort the connection if the client does not read it."""
        response = await self._handle(request)
        try:
            async with asyncio.timeout(_UNREAD_S):
                await response.prepare(request)
                await response.write_eof()
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the client disconnected
        return response

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            if request.path.startswith(PREFIX):
                return await self._control.handle(request)
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._streams.handle(request)
            return await self._rest.handle(request)
        except (ConnectionError, web.HTTPException):
            raise  # the client disconnected, or aiohttp sends the response
        except Exception as error:
            self._engine.failures += 1
            log_error("request_failed", path=kept_text(request.path_qs), error=repr(error))
            return respond(self._engine.exchange, self._engine.exchange.failure())

    async def _keep_up(self, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await job()
            except Exception as error:
                self._engine.failures += 1
                log_error("background_task_failed", task=repr(job), error=repr(error))
                await self._clock.sleep(_RETRY_S)

    def _explained(self, error: OSError) -> PortInUse | ConfigError:
        host, port = self._settings.host, self._settings.port
        if error.errno == errno.EADDRINUSE:
            return PortInUse(host, port, port_owner(port))
        name = "simulator.host" if isinstance(error, socket.gaierror) else "simulator.port"
        return ConfigError(
            name, problem=f"cannot listen on {host}:{port}: {error.strerror}.", origin="settings"
        )
