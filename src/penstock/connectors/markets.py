"""Fetches the market listing of each exchange once for the whole fleet.

A process that fetches a listing stores it, with the time. Others read it from the store. A listing
that is too old is fetched again; if the exchange is not available then, the old one is used.
Markets that were listed or delisted in between are reported as a fact.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from penstock.connectors.facts import MarketsChanged
from penstock.connectors.limits import restored, stored
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import ExchangeClient, Info
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails, SymbolMap
from penstock.market.interval import DAY_MS
from penstock.market.symbol import Symbol
from penstock.storage.state import Document, StateStore
from penstock.storage.state.schema import MARKETS
from penstock.telemetry import Listener, quiet
from penstock.throttle.gate import Limit

# Another process may have refreshed them meanwhile: the store is read again after this time.
_LOOK_AGAIN_MS = 60_000


class Gateways(Protocol):
    """The clients of exchanges; each is charged to the fleet's budget."""

    async def of(self, exchange_id: str) -> ExchangeClient: ...


class ListingChange(NamedTuple):
    """The markets that an exchange lists now and did not before, and the reverse."""

    listed: frozenset[Symbol]
    delisted: frozenset[Symbol]


class ExchangeListing(NamedTuple):
    """The markets of an exchange when its listing was last fetched."""

    exchange_id: str
    refreshed_at: int
    """When it was fetched, by the store's clock (ms)."""
    timeframes: tuple[str, ...]
    """The available candle lengths; empty if an older version fetched the listing."""
    markets: tuple[ListedMarket, ...]


class Markets:
    """The listings of exchanges. ``oldest_ms`` is the age at which one is fetched again."""

    def __init__(
        self,
        store: StateStore,
        gateways: Gateways,
        listener: Listener = quiet,
        *,
        oldest_ms: int = DAY_MS,
    ) -> None:
        self._store, self._gateways, self._emit = store, gateways, listener
        self._oldest_ms = oldest_ms
        self._known: dict[str, tuple[int, SymbolMap]] = {}
        """By exchange: when the store was read, and the symbols."""
        self._asking: dict[str, asyncio.Task[SymbolMap]] = {}
        """By exchange: the fetch in progress, whose result all concurrent callers share."""

    async def of(self, exchange_id: str) -> SymbolMap:
        """An exchange's symbols from the stored listing, which is fetched if it is too old.

        Raises:
            StorageError: the store cannot be read.
            One of ``UNAVAILABLE``: none is stored, and the exchange is not available now.
        """
        now_ms = await self._store.now_ms()
        looked_ms, symbols = self._known.get(exchange_id, (0, None))
        if symbols is not None and now_ms - looked_ms < _LOOK_AGAIN_MS:
            return symbols
        if exchange_id not in self._asking:
            asking = asyncio.create_task(self._look(exchange_id, now_ms))
            self._asking[exchange_id] = asking
            asking.add_done_callback(lambda task: self._answered(exchange_id, task))
        # Shielded: a cancelled caller does not cancel the fetch for the others.
        return await asyncio.shield(self._asking[exchange_id])

    async def aclose(self) -> None:
        """End the fetches in progress, which outlive their callers."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _answered(self, exchange_id: str, task: asyncio.Task[SymbolMap]) -> None:
        del self._asking[exchange_id]
        if not task.cancelled():
            task.exception()  # callers that still wait get it; if there are none, it is not logged

    async def _look(self, exchange_id: str, now_ms: int) -> SymbolMap:
        document = await self._store.get(MARKETS, exchange_id)
        if document is None or now_ms - document["refreshed_at"] >= self._oldest_ms:
            try:
                await self.refresh(exchange_id, await self._ask(exchange_id))
                return self._known[exchange_id][1]
            except UNAVAILABLE:
                if document is None:
                    raise
        symbols = _read(document)
        self._known[exchange_id] = (now_ms, symbols)
        return symbols

    async def stored(self, exchange_id: str) -> tuple[ListedMarket, ...]:
        """The markets in the stored listing of an exchange. Nothing is fetched.

        Raises:
            StorageError: the store cannot be read.
        """
        document = await self._store.get(MARKETS, exchange_id)
        return _read(document).listed if document is not None else ()

    async def renew(self, exchange_id: str) -> None:
        """Fetch the listing of an exchange and store it.

        Raises:
            StorageError: the store cannot be reached.
            One of ``UNAVAILABLE``: the exchange is not available now.
        """
        await self.refresh(exchange_id, await self._ask(exchange_id))

    async def refresh(self, exchange_id: str, info: Info) -> ListingChange:
        """Store a listing that was just fetched; the changes since the previous one."""
        now_ms = await self._store.now_ms()
        new, before = _written(exchange_id, info, now_ms), list[Document]()

        def renewed(document: Document) -> Document:
            before[:] = [document]
            return new

        if not (await self._store.insert_if_absent(MARKETS, new)).created:
            await self._store.update(MARKETS, exchange_id, renewed)
        self._known[exchange_id] = (now_ms, info.symbols)
        if not before:
            return ListingChange(frozenset(), frozenset())
        old, present = frozenset(_read(before[0])), frozenset(info.symbols)
        change = ListingChange(present - old, old - present)
        if change.listed or change.delisted:
            listed, delisted = _slugs(change.listed), _slugs(change.delisted)
            self._emit(MarketsChanged(exchange=exchange_id, listed=listed, delisted=delisted))
        return change

    async def _ask(self, exchange_id: str) -> Info:
        return await (await self._gateways.of(exchange_id)).learn()


async def stored_listing(store: StateStore, exchange_id: str) -> ExchangeListing | None:
    """The stored listing of an exchange; None if it was never fetched."""
    document = await store.get(MARKETS, exchange_id)
    if document is None:
        return None
    timeframes = tuple(document.get("timeframes", ()))
    return ExchangeListing(
        exchange_id, document["refreshed_at"], timeframes, _read(document).listed
    )


async def announced_limits(store: StateStore, exchange_id: str) -> tuple[Limit, ...]:
    """The limits in the stored listing of an exchange; empty if it was never fetched."""
    document = await store.get(MARKETS, exchange_id)
    return restored(document["limits"]) if document else ()


def _slugs(symbols: Iterable[Symbol]) -> tuple[str, ...]:
    return tuple(sorted(symbol.slug for symbol in symbols))


class _Row(NamedTuple):
    native: str
    slug: str
    streamed: str
    typed: tuple[str, ...]


class _DetailsRow(NamedTuple):
    """Stored apart from the names, which processes of older versions read too."""

    native: str
    tick_size: str | None
    lot_size: str | None
    status: str | None


def _written(exchange_id: str, info: Info, at_ms: int) -> Document:
    symbols, limits, timeframes = info
    rows = [_Row(one.native, one.symbol.slug, one.streamed, one.typed) for one in symbols.listed]
    details = [_DetailsRow(one.native, *one.details) for one in symbols.listed if any(one.details)]
    return {
        "id": exchange_id,
        "exchange_id": exchange_id,
        "refreshed_at": at_ms,
        "symbols": msgspec.to_builtins(rows),
        "details": msgspec.to_builtins(details),
        "timeframes": list(timeframes),
        "limits": stored(limits),
    }


_NONE = MarketDetails()


def _read(document: Document) -> SymbolMap:
    rows = msgspec.convert(document["symbols"], list[_Row])
    detail_rows = msgspec.convert(document.get("details", []), list[_DetailsRow])
    details = {each.native: MarketDetails(*each[1:]) for each in detail_rows}
    listed = [
        ListedMarket(
            r.native, Symbol.parse(r.slug), r.streamed, r.typed, details.get(r.native, _NONE)
        )
        for r in rows
    ]
    return SymbolMap(document["exchange_id"], listed)
