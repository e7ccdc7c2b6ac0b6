"""Fetches book snapshots, in the order of the queue and within the budget."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from penstock.books.book import Sides
from penstock.collect.snapshot_queue import SnapshotQueue, Urgency
from penstock.exchanges.base import ExchangeClient, Rest
from penstock.market.events import BookSnapshot
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol

_AUDITS_SHARE = 0.2
"""The share of every limit that audits use at most."""


@dataclass(frozen=True)
class SnapshotFetcher:
    """Fetches books of ``depth`` levels from one exchange."""

    gateway: ExchangeClient
    rest: Rest
    depth: int
    queue: SnapshotQueue

    @property
    def exchange(self) -> str:
        """The exchange's name."""
        return self.gateway.exchange.name

    def turn(self, symbol: Symbol, urgency: Urgency) -> AbstractAsyncContextManager[None]:
        """Wait for a turn; see ``SnapshotQueue``."""
        return self.queue.turn(symbol, urgency)

    async def fetch(self, symbol: Symbol) -> BookSnapshot:
        """Fetch a snapshot. To be called within a turn.

        Raises:
            One of ``UNAVAILABLE``: it could not be fetched.
        """
        return await self.gateway.fetch(self.rest.book(symbol, self.depth))

    def audit_gap_s(self, symbol: Symbol) -> float:
        """Seconds between audits that leave most of the budget to other requests."""
        request = self.rest.book(symbol, self.depth)
        return max(
            (
                limit.charge(request.cost, request.category) * limit.period_ms / 1000
                / (limit.amount * _AUDITS_SHARE)
                for limit in self.gateway.gate.used()
                if not limit.is_for_each
            ),
            default=0.0,
        )  # fmt: skip

    def shown(
        self, symbol: Symbol, sides: Sides, update_id: int, at_ns: int | None
    ) -> BookSnapshot:
        """The levels of a maintained book, as a record."""
        bids, asks = sides
        return BookSnapshot(
            exchange=self.exchange,
            symbol=symbol,
            received_at_ns=self.gateway.clock.now_ns(),
            update_id=update_id,
            at_ns=at_ns,
            bids_raw=write_levels(bids),
            asks_raw=write_levels(asks),
        )
