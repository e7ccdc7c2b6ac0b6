"""What an exchange may do wrong on a socket: named, counted, and nobody else's trouble."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import msgspec
import pytest
from aiohttp import web
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.exchanges.binance.stream import BinanceDialect
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import Subscription
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import Plan

from .conftest import trade_frame
from .test_session import Backend, running

GOOD = [Symbol(f"S{number}", "USDT") for number in range(50)]
BAD = Symbol("BAD", "USDT")
SYMBOLS = SymbolMap("binance", [(each.base + each.quote, each) for each in (*GOOD, BAD)])
PLAN = Plan(reconnect=Backoff(first_s=0.05, longest_s=0.4, jitter=0.0), ack_within_s=PATIENCE_S)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def session_to(handler: Handler, backend: Backend) -> tuple[Session, web.AppRunner]:
    app = web.Application()
    app.router.add_get("/stream", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    wanted = [Subscription("trades", (*GOOD[:25], BAD, *GOOD[25:]))]
    shard = Shard("binance", lambda: BinanceDialect(SYMBOLS), wanted, lambda: 0.0, PLAN)
    endpoint = Endpoint("binance", f"http://{host}:{port}/stream", PATIENCE_S)
    hooks = SessionHooks(backend.record, backend.fetch_book, backend.facts.append)
    return Session(shard, endpoint, hooks, SystemClock()), runner


async def test_a_symbol_that_is_refused_costs_fifty_others_nothing() -> None:
    async def refuse_one(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            asked = msgspec.json.decode(message.data)
            if "badusdt@trade" in asked["params"]:
                error = {"error": {"code": 2, "msg": "Invalid symbol."}, "id": asked["id"]}
                await socket.send_json(error)
                continue
            await socket.send_json({"result": None, "id": asked["id"]})
            for number, name in enumerate(asked["params"], 1):
                await socket.send_str(trade_frame(number, name.partition("@")[0].upper()))
        return socket

    backend = Backend()
    under_test, runner = await session_to(refuse_one, backend)
    async with running(under_test):
        await backend.until(lambda: len(backend.trades) == 50)
        refusals = [f"{each.code}: {each.words}" for each in under_test.shard.stats.refusals]
        state, reconnects = under_test.shard.state, dict(under_test.shard.stats.reconnects)
    await runner.cleanup()

    traded = {event.symbol for batch in backend.batches for event in batch}
    assert traded == set(GOOD)
    assert (state, reconnects, set(refusals)) == ("connected", {}, {"2: Invalid symbol."})


@pytest.mark.parametrize("status", [200, 404, 502])
async def test_a_page_where_a_stream_should_be_is_named_and_tried_again_ever_more_slowly(
    status: int,
) -> None:
    at_s: list[float] = []

    async def page(_: web.Request) -> web.StreamResponse:
        at_s.append(asyncio.get_running_loop().time())
        text = "<html><body>Down for maintenance</body></html>"
        return web.Response(text=text, status=status, content_type="text/html")

    backend = Backend()
    under_test, runner = await session_to(page, backend)
    async with running(under_test):
        await backend.until(lambda: len(at_s) == 5)
        [reason] = under_test.shard.stats.reconnects
    await runner.cleanup()

    assert str(status) in reason
    waits_s = [later - sooner for sooner, later in pairwise(at_s)]
    assert all(w >= least for w, least in zip(waits_s, (0.05, 0.1, 0.2, 0.4), strict=True))
    assert backend.batches == []
