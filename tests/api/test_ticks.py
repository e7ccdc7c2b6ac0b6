"""The latest ticks over the API: listed, one by one, and as a WebSocket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.live.ticks import ticker
from tests.waiting import PATIENCE_S

from penstock.api import ticks as routes
from penstock.api.views import TickView
from penstock.clock import ManualClock, SystemClock
from penstock.config import Live, Secret, Settings
from penstock.connectors.gateways import FleetGateways
from penstock.connectors.markets import Markets
from penstock.exchanges.base import Info
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.live import Tick, TickCache
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.storage.cache import open_live_store
from penstock.web.facts import RequestServed

from .conftest import Client, Open

CLOCK = SystemClock()
TOKEN, READ_TOKEN = "t" * 20, "r" * 20
SYMBOLS = ["BTC/USDT", "ETH/USDT", "SOL/USDT"]


async def cache(api: Client) -> TickCache:
    assert api.app_state.ticks is not None
    return await api.app_state.ticks.cache()


async def put(api: Client, *tickers: Ticker) -> None:
    await (await cache(api)).set_tickers(tickers)


async def streams_open(api: Client, number: int) -> None:
    """Wait until so many streams are open."""
    assert api.app_state.ticks is not None
    async with asyncio.timeout(PATIENCE_S):
        while api.app_state.ticks.streams != number:  # noqa: ASYNC110 (nobody would set an event)
            await asyncio.sleep(0.01)


async def store_listing(api: Client, exchange: str) -> None:
    listed = [ListedMarket("BTCUSDT", Symbol("BTC", "USDT"))]
    gateways = FleetGateways(api.app_state.store, Settings(), api.app_state.clock)
    info = Info(SymbolMap(exchange, listed), (), ("1m",))
    await Markets(api.app_state.store, gateways).refresh(exchange, info)


@asynccontextmanager
async def stream(
    api: Client, query: str = "", **headers: str
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    url = f"{api.url}/api/v1/ticks/stream{query}"
    async with api.session.ws_connect(url, headers=headers) as opened:
        yield opened


async def batch(opened: aiohttp.ClientWebSocketResponse) -> list[dict[str, Any]]:
    ticks: list[dict[str, Any]] = msgspec.json.decode(await opened.receive_str(timeout=PATIENCE_S))
    return ticks


async def refused(api: Client, query: str = "", **headers: str) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with stream(api, query, **headers):
            pass
    return caught.value.status


async def test_ticks_are_listed_with_their_age_in_pages(api: Client) -> None:
    await put(api, *(ticker(CLOCK, symbol=symbol, age_s=2) for symbol in SYMBOLS))
    await put(api, ticker(CLOCK, exchange="other", last_text="7.10"))

    first = await api.ask("GET", "ticks?limit=3")
    second = await api.ask("GET", f"ticks?limit=3&after={first.json['next']}")

    ticks = first.json["items"] + second.json["items"]
    assert [(tick["exchange"], tick["symbol"]) for tick in ticks] == [
        ("other", "BTC/USDT"), *(("sim", symbol) for symbol in SYMBOLS)
    ]  # fmt: skip
    assert 'rel="next"' in first.headers["Link"]
    assert second.json["next"] is None
    assert ticks[0]["last"] == "7.10"
    assert ticks[0]["received"].endswith("Z")
    assert [tick["bid"] for tick in ticks] == ["1.50"] * 4
    assert 2000 <= ticks[1]["age_ms"] < 60_000
    assert not ticks[1]["stale"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("exchange=sim", 3),
        ("exchange=other", 1),
        ("symbol=btc_usdt", 2),
        ("symbol=ETH/USDT", 1),
        ("exchange=sim&symbol=sol-usdt", 1),
        ("exchange=nowhere", 0),
    ],
)
async def test_ticks_are_filtered(api: Client, query: str, found: int) -> None:
    await put(api, *(ticker(CLOCK, symbol=symbol) for symbol in SYMBOLS))
    await put(api, ticker(CLOCK, exchange="other"))

    answer = await api.ask("GET", f"ticks?{query}")

    assert len(answer.json["items"]) == found


@pytest.mark.parametrize("query", ["symbol=BTCUSDT", "limit=0", "limit=1001", "after=x", "sym=1"])
async def test_a_wrong_filter_is_a_problem(api: Client, query: str) -> None:
    (await api.ask("GET", f"ticks?{query}")).is_problem(422)


@pytest.mark.parametrize("spelling", ["btc_usdt", "BTC/USDT", "BTC%2FUSDT", "btc-usdt"])
async def test_one_tick_is_shown_in_any_spelling(api: Client, spelling: str) -> None:
    await put(api, ticker(CLOCK))

    answer = await api.ask("GET", f"ticks/sim/{spelling}")

    assert answer.status == 200
    assert (answer.json["symbol"], answer.json["bid"]) == ("BTC/USDT", "1.50")


async def test_the_exchanges_own_spelling_is_looked_up(api: Client) -> None:
    await put(api, ticker(CLOCK, exchange="binance"))
    (await api.ask("GET", "ticks/binance/BTCUSDT")).is_problem(422)
    await store_listing(api, "binance")

    assert (await api.ask("GET", "ticks/binance/BTCUSDT")).json["symbol"] == "BTC/USDT"
    assert len((await api.ask("GET", "ticks?exchange=binance&symbol=BTCUSDT")).json["items"]) == 1


async def test_a_market_without_a_tick_is_not_found(api: Client) -> None:
    problem = (await api.ask("GET", "ticks/sim/btc_usdt")).is_problem(404)

    assert "BTC/USDT on 'sim'" in problem["detail"]
    assert "300 s" in problem["detail"]


async def test_a_stale_tick_says_so_and_an_expired_one_is_not_served(open_api: Open) -> None:
    api = await open_api(live=Live(url="memory:", tick_ttl=3600.0, stale_after=1.0))
    await put(api, ticker(CLOCK, age_s=3599.8), ticker(CLOCK, symbol="ETH/USDT", age_s=100))

    async with asyncio.timeout(PATIENCE_S):
        while (await api.ask("GET", "ticks/sim/btc_usdt")).status == 200:  # noqa: ASYNC110 (time)
            await asyncio.sleep(0.01)

    [left] = (await api.ask("GET", "ticks")).json["items"]
    assert (left["symbol"], left["stale"]) == ("ETH/USDT", True)
    assert left["age_ms"] >= 100_000
    async with stream(api) as opened:
        assert [tick["symbol"] for tick in await batch(opened)] == ["ETH/USDT"]


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "nonsense:", "sqlite:/proc/none/live.db"])
async def test_a_store_that_is_away_is_a_problem_and_the_rest_is_served(
    open_api: Open, url: str
) -> None:
    api = await open_api(live=Live(url=url))

    for path in ("ticks", "ticks/sim/btc_usdt"):
        answer = await api.ask("GET", path)
        answer.is_problem(503)
        assert int(answer.headers["Retry-After"]) > 0
    assert await refused(api) == 503
    assert (await api.ask("GET", "jobs")).status == 200


async def test_the_store_is_opened_again_once_it_is_back(open_api: Open, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    folder.write_text("a file is in the way")
    api = await open_api(live=Live(url=f"sqlite:{folder / 'live.db'}"))
    (await api.ask("GET", "ticks")).is_problem(503)

    folder.unlink()

    assert (await api.ask("GET", "ticks")).json == {"items": [], "next": None}


async def test_a_stream_begins_with_the_present_and_goes_on_with_changes(
    open_api: Open, tmp_path: Path
) -> None:
    api = await open_api(live=Live(url=f"sqlite:{tmp_path / 'live.db'}"))
    await put(api, ticker(CLOCK))
    async with stream(api) as opened:
        [present] = await batch(opened)
        await put(api, ticker(CLOCK, "2.50"))
        [changed] = await batch(opened)

    assert (present["bid"], changed["bid"]) == ("1.50", "2.50")
    assert present["age_ms"] >= 0
    assert not present["stale"]
    assert msgspec.structs.asdict(msgspec.convert(changed, TickView)) == changed


async def test_a_stream_has_only_what_was_asked_for(api: Client) -> None:
    async with stream(api, "?exchange=sim&symbol=eth_usdt") as opened:
        await put(api, ticker(CLOCK), ticker(CLOCK, symbol="ETH/USDT", exchange="other"))
        await put(api, ticker(CLOCK, "3", "ETH/USDT"))
        ticks = await batch(opened)

    assert [(tick["exchange"], tick["symbol"]) for tick in ticks] == [("sim", "ETH/USDT")]


async def test_a_large_batch_comes_in_several_messages(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MOST_TICKS", 2)
    await put(api, *(ticker(CLOCK, symbol=symbol) for symbol in SYMBOLS))
    async with stream(api) as opened:
        sizes = [len(await batch(opened)), len(await batch(opened))]

    assert sizes == [2, 1]


async def test_what_a_client_says_is_ignored_unless_it_is_too_much(api: Client) -> None:
    async with stream(api) as opened:
        await opened.send_str("subscribe!")
        await put(api, ticker(CLOCK))
        assert await batch(opened)
        await opened.send_bytes(b"x" * 100_000)
        assert (await opened.receive(timeout=PATIENCE_S)).data == 1009


async def test_a_client_that_does_not_read_is_disconnected_and_others_get_the_newest(
    open_api: Open,
) -> None:
    api = await open_api(write_s=0.2)
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", int(api.url.rpartition(":")[2])))
    deaf.sendall(
        b"GET /api/v1/ticks/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    await streams_open(api, 1)

    assert api.app_state.ticks is not None
    for number in range(200):  # 100 MB, and seconds before a ping that it does not answer
        large = (ticker(CLOCK, "1" * 50_000, f"A{each}/USDT") for each in range(10))
        await put(api, *large, ticker(CLOCK, f"{number}"))
        await asyncio.sleep(0.01)
        if not api.app_state.ticks.streams:
            break
    assert not api.app_state.ticks.streams

    deaf.close()
    async with stream(api, "?symbol=btc_usdt") as opened:
        assert (await batch(opened))[0]["bid"] == f"{number}"


async def test_a_slow_client_skips_ticks(api: Client) -> None:
    async with stream(api) as opened:
        for number in range(200):
            # Nothing is sent meanwhile: the loop is not left.
            await put(api, ticker(CLOCK, f"{number}"))
        assert [tick["bid"] for tick in await batch(opened)] == ["199"]


async def test_what_expires_before_a_slow_client_reads_it_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "MOST_TICKS", 1)
    clock, sent = ManualClock(1_700_000_000_000), list[dict[str, Any]]()

    async def send_slowly(text: bytes) -> None:
        sent.extend(msgspec.json.decode(text))
        await clock.advance(70)

    async def one_batch() -> AsyncIterator[list[Tick]]:
        yield [Tick(ticker(clock, symbol=symbol), 200_000, True) for symbol in SYMBOLS]

    store = await open_live_store("memory:", clock=clock)
    await routes.send_ticks(send_slowly, one_batch(), TickCache(store, clock=clock), clock)

    assert [tick["age_ms"] for tick in sent] == [200_000, 270_000]


async def test_there_are_only_so_many_streams(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_STREAMS", 1)
    async with stream(api):
        assert await refused(api) == 503
    await streams_open(api, 0)
    async with stream(api):
        pass


async def test_streams_end_with_the_server(api: Client) -> None:
    async with stream(api) as opened:
        api.app_state.closing.set()
        assert (await opened.receive(timeout=PATIENCE_S)).data == 1001


async def test_a_stream_ends_with_its_session(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN))
    begun = await api.ask("POST", "session", {"token": TOKEN})
    cookie = {"Cookie": begun.headers["Set-Cookie"].partition(";")[0]}
    async with stream(api, **cookie) as opened:
        await api.ask("DELETE", "session", **cookie)
        assert (await opened.receive(timeout=PATIENCE_S)).data == 4401


async def test_a_stream_passes_the_same_checks_as_other_requests(open_api: Open) -> None:
    api = await open_api(token=Secret(TOKEN), read_token=Secret(READ_TOKEN))

    assert await refused(api) == 401
    assert await refused(api, Authorization="Bearer wrong") == 401
    assert await refused(api, Authorization=f"Bearer {TOKEN}", Host="evil.example") == 421
    assert await refused(api, Authorization=f"Bearer {TOKEN}", Origin="http://evil.example") == 403
    assert await refused(api, "?symbol=x", Authorization=f"Bearer {TOKEN}") == 422
    for token in (TOKEN, READ_TOKEN):
        async with stream(api, Authorization=f"Bearer {token}", Origin=api.url) as opened:
            await put(api, ticker(CLOCK))
            assert await batch(opened)
    assert (await api.ask("GET", "ticks")).status == 401
    assert (await api.ask("GET", "ticks", Authorization=f"Bearer {READ_TOKEN}")).status == 200
    served = [fact.status for fact in api.facts if isinstance(fact, RequestServed)]
    assert served.count(101) == 2


async def test_an_ordinary_request_for_a_stream_is_told_to_upgrade(api: Client) -> None:
    answer = await api.ask("GET", "ticks/stream")

    answer.is_problem(426)
    assert answer.headers["Upgrade"] == "websocket"
