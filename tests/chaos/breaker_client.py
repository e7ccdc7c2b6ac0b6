"""A process with many tasks that send requests without a pause: ``breaker_client.py STORE SERVER``.

While the circuit breaker is open, each task waits as long as it is told to.
"""

import asyncio
import sys
from typing import Any

import msgspec

from penstock.clock import SystemClock
from penstock.config import Breaker, Exchanges, Requests, Settings
from penstock.connectors.gateways import FleetGateways
from penstock.errors import CircuitOpen, ExchangeError, ExchangeUnreachable
from penstock.exchanges.base import Request
from penstock.storage.state import open_store

TASKS = 50
COOLDOWN_S, TIMEOUT_S = 2.0, 1.0
ASK: Request[Any] = Request("/ask", cost=1, read=lambda body, _: msgspec.json.decode(body))


async def main(store_url: str, server: str) -> None:
    clock, store = SystemClock(), await open_store(store_url)
    settings = Settings(
        exchanges=Exchanges(rest_urls={"binance": server}),
        requests=Requests(attempts=1, total_timeout=TIMEOUT_S, acquire_timeout=60.0),
        breaker=Breaker(cooldown=COOLDOWN_S, longest_cooldown=COOLDOWN_S, window=5.0, ramp=2.0),
    )
    gateway = FleetGateways(store, settings, clock).open("binance")

    async def ask() -> None:
        while True:
            try:
                await gateway.fetch(ASK)
            except CircuitOpen as error:
                await clock.sleep(max(0.001, (error.retry_at_ms - clock.now_ms()) / 1000))
            except (ExchangeError, ExchangeUnreachable):
                await clock.sleep(0.05)

    await asyncio.gather(*(ask() for _ in range(TASKS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
