"""What every exchange's folder must do, case by case; a new folder is done when it passes them all.

Cases 1 to 19 need the folder alone. From 20 on the folder speaks to its simulator, which was
written apart from it, and is judged by the simulator's ledger.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE_S

from penstock.app.simulator import build_simulator
from penstock.books.book import BookView
from penstock.books.commands import FetchSnapshot
from penstock.books.known_depth import KnownDepth
from penstock.clock import SystemClock
from penstock.collect.session import Endpoint, Session, SessionHooks
from penstock.config import Collect, Exchanges, Settings, Simulator
from penstock.errors import (
    BadRequest,
    UnexpectedAnswer,
    UnknownChannel,
    UnknownInterval,
    UnknownSymbol,
)
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange, Info, Request
from penstock.exchanges.clients import gateway_for
from penstock.exchanges.gateway import Gateway
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.market.events import BookDelta, BookSnapshot, Event, Ticker, Trade
from penstock.market.interval import COMMON, MINUTE_MS, Interval
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.simulator import registry as simulators
from penstock.simulator.judge import Evidence, Judge, SeenBook, SeenTrade
from penstock.streaming.commands import Subscription
from penstock.streaming.dialect import Malformed
from penstock.streaming.shard import Shard

A, B, ODD = Symbol("AAA", "USD"), Symbol("BBB", "USD"), Symbol("币", "USD")
MAP_OF = {
    name: SymbolMap(
        name, [ListedMarket("AAAUSD", A), ListedMarket("BBB-USD", B), ListedMarket("币USD", ODD)]
    )
    for name in registry.names()
}
MINUTE = Interval.parse("1m")
PAGES = (b"<!DOCTYPE html><html>blocked</html>", b"", b"[", b"null", b"\xff\xfe", b"[" * 50_000)

every_exchange = pytest.mark.parametrize("name", registry.names())


def requests_of(exchange: Exchange, symbols: SymbolMap, symbol: Symbol) -> list[Request[object]]:
    """One of each kind there is."""
    rest = exchange.rest(symbols)
    return [
        *([exchange.time] if exchange.time else []),
        exchange.info,
        rest.book(symbol, 10),
        rest.recent_trades(symbol, 5),
        rest.trades(symbol, 1),
        rest.candles(symbol, MINUTE, 0, MINUTE_MS),
        rest.tickers([symbol]),
        rest.tickers([]),
        *(rest.latest(symbol, channel) for channel in exchange.dialect(symbols).channels),
    ]


@every_exchange
def test_01_the_folder_exports_an_exchange_of_its_own_name(name: str) -> None:
    exchange = registry.load(name)

    assert isinstance(exchange, Exchange)
    assert exchange.name == name
    assert urlsplit(exchange.rest_url).scheme == "https"
    assert urlsplit(exchange.stream_url).scheme == "wss"
    assert exchange.time_step_ms >= 1


@every_exchange
def test_02_limits_are_known_before_the_exchange_is_asked(name: str) -> None:
    limits = registry.load(name).limits(1_800_000_000_000)

    assert limits
    assert all(limit.amount > 0 and limit.period_ms > 0 and limit.burst >= 0 for limit in limits)
    assert len(set(limits)) == len(limits)


@every_exchange
def test_03_every_request_is_counted_by_a_limit_that_can_bear_it(name: str) -> None:
    exchange = registry.load(name)
    limits = exchange.limits(1_800_000_000_000)
    for request in requests_of(exchange, MAP_OF[name], A):
        charges = [(limit, limit.charge(request.cost, request.category)) for limit in limits]
        assert request.cost >= 1
        assert any(charge for _, charge in charges), f"{request.path} is free"
        assert all(charge <= limit.most for limit, charge in charges), request.path


@every_exchange
def test_04_requests_are_data(name: str) -> None:
    for request in requests_of(registry.load(name), MAP_OF[name], ODD):
        assert request.path.startswith("/")
        assert all(isinstance(value, str | int) for value in request.params.values())


@every_exchange
def test_05_a_symbol_that_is_not_listed_is_never_asked_for(name: str) -> None:
    rest = registry.load(name).rest(MAP_OF[name])
    dialect = registry.load(name).dialect(MAP_OF[name])
    unknown = Symbol("ZZZ", "USD")
    for ask in (
        lambda: rest.book(unknown, 10),
        lambda: rest.recent_trades(unknown, 1),
        lambda: rest.trades(unknown, 1),
        lambda: rest.candles(unknown, MINUTE, 0, 1),
        lambda: rest.tickers([unknown]),
        lambda: rest.latest(unknown, "trades"),
        lambda: rest.latest(unknown, "book_deltas"),
        lambda: rest.latest(unknown, "tickers"),
        lambda: dialect.streams("trades", [unknown]),
    ):
        with pytest.raises(UnknownSymbol):
            ask()


@every_exchange
def test_06_candles_are_offered_in_the_lengths_it_says_and_no_others(name: str) -> None:
    exchange = registry.load(name)
    rest = exchange.rest(MAP_OF[name])
    assert "1m" in exchange.intervals
    for text in exchange.intervals:
        rest.candles(A, Interval.parse(text), 0, 1)
    for text in {"7m", *COMMON} - {*exchange.intervals}:
        with pytest.raises(UnknownInterval):
            rest.candles(A, Interval.parse(text), 0, 1)


@every_exchange
def test_07_an_answer_that_is_none_of_its_own_is_refused_whole(name: str) -> None:
    for request in requests_of(registry.load(name), MAP_OF[name], A):
        for page in PAGES:
            with pytest.raises(UnexpectedAnswer):
                request.read(page, 1)


@every_exchange
def test_08_a_page_of_html_is_no_api_error(name: str) -> None:
    assert [registry.load(name).read_api_error(page) for page in PAGES] == [None] * len(PAGES)


@every_exchange
@given(body=st.binary(max_size=200))
def test_09_no_body_makes_the_reading_of_an_api_error_raise(name: str, body: bytes) -> None:
    registry.load(name).read_api_error(body)


@every_exchange
@given(headers=st.dictionaries(st.text(max_size=30), st.text(max_size=30), max_size=5))
def test_10_no_header_makes_the_reading_of_usage_raise(name: str, headers: dict[str, str]) -> None:
    for usage in registry.load(name).usages(headers):
        assert usage.used >= 0
        assert usage.window_ms > 0


@every_exchange
def test_11_trades_books_and_tickers_are_streamed(name: str) -> None:
    exchange = registry.load(name)
    channels = exchange.dialect(MAP_OF[name]).channels

    assert {"trades", "book_deltas", "tickers"} <= set(channels)
    assert exchange.consecutive <= set(channels)
    candles = {channel for channel in channels if channel.startswith("candles_")}
    assert candles <= {f"candles_{text}" for text in exchange.intervals}


@every_exchange
def test_12_no_two_streams_have_one_name(name: str) -> None:
    dialect = registry.load(name).dialect(MAP_OF[name])
    names = [each for channel in dialect.channels for each in dialect.streams(channel, [A, B, ODD])]

    assert len(names) == 3 * len(dialect.channels)
    assert len(set(names)) == len(names)


@every_exchange
def test_13_a_channel_that_is_not_streamed_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(UnknownChannel, match="trades"):
        registry.load(name).dialect(MAP_OF[name]).streams("weather", [A])


@every_exchange
def test_14_streams_are_asked_for_and_ended_by_text_messages(name: str) -> None:
    dialect = registry.load(name).dialect(MAP_OF[name])
    for channel in dialect.channels:
        names = dialect.streams(channel, [A, ODD])
        assert dialect.subscribe(names, 1)
        assert dialect.unsubscribe(names[:1], 2)


@every_exchange
def test_15_stream_limits_are_above_zero(name: str) -> None:
    limits = registry.load(name).dialect(MAP_OF[name]).limits

    assert min(limits.streams_per_connection, limits.names_per_message, limits.connects) >= 1
    assert limits.messages_per_second >= 1
    assert min(limits.connects_period_s, limits.heartbeat_s, limits.ping_every_s) > 0
    assert not limits.ping or limits.ping_every_s <= limits.heartbeat_s


@every_exchange
def test_16_books_are_begun_and_checked_in_a_way_the_machine_knows(name: str) -> None:
    rules = registry.load(name).dialect(MAP_OF[name]).books

    assert rules.begins in ("rest", "stream", "frame")
    assert rules.checksum is None or rules.begins == "stream"
    assert rules.depth is None or rules.depth >= 1


@every_exchange
@given(frame=st.binary(max_size=300) | st.text(max_size=300))
def test_17_nothing_an_exchange_may_send_makes_a_dialect_raise(
    name: str, frame: bytes | str
) -> None:
    dialect = registry.load(name).dialect(MAP_OF[name])
    dialect.streams("trades", [A])
    for said in dialect.read(frame, 1):
        assert isinstance(said, tuple), "no event comes of rubbish"


@every_exchange
@pytest.mark.parametrize("frame", PAGES[:1] + PAGES[2:], ids=range(len(PAGES) - 1))
def test_18_rubbish_is_told_with_a_reason(name: str, frame: bytes) -> None:
    (said,) = registry.load(name).dialect(MAP_OF[name]).read(frame, 1)

    assert isinstance(said, Malformed)
    assert said.words
    assert len(said.excerpt) <= 200


@dataclass
class Live:
    """An exchange's folder and its simulator, with everything between them."""

    exchange: Exchange
    gateway: Gateway
    info: Info
    address: str
    http: ClientSession
    symbols: list[Symbol]
    """What trades there; more may be listed."""

    async def truth(self, what: str, symbol: Symbol, **query: int) -> list[dict[str, object]]:
        params: dict[str, str | int] = {"symbol": symbol.slug, **query}
        url = f"http://{self.address}/_sim/ledger/{what}"
        async with self.http.get(url, params=params) as answer:
            rows: list[dict[str, object]] = (await answer.json())[what]
            return rows

    async def plan_faults(self, plan: str) -> None:
        url = f"http://{self.address}/_sim/faults"
        async with self.http.post(url, json={"plan": plan}) as answer:
            assert answer.status == 200, await answer.text()

    async def judged(self, symbol: Symbol, events: Sequence[Event]) -> None:
        """Hold trades and books against the ledger."""
        consecutive = "trades" in self.exchange.consecutive
        evidence = Evidence(synced=True, consecutive=consecutive)
        for event in events:
            if isinstance(event, Trade):
                evidence.trades.append(_seen_trade(event))
            elif isinstance(event, BookSnapshot) and (event.update_id or event.at_ns):
                at_ms = None if event.update_id else event.at_ms
                evidence.books.append(SeenBook(event.update_id, event.bids, event.asks, at_ms))
        judge = Judge(self.http, f"http://{self.address}")
        findings = await judge.judge({symbol.slug: evidence})
        assert findings.honest, findings
        assert not findings.empty


def _seen_trade(trade: Trade) -> SeenTrade:
    return SeenTrade(trade.id, trade.at_ms, trade.price, trade.quantity, trade.taker == "buy")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=registry.names())
async def live(request: pytest.FixtureRequest) -> AsyncIterator[Live]:
    name: str = request.param
    if name not in simulators.names():
        pytest.skip(f"there is no simulated {name}")
    clock = SystemClock()
    server = build_simulator(Simulator(port=0), clock, exchange=name)
    await server.start()
    urls = Exchanges(rest_urls={name: f"http://{server.address}"})
    gateway = gateway_for(registry.load(name), Settings(exchanges=urls), clock)
    try:
        async with ClientSession() as http:
            info = await gateway.learn()
            symbols = sorted(map(Symbol.parse, server.symbols))
            yield Live(registry.load(name), gateway, info, server.address, http, symbols)
    finally:
        await gateway.aclose()
        await server.stop()


on_one_loop = pytest.mark.asyncio(loop_scope="module")


@on_one_loop
async def test_20_learning_maps_every_symbol_both_ways(live: Live) -> None:
    symbols = live.info.symbols

    assert len(symbols) >= 3
    for symbol in symbols:
        assert symbols.symbol(symbols.native(symbol)) is symbol
        for typed in (symbol.slug, symbol.unified, symbols.native(symbol)):
            assert symbols.find(typed) is symbol
        again = SymbolMap(symbols.exchange, symbols.listed)
        assert again.stream_name(symbol) == symbols.stream_name(symbol)


@on_one_loop
async def test_21_its_clock_is_known_within_its_step(live: Live) -> None:
    offset = live.gateway.offset

    assert offset is not None
    assert offset.low_ms - 1 <= 0 <= offset.high_ms + 1, "the simulator keeps this machine's time"
    assert offset.error_ms <= live.exchange.time_step_ms + 2_000


@on_one_loop
async def test_22_the_latest_trades_are_the_ledgers(live: Live) -> None:
    symbol = live.symbols[0]
    trades = await live.gateway.fetch(
        live.exchange.rest(live.info.symbols).recent_trades(symbol, 5)
    )

    assert 1 <= len(trades) <= 5
    assert all(trade.symbol is symbol and trade.source == "rest" for trade in trades)
    if "trades" in live.exchange.consecutive:
        assert [b.id - a.id for a, b in pairwise(trades)] == [1] * (len(trades) - 1)
    await live.judged(symbol, trades)


@on_one_loop
async def test_23_old_trades_are_paged_without_a_hole_or_a_repetition(live: Live) -> None:
    symbol, rest = live.symbols[0], live.exchange.rest(live.info.symbols)
    latest = (await live.gateway.fetch(rest.recent_trades(symbol, 1)))[-1]
    back = {
        "from_id": latest.id - 5_000,
        "after_ns": (latest.at_ms - 600_000) * 1_000_000,
        "before_id": latest.id,
    }
    cursor = back[live.exchange.trade_pages]
    pages = []
    for _ in range(3):
        page = await live.gateway.fetch(rest.trades(symbol, cursor))
        if not page.trades:
            break
        assert page.next != cursor
        cursor = page.next
        pages.append(page.trades)
    if live.exchange.trade_pages == "before_id":
        pages.reverse()
    ids = [trade.id for page in pages for trade in page]

    assert ids
    assert len(set(ids)) == len(ids)
    if "trades" in live.exchange.consecutive:
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    await live.judged(symbol, [trade for page in pages for trade in page])
    assert all(trade.source == "backfill" for page in pages for trade in page)


@on_one_loop
async def test_24_candles_are_those_the_trades_make(live: Live) -> None:
    symbol, now_ms = live.symbols[0], SystemClock().now_ms()
    end_ms = MINUTE.open_of(now_ms) - MINUTE_MS
    start_ms = end_ms - 10 * MINUTE_MS
    request = live.exchange.rest(live.info.symbols).candles(symbol, MINUTE, start_ms, end_ms)
    candles = await live.gateway.fetch(request)
    truth = await live.truth("candles", symbol, start_ms=start_ms, end_ms=end_ms, step_ms=MINUTE_MS)

    by_start = {row["start_ms"]: row for row in truth}
    opens = [candle.open_ms for candle in candles]
    assert opens == sorted(set(opens))
    assert {*opens} <= set(MINUTE.opens(start_ms, end_ms))
    if live.exchange.empty_candles:
        assert len(candles) == 10
    else:
        assert {*opens} >= {start for start, row in by_start.items() if row["trades"]}
    for candle in candles:
        row = by_start[candle.open_ms]
        assert candle.closed
        assert candle.close_ms == candle.open_ms + MINUTE_MS - 1
        told = [candle.open, candle.high, candle.low, candle.close, candle.volume]
        for number, name in zip(told, ("open", "high", "low", "close", "volume"), strict=True):
            assert number == type(number)(str(row[name])), name
    for candle in candles:
        if candle.vwap is not None and candle.trades:
            assert candle.low <= candle.vwap <= candle.high
        if candle.taker_buy_volume is not None:
            assert 0 <= candle.taker_buy_volume <= candle.volume


@on_one_loop
async def test_25_a_book_is_sorted_and_not_crossed(live: Live) -> None:
    rest = live.exchange.rest(live.info.symbols)
    book = await live.gateway.fetch(rest.book(live.symbols[0], 10))
    bids, asks = [price for price, _ in book.bids], [price for price, _ in book.asks]

    assert len(bids) >= 10 <= len(asks)
    assert bids == sorted(bids, reverse=True)
    assert asks == sorted(asks)
    assert bids[0] < asks[0]


@on_one_loop
async def test_26_tickers_are_of_the_markets_asked_for(live: Live) -> None:
    rest = live.exchange.rest(live.info.symbols)
    tickers = await live.gateway.fetch(rest.tickers(live.symbols[:2]))

    assert {ticker.symbol for ticker in tickers} == set(live.symbols[:2])
    assert all(ticker.last is not None and ticker.last > 0 for ticker in tickers)


@on_one_loop
async def test_27_a_market_that_is_gone_is_a_bad_request(live: Live) -> None:
    gone = Symbol("GONE", "USD")
    native = live.info.symbols.native(live.symbols[0])[:-1] + "X"
    rest = live.exchange.rest(SymbolMap(live.exchange.name, [(native, gone)]))
    with pytest.raises(BadRequest):
        await live.gateway.fetch(rest.book(gone, 10))


@asynccontextmanager
async def streaming(live: Live) -> AsyncIterator[tuple[Shard, list[Event]]]:
    """A connection to the simulator for two markets, and everything it brings."""
    dialect, rest = live.exchange.dialect(live.info.symbols), live.exchange.rest(live.info.symbols)
    symbols, seen = tuple(live.symbols[:2]), list[Event]()
    wanted = [Subscription(each, symbols) for each in ("trades", "book_deltas", "tickers")]
    make, stop = partial(live.exchange.dialect, live.info.symbols), asyncio.Event()
    shard = Shard(live.exchange.name, make, wanted, lambda: 0.5)

    async def record(events: Sequence[Event]) -> None:
        seen.extend(events)

    async def fetch_book(command: FetchSnapshot, _: Callable[[], bool]) -> BookSnapshot:
        return await live.gateway.fetch(rest.book(command.symbol, Collect().book_depth))

    endpoint = Endpoint(live.exchange.name, dialect.url(f"ws://{live.address}"), 30.0)
    session = Session(shard, endpoint, SessionHooks(record, fetch_book), SystemClock())
    running = asyncio.create_task(session.run(stop))
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield shard, seen
    finally:
        stop.set()
        await running


def _shown(symbol: Symbol, sync: BookView) -> BookSnapshot | None:
    """What a book says it is; None while it is not synced, or its price has left what is known."""
    if sync.state != "synced" or sync.levels is None:
        return None
    bids, asks = KnownDepth(Collect().book_depth).ends(sync).known(sync.levels.texts(10))
    if not len(bids) == len(asks) == 10:
        return None
    return BookSnapshot(
        exchange="", symbol=symbol, received_at_ns=0, update_id=sync.update_id, at_ns=sync.at_ns,
        bids_raw=write_levels(bids), asks_raw=write_levels(asks),
    )  # fmt: skip


@on_one_loop
async def test_28_streams_bring_every_kind_and_books_that_are_right(live: Live) -> None:
    async with streaming(live) as (shard, seen):
        while not _all_kinds(seen, shard):  # noqa: ASYNC110 (nobody tells when)
            await asyncio.sleep(0.05)
        shown = {symbol: _shown(symbol, sync) for symbol, sync in shard.books.items()}

    assert not shard.stats.malformed, list(shard.stats.quarantine)
    assert not shard.stats.refusals
    for symbol, book in shown.items():
        assert book is not None
        trades = [each for each in seen if isinstance(each, Trade) and each.symbol is symbol]
        counted = trades if "trades" in live.exchange.consecutive else []
        await live.judged(symbol, [*counted, book])


def _all_kinds(seen: Sequence[Event], shard: Shard) -> bool:
    kinds = {(type(event), event.symbol) for event in seen}
    return all(
        sync.state == "synced"
        and (Trade, symbol) in kinds
        and (Ticker, symbol) in kinds
        and ((BookDelta, symbol) in kinds or (BookSnapshot, symbol) in kinds)
        for symbol, sync in shard.books.items()
    )


@on_one_loop
async def test_29_with_frames_lost_and_spoilt_no_book_that_is_shown_is_wrong(live: Live) -> None:
    shown: dict[Symbol, list[BookSnapshot]] = {symbol: [] for symbol in live.symbols[:2]}
    books_tell = live.exchange.dialect(live.info.symbols).books.shows_loss
    # Where nothing tells of a lost frame, only the exchange's word is between a book and a loss.
    await live.plan_faults("malformed=0.02,nan=0.02" + (",drop=0.1" if books_tell else ""))
    try:
        async with streaming(live) as (shard, _), asyncio.timeout(PATIENCE_S):
            while not shard.stats.malformed or min(map(len, shown.values())) < 30:
                await asyncio.sleep(0.1)
                for symbol, sync in shard.books.items():
                    if (book := _shown(symbol, sync)) is not None:
                        shown[symbol].append(book)
    finally:
        await live.plan_faults("")

    assert shard.stats.malformed
    assert shard.state == "disconnected", "it was stopped, not lost"
    for symbol, books in shown.items():
        assert books
        await live.judged(symbol, books[:: max(1, len(books) // 10)])


@on_one_loop
async def test_30_a_probe_tells_that_a_market_has_moved(live: Live) -> None:
    symbol, rest = live.symbols[0], live.exchange.rest(live.info.symbols)
    channels = ("trades", "book_deltas", "tickers")
    before = {each: await live.gateway.fetch(rest.latest(symbol, each)) for each in channels}
    latest = (await live.gateway.fetch(rest.recent_trades(symbol, 1)))[-1]

    assert all(mark.state for mark in before.values())
    assert before["trades"].id is not None
    assert before["trades"].id <= latest.id
    async with asyncio.timeout(PATIENCE_S):
        for channel, mark in before.items():
            look = rest.latest(symbol, channel)
            while (now := await live.gateway.fetch(look)) == mark:  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.2)
            assert now.id is None or mark.id is None or now.id > mark.id


@on_one_loop
async def test_31_the_simulator_refused_nothing_for_haste(live: Live) -> None:
    async with live.http.get(f"http://{live.address}/_sim/requests") as answer:
        rows = (await answer.json())["requests"]

    assert rows
    assert not [row for row in rows if row["status"] in (418, 429)]
