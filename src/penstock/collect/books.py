"""The books' caretaker: everything about books that needs the exchange's REST side, or time.

It fetches the snapshots that books are begun from, knows how far down each is known, and records
what they show now and then, so that readers have a place to begin from.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.clock import Clock
from penstock.collect.horizon import Horizon
from penstock.config import Collect
from penstock.exchanges.base import Rest
from penstock.exchanges.gateway import Gateway
from penstock.market.events import AnyEvent, BookSnapshot
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol
from penstock.streaming.book_sync import BookSync
from penstock.streaming.streamed_book import StreamedBook

Books = Mapping[Symbol, BookSync | StreamedBook]


@dataclass
class BookKeeper:
    """Takes care of one exchange's books."""

    gateway: Gateway
    rest: Rest
    books: Callable[[], Books]
    """All there are at the moment."""
    record: Callable[[Sequence[AnyEvent]], Awaitable[object]]
    clock: Clock
    settings: Collect
    _horizon: Horizon = field(init=False)

    def __post_init__(self) -> None:
        self._horizon = Horizon(self.settings.book_depth)

    async def run(self) -> None:
        """Record what the books show, now and then, for ever."""
        while True:
            await self.clock.sleep(self.settings.book_every)
            await self.record_shown()

    async def fetch(self, symbol: Symbol) -> BookSnapshot:
        """A snapshot for a book to begin from.

        Raises:
            ExchangeError, ExchangeUnreachable, UnexpectedAnswer: it could not be had.
        """
        snapshot = await self.gateway.fetch(self.rest.book(symbol, self.settings.book_depth))
        if self.books()[symbol].state != "synced":  # else it comes too late to be joined
            self._horizon.note(snapshot)
        return snapshot

    async def record_shown(self) -> None:
        """Record what the synced books show: a place for readers to begin from."""
        shown = []
        for symbol, sync in self.books().items():
            if sync.state != "synced" or sync.book is None:
                continue
            all_bids, all_asks = sync.book.texts(self.settings.book_levels)
            bids, asks = self._horizon.known(symbol, all_bids, all_asks)
            if (all_bids and not bids) or (all_asks and not asks):
                sync.distrust("the price has left all that the snapshot showed")
            else:
                shown.append(self._shown(symbol, sync, bids, asks))
        await self.record(shown)

    def _shown(
        self,
        symbol: Symbol,
        sync: BookSync | StreamedBook,
        bids: list[LevelText],
        asks: list[LevelText],
    ) -> BookSnapshot:
        return BookSnapshot(
            exchange=self.gateway.exchange.name,
            symbol=symbol,
            received_at_ns=self.clock.now_ns(),
            update_id=sync.update_id,
            at_ms=sync.at_ms,
            bids_raw=write_levels(bids),
            asks_raw=write_levels(asks),
        )
