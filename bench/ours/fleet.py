"""Our side of the fleet benchmark: the API on a store, in a process of its own.

Started with the URL of a store it prints where it listens, and serves until its input ends.
"""

import asyncio
import json
import sys

from penstock.api.access import rules_of
from penstock.api.app_state import AppState
from penstock.api.application import build_application
from penstock.api.server import ApiServer
from penstock.clock import SystemClock
from penstock.config import Api
from penstock.connectors import ConnectorManager
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.registry import kinds
from penstock.jobs.service import JobService
from penstock.market.symbol import Symbol
from penstock.stats.metrics import Metrics
from penstock.storage.state import open_store


class Listings:
    """Markets by number, the same at every exchange."""

    def __init__(self, count: int) -> None:
        self._symbols = [(f"A{n}USDT", Symbol.parse(f"a{n}_usdt")) for n in range(count)]

    async def of(self, exchange_id: str) -> SymbolMap:
        return SymbolMap(exchange_id, self._symbols)


async def serve(url: str, markets: int) -> None:
    store, metrics, settings = await open_store(url), Metrics(of_fleet=True), Api(port=0)
    app_state = AppState(
        FleetAdmin(ConnectorManager(store), JobService(store, kinds()), Listings(markets)),
        metrics,
        SystemClock(),
    )
    application = build_application(app_state, rules_of(settings), metrics)
    server = ApiServer(application, settings, lambda _: None)
    await server.start()
    print(json.dumps({"url": server.url}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop()
    await store.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
