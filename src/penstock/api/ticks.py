"""Routes for the latest ticks: a list, one market, and a WebSocket of changes.

A stream needs bounded memory per client: the newest tick of each market that waits to be sent, and
one batch that is being sent. A client that does not read is disconnected.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import msgspec
from litestar import Response, get
from litestar.exceptions import HTTPException
from litestar.params import FromPath
from litestar.response.base import ASGIResponse
from litestar.types import HTTPScope, Receive, Send
from msgspec import UNSET, Struct, UnsetType

from penstock.api.app_state import AppState, GivenState, json_answer, page_answer
from penstock.api.credentials import Granted, granted_to
from penstock.api.live_ticks import MOST_STREAMS, LiveTicks
from penstock.api.problems import AnyRequest, ProblemError
from penstock.api.reading import After, Limit, Word, page_start, query_of
from penstock.api.sessions import SESSION_ENDED
from penstock.api.views import tick_view
from penstock.clock import Clock
from penstock.connectors.markets import stored_listing
from penstock.errors import StorageError, UnknownSymbol
from penstock.exchanges.symbol_map import SymbolMap
from penstock.live import Tick, TickCache
from penstock.market.symbol import Symbol
from penstock.web import WebSocket, websocket_of

MOST_TICKS = 200
"""Ticks in one message, about 64 KiB."""
_GOING_AWAY, _FAILED = 1001, 1011


class TickQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which markets' ticks to stream."""

    exchange: Word | UnsetType = UNSET
    symbol: Word | UnsetType = UNSET
    """In any spelling: btc_usdt, BTC/USDT, or with an exchange its own."""


class TickFilters(TickQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ticks to list."""

    limit: Limit = 100
    after: After | UnsetType = UNSET


@get("/ticks")
async def listed(request: AnyRequest, app_state: GivenState) -> Response[bytes]:
    """List the latest ticks, by exchange and symbol."""
    asked = query_of(request, TickFilters)
    after = page_start(asked.after or None) or ""
    symbol = await _symbol(app_state, asked.exchange or None, asked.symbol or None)
    cache = await _offered(app_state).cache()
    ticks = [
        tick
        for tick in await cache.get_all(asked.exchange or None)
        if tick.key > after and symbol in (None, tick.symbol)
    ]
    return page_answer(request, ticks, asked.limit, tick_view, lambda tick: tick.key)


@get("/ticks/{exchange_id:str}/{symbol:path}")
async def shown(
    app_state: GivenState, exchange_id: FromPath[str], symbol: FromPath[str]
) -> Response[bytes]:
    """Show the latest tick of a market, with its symbol in any spelling."""
    ticks = _offered(app_state)
    wanted = await _symbol(app_state, exchange_id, symbol.removeprefix("/"))
    assert wanted is not None
    tick = await (await ticks.cache()).get_ticker(wanted, exchange_id)
    if tick is None:
        raise ProblemError(
            404,
            f"There is no tick of {wanted} on {exchange_id!r} of the last {ticks.ttl_s:g} s."
            " GET /api/v1/ticks lists what there is.",
        )
    return json_answer(tick_view(tick))


class _TickStream(ASGIResponse):
    """Opens a WebSocket, and sends ticks until a side ends it."""

    def __init__(
        self, app_state: AppState, cache: TickCache, exchange: str | None, symbol: Symbol | None
    ) -> None:
        super().__init__(status_code=101)
        self._app_state, self._cache = app_state, cache
        self._exchange, self._symbol = exchange, symbol

    async def __call__(self, scope: HTTPScope, receive: Receive, send: Send) -> None:  # type: ignore[override] # noqa: ARG002
        socket, ticks = websocket_of(scope), _offered(self._app_state)
        assert socket is not None
        ticks.streams += 1
        try:
            # A client that has disconnected, or a store that was closed, ends the stream.
            with suppress(OSError, StorageError):
                await send({"type": "http.response.start", "status": 101, "headers": []})
                await self._stream(socket, granted_to(scope))
        finally:
            ticks.streams -= 1

    async def _stream(self, socket: WebSocket, granted: Granted) -> None:
        code, clock = _FAILED, self._app_state.clock
        async with self._cache.subscribe(self._exchange, self._symbol) as batches:
            sending = asyncio.create_task(send_ticks(socket.send, batches, self._cache, clock))
            ends = [
                sending,
                asyncio.create_task(socket.wait_closed()),
                asyncio.create_task(self._app_state.closing.wait()),
                asyncio.create_task(granted.until_ended(clock)),
            ]
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    code = _GOING_AWAY if granted.is_valid() else SESSION_ENDED
            finally:
                for end in ends:
                    end.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
        await socket.close(code)
        if code == _FAILED:
            await sending


async def send_ticks(
    send: Callable[[bytes], Awaitable[None]],
    batches: AsyncIterator[list[Tick]],
    cache: TickCache,
    clock: Clock,
) -> None:
    """Send batches as messages. What expires before it is sent is left out."""
    async for batch in batches:
        read_ns = clock.monotonic_ns()
        for part in (batch[at : at + MOST_TICKS] for at in range(0, len(batch), MOST_TICKS)):
            # A slow client gets the last of a large batch long after it was read.
            waited_ms = (clock.monotonic_ns() - read_ns) // 1_000_000
            aged = (cache.aged(tick, waited_ms) for tick in part)
            if fresh := [tick_view(tick) for tick in aged if tick is not None]:
                await send(msgspec.json.encode(fresh))


@get("/ticks/stream")
async def streamed(request: AnyRequest, app_state: GivenState) -> _TickStream:
    """Open a WebSocket: the latest ticks, then the newest of each market that changed."""
    asked = query_of(request, TickQuery)
    if websocket_of(request.scope) is None:
        raise HTTPException(
            detail="This is a WebSocket. Open it with a WebSocket client.",
            status_code=426,
            headers={"Upgrade": "websocket"},
        )
    ticks = _offered(app_state)
    symbol = await _symbol(app_state, asked.exchange or None, asked.symbol or None)
    cache = await ticks.cache()
    if ticks.streams >= MOST_STREAMS:
        raise ProblemError(503, f"{MOST_STREAMS} streams of ticks are open. Try again later.")
    return _TickStream(app_state, cache, asked.exchange or None, symbol)


ROUTES = [listed, streamed, shown]


def _offered(app_state: AppState) -> LiveTicks:
    if app_state.ticks is None:
        raise ProblemError(404, "This server offers no ticks.")
    return app_state.ticks


async def _symbol(app_state: AppState, exchange: str | None, text: str | None) -> Symbol | None:
    """The symbol that a client means; the exchange's own spellings are looked up first.

    Raises:
        MalformedSymbol: it is none.
    """
    if text is None:
        return None
    listing = await stored_listing(app_state.store, exchange) if exchange else None
    if listing is not None:
        # A market that is not listed any more may still have a tick.
        with suppress(UnknownSymbol):
            return SymbolMap(listing.exchange_id, listing.markets).find(text)
    return Symbol.parse(text)
