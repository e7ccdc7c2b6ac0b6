"""An exchange that does not acknowledge one market's streams harms neither the others nor us."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from aiohttp import ClientSession, WSMsgType, web
from tests.waiting import PATIENCE_S

from penstock.app.simulator import build_simulator
from penstock.books.commands import FetchSnapshot
from penstock.clock import SystemClock
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.config import Exchanges, Settings, Simulator
from penstock.exchanges import registry
from penstock.exchanges.clients import gateway_for
from penstock.market.events import BookSnapshot, Event
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import Subscription
from penstock.streaming.facts import StreamsPending
from penstock.streaming.shard import Shard
from penstock.streaming.shard_connection import Plan
from penstock.telemetry import Fact

HASTY = Plan(reconnect=Backoff(first_s=0.05, longest_s=0.1), rotate_after_s=600.0, ack_within_s=2.0)
CHANNELS = ("trades", "book_deltas", "tickers")


@dataclass
class Proxy:
    """Hands everything on between a client and an exchange, but for one market's answers."""

    exchange: str
    url: str
    native: str
    withholds: bool = True
    withheld: int = 0
    _requests: set[int] = field(default_factory=set)
    """Of those that name the market, the numbers."""

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        ours = web.WebSocketResponse(max_msg_size=0)
        await ours.prepare(request)
        url = self.url + request.path
        async with ClientSession() as http, http.ws_connect(url, max_msg_size=0) as theirs:
            upward = asyncio.create_task(self._hand_up(ours, theirs))
            try:
                async for message in theirs:
                    frame = message.data
                    text = frame if isinstance(frame, str) else frame.decode()
                    kept = self._answer(text) if self.withholds else text
                    if kept is None:
                        self.withheld += 1
                    elif message.type is WSMsgType.BINARY:
                        await ours.send_bytes(kept.encode())
                    else:
                        await ours.send_str(kept)
            except (ConnectionError, RuntimeError):
                pass  # the client has gone
            finally:
                upward.cancel()
        return ours

    async def _hand_up(self, ours: web.WebSocketResponse, theirs: object) -> None:
        async for message in ours:
            if self.native.lower() in message.data.lower() and self.exchange == "binance":
                self._requests.add(json.loads(message.data)["id"])
            await theirs.send_str(message.data)  # type: ignore[attr-defined]

    def _answer(self, text: str) -> str | None:
        """What is left of a frame; None if nothing is."""
        match self.exchange:
            case "binance":
                said = json.loads(text)
                return None if "result" in said and said["id"] in self._requests else text
            case "kraken":
                return None if '"method":"subscribe"' in text and self.native in text else text
            case "coinbase":
                said = json.loads(text)
                if said["type"] != "subscriptions":
                    return text
                for channel in said["channels"]:
                    if self.native in channel["product_ids"]:
                        channel["product_ids"].remove(self.native)
                        self.withheld += 1
                return json.dumps(said, separators=(",", ":"))
            case _:  # where what a stream brings is its only acknowledgement
                return None if f'"{self.native}"' in text else text


@dataclass
class Backend:
    """Where a session's events and facts go."""

    events: list[Event] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    async def record(self, events: Sequence[Event]) -> None:
        self.events += events

    def pending(self) -> list[StreamsPending]:
        return [fact for fact in self.facts if isinstance(fact, StreamsPending)]

    def brought(self, symbol: Symbol) -> bool:
        return any(each.symbol == symbol for each in self.events)


@pytest.mark.parametrize("name", registry.names())
async def test_a_market_whose_answers_are_withheld_is_asked_for_until_they_come(name: str) -> None:
    clock, backend = SystemClock(), Backend()
    server = build_simulator(Simulator(port=0, uplink_ms=0, latency_ms=1), clock, exchange=name)
    await server.start()
    exchange = registry.load(name)
    urls = Exchanges(rest_urls={name: f"http://{server.address}"})
    gateway = gateway_for(exchange, Settings(exchanges=urls), clock)
    runner = web.AppRunner(web.Application(), handler_cancellation=True, shutdown_timeout=0.1)
    try:
        symbols = (await gateway.learn()).symbols
        withheld, other = sorted(map(Symbol.parse, server.symbols))[:2]
        rest = exchange.rest(symbols)
        native = symbols.native(withheld) if name == "binance" else symbols.stream_name(withheld)
        proxy = Proxy(name, f"http://{server.address}", native)
        runner.app.router.add_get("/{path:.*}", proxy.handle)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]

        async def fetch(command: FetchSnapshot, _: object) -> BookSnapshot:
            return await gateway.fetch(rest.book(command.symbol, 50))

        wanted = [Subscription(channel, (withheld, other)) for channel in CHANNELS]
        shard = Shard(name, lambda: exchange.dialect(symbols), wanted, lambda: 0.5, HASTY)
        url = exchange.dialect(symbols).url(f"http://{host}:{port}")
        endpoint, stop = Endpoint(name, url, PATIENCE_S), asyncio.Event()
        hooks = SessionHooks(backend.record, fetch, backend.facts.append)
        running = asyncio.create_task(Session(shard, endpoint, hooks, clock).run(stop))

        async def until(wish: object) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not wish():  # type: ignore[operator]
                    if running.done():
                        running.result()
                    await asyncio.sleep(0.02)

        await until(lambda: any(fact.times >= 2 for fact in backend.pending()))
        await until(lambda: backend.brought(other))
        assert proxy.withheld
        assert not shard.stats.refusals, "not to answer is not to refuse"
        slugs = {stream.split()[1] for fact in backend.pending() for stream in fact.streams}
        assert withheld.slug in slugs
        if exchange.dialect(symbols).limits.mixed_channels is False:
            assert not shard.stats.reconnects, "the others are not disturbed"
        proxy.withholds = False
        backend.events.clear()
        await until(
            lambda: shard.primary.connection.settled and not shard.primary.connection.pending
        )
        await until(lambda: backend.brought(withheld))
        stop.set()
        await running
    finally:
        await gateway.aclose()
        await runner.cleanup()
        await server.stop()
