"""A toy exchange for the engine's own tests, and a way to serve it for the length of a test."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType

import pytest
from aiohttp import ClientSession
from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import SimulatedBinance, Simulator
from penstock.simulator.engine.exchange import (
    Asked,
    ControlReply,
    Opening,
    Query,
    Refused,
    Reply,
    Route,
    StreamFeed,
    Subscriber,
    Upkeep,
)
from penstock.simulator.engine.limits import Verdict
from penstock.simulator.engine.rules import BanPolicy, Rule, ban_policy
from penstock.simulator.engine.server import SimulatorServer
from penstock.telemetry import Listener, quiet

STEP_MS = 10
OF_BINANCE = set(SimulatedBinance.__struct_fields__)
QUICK = Simulator(port=0, uplink_ms=0, latency_ms=1)


def quick(**changes: object) -> Simulator:
    """The quick settings with changes; the toy's limits are set as those of Binance."""
    own = {name: changes.pop(name) for name in OF_BINANCE & changes.keys()}
    return replace(QUICK, binance=replace(QUICK.binance, **own), **changes)


class ToyExchange:
    """One frame per 10 ms and stream, numbered by time; streams end in what they do."""

    name = "toy"
    headers: Mapping[str, str] = MappingProxyType({"Server": "toys"})
    content_type = "application/json;toy=yes"
    binary = False

    def __init__(self, settings: Simulator) -> None:
        own = settings.binance
        weight_ms, raw_ms = round(own.weight_window * 1000), round(own.raw_window * 1000)
        connect_ms = round(own.connect_window * 1000)
        self.rules: Sequence[Rule] = (
            Rule("weight", "aligned", weight_ms, own.weight_limit, "ip", "weight"),
            Rule("raw", "aligned", raw_ms, own.raw_limit, "ip", "request"),
            Rule("connects", "aligned", connect_ms, own.connect_limit, "ip", "connect"),
            Rule("messages", "sliding", 1000, own.messages_per_second, "connection", "message"),
        )
        self.bans: BanPolicy | None = ban_policy(settings)
        self.upkeep = Upkeep(
            ping_every_ms=round(own.ping_every * 1000),
            pong_within_ms=round(own.pong_within * 1000),
            lifetime_ms=round(own.connection_lifetime * 1000),
            most_streams=own.streams_per_connection,
        )
        self.routes: Mapping[str, Route] = {
            "/time": Route("/time", _cost, lambda _, at_ms: b'{"at":%d}' % at_ms),
            "/depth": Route("/depth", _cost, lambda _, at_ms: b'{"at":%d}' % at_ms),
            "/echo": Route(
                "/echo", _cost, lambda asked, _: json.dumps(asked.headers["X-Say"]).encode()
            ),
            "/large": Route("/large", _cost, lambda _, __: b"x" * 50_000_000),
            "/work": Route("/work", _cost, _work),
            "/broken": Route("/broken", _cost, _broken),
            "/picky": Route("/picky", _cost, _picky),
        }

    def not_found(self, path: str) -> Reply:
        return Reply(json.dumps({"nothing at": path}).encode(), 404)

    def refusal(self, verdict: Verdict) -> Reply:
        headers = {"Retry-After": str(verdict.retry_after_s)}
        return Reply(b'{"refused":true}', verdict.status, headers)

    def usage_headers(self, verdict: Verdict) -> Mapping[str, str]:
        return {"Used": str(verdict.used.get("weight", 0))}

    def open(self, path: str, asked: Asked) -> Opening | None:
        query = asked.query
        if path == "/stream":
            if query.get("dialect") == "rude":
                raise Refused(Reply(b'{"bad":"manners"}', 400))
            streams = tuple(query["streams"].split("/"))
            return Opening(streams, wrapped=True, dialect=query.get("dialect", ""))
        if path == "/ws" or path.startswith("/ws/"):
            return Opening(tuple(name for name in path[3:].split("/") if name), wrapped=False)
        return None

    def greeting(self, connection: int, at_ms: int) -> list[bytes]:
        return []

    def overrun(self, text: str) -> bytes | None:
        return None

    def control(self, text: str, subscriber: Subscriber, at_ms: int) -> list[ControlReply]:
        wanted = json.loads(text)
        for name in wanted.get("join", []):
            subscriber.streams[name] = None
        for name in wanted.get("leave", []):
            subscriber.streams.pop(name, None)
        return [ControlReply(b'{"ok":true}', acknowledges=True)]

    def feed(self, stream: str, dialect: str) -> StreamFeed | None:
        if stream.endswith("@broken"):
            return StreamFeed(stream, _broken_frames)
        if stream.endswith("@flood"):
            return StreamFeed(
                stream, lambda after_ms, upto_ms: [b"x" * 100_000] * (upto_ms - after_ms)
            )
        if stream.endswith("@nothing"):
            return None

        def frames(after_ms: int, upto_ms: int) -> list[bytes]:
            steps = range(after_ms // STEP_MS + 1, upto_ms // STEP_MS + 1)
            said = b'{"s":"%s","n":%d,"p":"1.50"}' if not dialect else b'{"S":"%s","n":%d}'
            return [said % (stream.encode(), n) for n in steps]

        return StreamFeed(stream, frames)

    def wrap(self, stream: str, payload: bytes) -> bytes:
        return b'{"stream":"%s","data":%s}' % (stream.encode(), payload)

    def failure(self) -> Reply:
        return Reply(b'{"broken":true}', status=500)

    def shutdown_notice(self, at_ms: int, dialect: str) -> tuple[str, bytes] | None:
        return "!bye", b'{"%s":%d}' % (b"BYE" if dialect else b"bye", at_ms)

    def refuse_ack(self, reply: bytes) -> bytes:
        return reply.replace(b"true", b"false")


def _cost(query: Query) -> int:
    return int(query.get("weight", "1"))


def _work(asked: Asked, at_ms: int) -> bytes:
    end = time.monotonic() + int(asked.query["ms"]) / 1000
    while time.monotonic() < end:
        pass
    return b'{"at":%d}' % at_ms


def _broken(asked: Asked, at_ms: int) -> bytes:
    raise RuntimeError("a defect")


def _broken_frames(after_ms: int, upto_ms: int) -> list[bytes]:
    raise RuntimeError("a defect")


def _picky(asked: Asked, at_ms: int) -> bytes:
    raise Refused(Reply(b'{"bad":"parameter"}', 400))


@pytest.fixture
def toy() -> ToyExchange:
    return ToyExchange(QUICK)


Serve = Callable[..., Awaitable[SimulatorServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a toy server; give it settings, and perhaps a listener, the ledger, another toy."""
    servers: list[SimulatorServer] = []

    async def start(
        settings: Simulator = QUICK,
        listener: Listener = quiet,
        ledger: object = None,
        toy: Callable[[Simulator], ToyExchange] = ToyExchange,
    ) -> SimulatorServer:
        server = SimulatorServer(
            toy(settings),
            settings,
            SystemClock(),
            listener,
            ledger,  # type: ignore[arg-type]
        )
        await server.start()
        servers.append(server)
        return server

    yield start
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(server.stop() for server in servers))


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession() as opened:
        yield opened
