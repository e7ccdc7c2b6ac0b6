"""Letters: requests that somebody else has written are sent as they are, and paid like others."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from penstock.clock import SystemClock
from penstock.config import Exchanges, Requests, Settings
from penstock.errors import BadRequest, NeverSent, RateLimited
from penstock.exchanges import registry
from penstock.exchanges.base import ApiError, Exchange, ExchangeClient, Request
from penstock.exchanges.clients import client_for
from penstock.exchanges.facts import RequestFailed, RequestSent
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.http import HttpTransport
from penstock.exchanges.raw_request import RawRequest
from penstock.exchanges.symbol_map import SymbolMap
from penstock.resilience.backoff import Backoff
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate

EXCHANGE: Exchange = registry.load("binance")
DAY = Limit(amount=1000, period_ms=86_400_000)


@dataclass
class Post:
    """A gateway, and a server that writes down what it is sent."""

    url: str
    gateway: Gateway
    gate: LocalGate
    facts: list[Fact] = field(default_factory=list)
    received: list[tuple[str, str, str | None, bytes]] = field(default_factory=list)
    """Method, path and query as they were sent, X-Who, body."""


@asynccontextmanager
async def opened(*limits: Limit, status: int = 200) -> AsyncIterator[Post]:
    async def answer(request: web.Request) -> web.Response:
        written = (request.method, request.raw_path, request.headers.get("X-Who"))
        post.received.append((*written, await request.read()))
        return web.Response(body=b'{"price":"1.10"}', status=status)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    facts, clock = list[Fact](), SystemClock()
    gate = LocalGate(clock, limits or (DAY,), acquire_timeout_ms=5000, guard_ms=0)
    # Another address: a raw request bears its own.
    transport = HttpTransport("http://127.0.0.1:1", Requests())
    gateway = Gateway(EXCHANGE, transport, gate, clock, Backoff(attempts=1), facts.append)
    post = Post(f"http://{host}:{port}", gateway, gate, facts)
    try:
        yield post
    finally:
        await gateway.aclose()
        await runner.cleanup()


def asking(raw: RawRequest, part: int = 0) -> Request[bytes]:
    return Request("/named", 30, lambda body, _: body, raw=raw, part=part)


async def test_a_raw_request_arrives_as_it_was_written_and_is_paid_for() -> None:
    async with opened() as post:
        url = f"{post.url}/a%2Fb?symbols=%5B%22X%22%5D&n=1"
        plain = await post.gateway.fetch(asking(RawRequest(url)))
        written = RawRequest(url, "POST", {"X-Who": "me"}, b'{"type":"book"}')
        await post.gateway.fetch(asking(written))

        assert plain == b'{"price":"1.10"}'
        assert post.received == [
            ("GET", "/a%2Fb?symbols=%5B%22X%22%5D&n=1", None, b""),
            ("POST", "/a%2Fb?symbols=%5B%22X%22%5D&n=1", "me", b'{"type":"book"}'),
        ]
        assert post.gate.used()[DAY] == 60
        sent = [fact for fact in post.facts if isinstance(fact, RequestSent)]
        assert [(fact.path, fact.cost) for fact in sent] == [("/named", 30)] * 2


async def test_a_raw_request_that_cannot_leave_is_paid_back() -> None:
    async with opened() as post:
        with pytest.raises(NeverSent, match=r"127\.0\.0\.1:1/a"):
            await post.gateway.fetch(asking(RawRequest("http://127.0.0.1:1/a?secret=1")))

        assert post.gate.used()[DAY] == 0
        (failed,) = [fact for fact in post.facts if isinstance(fact, RequestFailed)]
        assert not failed.sent
        assert "secret" not in failed.reason


async def test_whoever_wrote_it_knows_what_is_a_refusal() -> None:
    heard: list[tuple[int, bytes]] = []

    def too_fast(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
        heard.append((status, body))
        assert "date" in headers
        return ApiError("slow", "slow down", meaning="too_fast", wait_ms=60_000)

    async with opened() as post:
        raw = asking(RawRequest(f"{post.url}/x"))
        with pytest.raises(RateLimited, match="slow down"):
            await post.gateway.fetch(replace(raw, refusal=too_fast))
        with pytest.raises(RateLimited):
            await post.gateway.fetch(raw)

        assert heard == [(200, b'{"price":"1.10"}')]
        assert len(post.received) == 1, "the gate is shut for all"


async def test_a_refusal_for_good_bears_its_code() -> None:
    async with opened(status=400) as post:
        raw = asking(RawRequest(f"{post.url}/x"))
        refusal = lambda *_: ApiError("BadSymbol", "no such market")  # noqa: E731
        with pytest.raises(BadRequest) as caught:
            await post.gateway.fetch(replace(raw, refusal=refusal))

        assert (caught.value.code, caught.value.status) == ("BadSymbol", 400)


async def test_what_is_dearer_than_passes_at_once_is_paid_in_parts() -> None:
    pace = Limit(100, 200, kind="paced", burst=10)
    async with opened(DAY, pace) as post:
        clock = SystemClock()
        began_ns = clock.monotonic_ns()
        await post.gateway.fetch(asking(RawRequest(f"{post.url}/x"), part=10))
        took_ms = (clock.monotonic_ns() - began_ns) / 1_000_000

        assert post.gate.used()[DAY] == 30, "the whole is paid"
        assert took_ms >= 39, "ten at once, and twenty more at the pace"
        assert len(post.received) == 1


async def test_an_exchange_may_be_asked_through_something_else() -> None:
    given: list[tuple[ExchangeClient, Exchanges]] = []

    def make_client(gateway: ExchangeClient, places: Exchanges) -> ExchangeClient:
        given.append((gateway, places))
        return gateway

    settings = Settings(exchanges=Exchanges(rest_urls={"binance": "http://127.0.0.1:1"}))
    way = client_for(replace(EXCHANGE, make_client=make_client), settings, SystemClock())
    plain = client_for(EXCHANGE, settings, SystemClock())

    assert given == [(way, settings.exchanges)]
    assert isinstance(plain, Gateway)
    assert plain.feed(SymbolMap("binance", [])) is None
