"""One process of the budget benchmark: fifty tasks that ask an exchange for more than it allows.

A task that got its answer does something else for a moment, as real ones do: if all were always
under way, a simulator on the same two cores would be late with each, and its log would tell when
it got round to a request, not when that arrived.

``python -m bench.ours.budget STATE_URL ADDRESS TASKS``. It says "ready" once it knows the exchange;
then each line it reads is a command: ``ask`` begins, ``provoke`` asks once for what the simulator
answers with 418, ``end`` stops. It ends with one JSON object: what was heard, and until when it was
told to stop. All it knows of the other processes is in the store.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from itertools import cycle, islice
from random import random

from penstock.clock import SystemClock
from penstock.config import Exchanges, Settings, State
from penstock.connectors.gateways import FleetGateways
from penstock.errors import Banned, PenstockError
from penstock.exchanges import registry
from penstock.exchanges.base import ExchangeClient, Request
from penstock.exchanges.facts import RequestSent, SendingStopped
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.runtime.stores import open_state
from penstock.telemetry import Fact

NAME = "binance"
PROVOKED = "/api/v3/avgPrice"
BTC = Symbol.parse("btc_usdt")
MINUTE = Interval.parse("1m")
THINK_S = 2.0
"""On average."""


class Heard:
    """What the exchange and the gates told."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.errors: Counter[str] = Counter()
        self.stops: list[int] = []

    def fact(self, fact: Fact) -> None:
        if isinstance(fact, RequestSent):
            self.statuses[fact.status] += 1
        elif isinstance(fact, SendingStopped):
            self.stops.append(fact.until_ms)


async def ask_on(
    gateway: ExchangeClient, questions: Sequence[Request[object]], heard: Heard
) -> None:
    for question in cycle(questions):
        try:
            await gateway.fetch(question)
            await gateway.clock.sleep(2 * THINK_S * random())
        except PenstockError as error:
            heard.errors[type(error).__name__] += 1


async def provoke(gateway: ExchangeClient) -> None:
    request = Request(PROVOKED, 2, lambda body, _: body, {"symbol": "BTCUSDT"})
    try:
        await gateway.fetch(request)
    except Banned:
        return
    raise SystemExit("the exchange should have answered with 418")


async def main(url: str, address: str, tasks: int) -> None:
    settings = Settings(state=State(url=url), exchanges=Exchanges(rest_urls={NAME: address}))
    clock, heard = SystemClock(), Heard()
    async with (
        open_state(settings, clock) as store,
        aclosing(FleetGateways(store, settings, clock, heard.fact)) as gateways,
    ):
        gateway = await gateways.of(NAME)
        info = await gateway.learn()
        rest = registry.load(NAME).rest(info.symbols)
        now_ms = clock.now_ms()
        assert gateway.exchange.time is not None
        questions: list[Request[object]] = [  # weights of 1, 2, 5 and 2
            gateway.exchange.time,
            rest.candles(BTC, MINUTE, now_ms - 120_000, now_ms),
            rest.book(BTC, 5),
            rest.candles(BTC, MINUTE, now_ms - 180_000, now_ms),
        ]
        print("ready", flush=True)
        availability: list[asyncio.Task[None]] = []
        # Empty when the benchmark was killed.
        while (command := (await asyncio.to_thread(sys.stdin.readline)).strip()) not in ("end", ""):
            if command == "ask":
                heard.statuses.clear()
                for number in range(tasks):
                    own = list(islice(cycle(questions), number, number + len(questions)))
                    availability.append(asyncio.create_task(ask_on(gateway, own, heard)))
            elif command == "provoke":
                await provoke(gateway)
        for task in availability:
            task.cancel()
        await asyncio.gather(*availability, return_exceptions=True)
    print(
        json.dumps({"statuses": heard.statuses, "errors": heard.errors, "stops": heard.stops}),
        flush=True,
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
