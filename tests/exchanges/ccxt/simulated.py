"""ccxt's clients pointed at the simulated exchanges, by nothing but settings."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession

from penstock.app.simulator import build_simulator
from penstock.clock import SystemClock
from penstock.config import Exchanges, Requests, Settings, Simulator
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange, ExchangeClient, Info, Rest
from penstock.exchanges.clients import client_for
from penstock.exchanges.facts import RequestSent
from penstock.market.symbol import Symbol
from penstock.simulator.engine.server import SimulatorServer
from penstock.telemetry import Fact

SIMULATED = {
    "ccxt:binance": "binance",
    "ccxt:coinbaseexchange": "coinbase",
    "ccxt:kraken": "kraken",
    "ccxt:upbit": "upbit",
}
"""What is asked for, and which simulator answers."""


def addresses(name: str, address: str) -> Exchanges:
    return Exchanges(rest_urls={name: f"http://{address}"}, stream_urls={name: f"ws://{address}"})


@dataclass
class Simulated:
    """An exchange by ccxt, and the simulator it talks to."""

    exchange: Exchange
    client: ExchangeClient
    server: SimulatorServer
    http: ClientSession
    facts: list[Fact] = field(default_factory=list)
    info: Info = field(init=False)

    @property
    def symbol(self) -> Symbol:
        """A market that trades."""
        return self.symbols[0]

    @property
    def symbols(self) -> Sequence[Symbol]:
        return sorted(map(Symbol.parse, self.server.symbols))

    @property
    def rest(self) -> Rest:
        return self.exchange.rest(self.info.symbols)

    def paid(self) -> list[RequestSent]:
        """What left through the gateway."""
        return [fact for fact in self.facts if isinstance(fact, RequestSent)]

    async def ask(self, path: str, **query: str | int) -> Any:
        url = f"http://{self.server.address}/_sim/{path}"
        async with self.http.get(url, params=query) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def arrived(self) -> list[dict[str, Any]]:
        """The REST requests that reached the exchange; opening a stream is none."""
        arrivals: list[dict[str, Any]] = (await self.ask("requests"))["requests"]
        return [each for each in arrivals if each["unit"] != "connect"]

    async def plan_faults(self, plan: str) -> None:
        url = f"http://{self.server.address}/_sim/faults"
        async with self.http.post(url, json={"plan": plan}) as answer:
            assert answer.status == 200, await answer.text()


@asynccontextmanager
async def opened(
    name: str, simulator: Simulator | None = None, requests: Requests | None = None
) -> AsyncIterator[Simulated]:
    """A simulator, and ccxt on it; nothing has been asked yet."""
    server = build_simulator(
        simulator or Simulator(port=0), SystemClock(), exchange=SIMULATED[name]
    )
    await server.start()
    settings = Settings(exchanges=addresses(name, server.address), requests=requests or Requests())
    exchange, facts = registry.load(name), list[Fact]()
    client = client_for(exchange, settings, SystemClock(), facts.append)
    try:
        async with ClientSession() as http:
            yield Simulated(exchange, client, server, http, facts)
    finally:
        await client.aclose()
        await server.stop()
