"""An API on a real port, and clients that talk to it as programs do."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests import events
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset
from tests.waiting import PATIENCE_S

from penstock.api.access import Page, rules_of
from penstock.api.app_state import AppState
from penstock.api.application import build_application
from penstock.api.live_ticks import LiveTicks
from penstock.api.server import ApiServer
from penstock.clock import SystemClock
from penstock.config import Api, Live
from penstock.connectors import ConnectorManager
from penstock.errors import ExchangeUnreachable
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.registry import kinds
from penstock.jobs.service import JobService
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.monitor.markets import Markets
from penstock.stats.metrics import Metrics
from penstock.stats.scraping import FleetScraper
from penstock.storage.log import open_log
from penstock.storage.state import StateStore, open_store
from penstock.telemetry import Fact, fan_out

CANDLES = {
    "exchange_id": "binance",
    "type": "ohlcv_incremental",
    "symbol": "BTC/USDT",
    "timeframe": "1h",
}


class Listed:
    """An exchange's symbols, without the exchange."""

    def __init__(self, *slugs: str) -> None:
        self.symbols = [Symbol.parse(slug) for slug in slugs]

    async def of(self, exchange_id: str) -> SymbolMap:
        if not self.symbols:
            raise ExchangeUnreachable(f"{exchange_id} does not answer. Try again later.")
        natives = ((f"{each.base}{each.quote}", each) for each in self.symbols)
        return SymbolMap(exchange_id, natives)


@dataclass
class Client:
    """A server, and a session with it."""

    session: aiohttp.ClientSession
    url: str
    app_state: AppState
    listed: Listed
    facts: list[Fact] = field(default_factory=list)

    async def ask(self, method: str, path: str, json: Any = None, **headers: str) -> "Answer":
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        address = path if path.startswith("/") else f"/api/v1/{path}"
        options = {"json": json} if json is not None else {}
        asked = self.session.request(method, self.url + address, headers=named, **options)
        async with asked as answer:
            body = await answer.read()
            return Answer(answer.status, answer.headers, body)


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def is_problem(self, status: int) -> Any:
        """The problem it carries, which must be of this status."""
        assert self.status == status, self.body
        assert self.headers["Content-Type"] == "application/problem+json"
        assert self.json["status"] == status
        assert self.json["title"]
        assert self.json["detail"]
        assert "Traceback" not in self.body.decode()
        return self.json


TRADED = [
    events.trade(
        number,
        at_ns=NOON_NS + number // 3 * 20 * SECOND_NS,
        received_at_ns=NOON_NS + number * SECOND_NS,
        price_text=f"{number}.50",
    )
    for number in range(30)
]
"""The trades that an API offers; always three at the same time."""
COLLECTED = open_log("memory:")
COLLECTED.writer("a").append(
    [
        *TRADED,
        events.snapshot(1, received_at_ns=NOON_NS, bids_raw=write_levels([("9.5", "1")])),
    ]
)


Open = Callable[..., Awaitable[Client]]


@asynccontextmanager
async def served(
    store: StateStore,
    settings: Api,
    live: Live | None = None,
    scraper: FleetScraper | None = None,
    page: Page | None = None,
) -> AsyncIterator[Client]:
    """An API on a store, on a port of its own."""
    clock, metrics, listed = SystemClock(), Metrics(of_fleet=True), Listed("btc_usdt", "eth_usdt")
    facts: list[Fact] = []
    listener = fan_out([metrics, facts.append])
    admin = FleetAdmin(ConnectorManager(store), JobService(store, kinds()), listed)
    live = live or Live(url="memory:")
    ticks = LiveTicks(live.url, live, clock, listener)
    pages = Markets(COLLECTED, Path("nowhere"), clock)
    app_state = AppState(
        admin, metrics, clock, lambda: dataset(COLLECTED), ticks, scraper, market_pages=pages
    )
    application = build_application(app_state, rules_of(settings), listener, page)
    server = ApiServer(application, settings, lambda _: None)
    await server.start()
    try:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=PATIENCE_S)
        ) as session:
            yield Client(session, server.url, app_state, listed, facts)
    finally:
        app_state.closing.set()
        await server.stop()
        await app_state.live.close()
        await ticks.close()
        await pages.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StateStore]:
    store = await open_store(f"sqlite:{tmp_path / 'state.db'}")
    yield store
    await store.close()


@pytest.fixture
async def open_api(store: StateStore) -> AsyncIterator[Open]:
    """Opens an API with settings of its own."""
    async with AsyncExitStack() as stack:

        async def opened(
            live: Live | None = None, page: Page | None = None, **settings: Any
        ) -> Client:
            given = Api(**{"port": 0, **settings})
            return await stack.enter_async_context(served(store, given, live, page=page))

        yield opened


@pytest.fixture
async def api(open_api: Open) -> Client:
    """An API as it is by default."""
    return await open_api()
