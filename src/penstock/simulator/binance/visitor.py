"""A visitor: the plainest client there can be, reading trades and books over aiohttp.

It does what the exchange's documentation tells a client to do and no more: open the combined
stream, buffer the deltas, ask for a snapshot, drop what it already holds, apply the rest. It does
not reconnect and does not fill gaps. The demo runs it, and the judge looks at what it has.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import aiohttp
import msgspec

from penstock.market.book import OrderBook
from penstock.market.symbol import Symbol
from penstock.simulator.judge import SeenBook, SeenTrade

_SNAPSHOT_LEVELS = 1000


class Visitor:
    """Reads trades and keeps books for some symbols."""

    def __init__(
        self, http: aiohttp.ClientSession, address: str, symbols: Sequence[Symbol]
    ) -> None:
        self._http, self._address = http, address
        self._symbols = {symbol.base + symbol.quote: symbol for symbol in symbols}
        self.trades: dict[str, list[SeenTrade]] = {symbol.slug: [] for symbol in symbols}
        self._books = {native: _Book() for native in self._symbols}
        self.frames = 0

    async def run(self) -> None:
        """Read until cancelled."""
        streams = "/".join(
            f"{native.lower()}@{kind}"
            for native in self._symbols
            for kind in ("trade", "depth@100ms")
        )
        url = f"{self._address}/stream"
        async with (
            self._http.ws_connect(url, params={"streams": streams}) as socket,
            asyncio.TaskGroup() as snapshots,
        ):
            for native, book in self._books.items():
                snapshots.create_task(self._sync(native, book))
            async for message in socket:
                self._read(msgspec.json.decode(message.data)["data"])

    def books(self) -> dict[str, SeenBook | None]:
        """The books as they stand; None where a book is not synced."""
        return {self._symbols[native].slug: book.seen() for native, book in self._books.items()}

    def _read(self, payload: dict[str, Any]) -> None:
        self.frames += 1
        native = payload["s"]
        if payload["e"] == "trade":
            self.trades[self._symbols[native].slug].append(
                SeenTrade(
                    id=payload["t"],
                    at_ms=payload["T"],
                    price=Decimal(payload["p"]),
                    quantity=Decimal(payload["q"]),
                    taker_buys=not payload["m"],
                )
            )
        else:
            self._books[native].change(payload)

    async def _sync(self, native: str, book: "_Book") -> None:
        # The stream must run before the snapshot is taken, or there is nothing to join it with.
        await book.first_delta.wait()
        query: dict[str, str | int] = {"symbol": native, "limit": _SNAPSHOT_LEVELS}
        while not book.synced:
            async with self._http.get(f"{self._address}/api/v3/depth", params=query) as answer:
                answer.raise_for_status()
                book.begin(msgspec.json.decode(await answer.read()))


class _Book:
    """One symbol's book: deltas are buffered until a snapshot joins them."""

    def __init__(self) -> None:
        self._book = OrderBook()
        self._buffer: list[dict[str, Any]] = []
        self._update_id = 0
        self._range = (Decimal(0), Decimal(0))
        self.first_delta = asyncio.Event()
        self.synced = False

    def begin(self, snapshot: dict[str, Any]) -> None:
        if snapshot["lastUpdateId"] + 1 < self._buffer[0]["U"]:
            return  # older than the first delta: the caller asks again
        self._update_id = snapshot["lastUpdateId"]
        self._book.load(snapshot["bids"], snapshot["asks"])
        self._range = Decimal(snapshot["bids"][-1][0]), Decimal(snapshot["asks"][-1][0])
        self.synced = True
        buffered, self._buffer = self._buffer, []
        for delta in buffered:
            self.change(delta)

    def change(self, delta: dict[str, Any]) -> None:
        self.first_delta.set()
        if not self.synced:
            self._buffer.append(delta)
        elif delta["u"] > self._update_id:
            if delta["U"] > self._update_id + 1:
                self.synced = False  # a gap: this client does not mend it, and says so
                return
            self._book.apply(delta["b"], delta["a"])
            self._update_id = delta["u"]

    def seen(self) -> SeenBook | None:
        if not self.synced:
            return None
        return SeenBook(
            self._update_id, list(self._book.bids()), list(self._book.asks()), *self._range
        )


async def visit(
    http: aiohttp.ClientSession, address: str, symbols: Sequence[Symbol], until: asyncio.Event
) -> Visitor:
    """Visit the simulator at ``address`` until told to leave."""
    visitor = Visitor(http, address, symbols)
    reading = asyncio.create_task(visitor.run())
    leaving = asyncio.create_task(until.wait())
    await asyncio.wait({reading, leaving}, return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    return visitor
