"""Finds the ids of a range of trades: those of times, of the first trade and of the newest.

Ids are searched for by time with few requests: a page shows the times of a thousand ids, and the
next page is where the time would be if trades were evenly spread.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.errors import BadJob, UnexpectedAnswer
from penstock.exchanges.base import Exchange
from penstock.ingest.history import iso
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.trade_pages import Fetch, NumberedTrade
from penstock.ingest.trade_range import TradesCursor
from penstock.market.channels import TRADES

_MS_NS = 1_000_000
# Every third page is in the middle, so that unevenly spread trades cost few requests more.
_MIDDLE_EVERY = 3


class Resolved(NamedTuple):
    """The ids of a range."""

    ids: IdRange
    note: str = ""
    """What of the range does not exist."""
    starts_history: bool = False
    """Whether it begins with the market's first trade."""


@dataclass(frozen=True)
class TradeBounds:
    """The search in one market."""

    exchange: Exchange
    fetch: Fetch
    newest: Callable[[], Awaitable[int | None]]
    """Requests the id of the newest trade."""
    now_ms: int
    """By the exchange's clock."""

    async def resolve(self, cursor: TradesCursor) -> Resolved:
        """The ids of the range that a client asked for.

        Raises:
            BadJob: it is in the future, or the market has no trades.
        """
        for name, at_ms in (("since_ms", cursor.since_ms), ("until_ms", cursor.until_ms)):
            if at_ms is not None and at_ms > self.now_ms:
                raise BadJob(f"cursor.{name}", f"{at_ms} is in the future")
        if (id_at := self.exchange.trade_id_at) is not None:
            first = cursor.from_id if cursor.from_id is not None else id_at(cursor.since_ms or 0)
            until_ms = self.now_ms if cursor.until_ms is None else cursor.until_ms
            last = cursor.to_id if cursor.to_id is not None else id_at(until_ms) - 1
            return Resolved(IdRange(first, last))
        newest = await self.newest()
        if newest is None or newest < 0:
            raise BadJob("symbol", f"{self.exchange.name} has no trades of this market")
        for name, number in (("from_id", cursor.from_id), ("to_id", cursor.to_id)):
            if number is not None and number > newest:
                raise BadJob(f"cursor.{name}", f"{number} is after the newest trade, {newest}")
        oldest = await self._oldest(newest)
        first, note = await self._first(cursor, oldest, newest)
        last = newest if cursor.to_id is None else cursor.to_id
        if cursor.until_ms is not None:
            last = await self._id_at(cursor.until_ms, oldest, newest) - 1
        if last < first and not note:
            note = "there are no trades in this range"
        return Resolved(IdRange(first, last), note, first == oldest.id)

    async def _first(
        self, cursor: TradesCursor, oldest: NumberedTrade, newest: int
    ) -> tuple[int, str]:
        note = f"the first trade has the id {oldest.id} and the time {iso(oldest.at_ms)}"
        if cursor.since_ms is not None:
            if cursor.since_ms < oldest.at_ms:
                return oldest.id, f"the range begins before the listing: {note}"
            return await self._id_at(cursor.since_ms, oldest, newest), ""
        if cursor.from_id is not None and cursor.from_id < oldest.id:
            return oldest.id, f"the range begins before the listing: {note}"
        return oldest.id if cursor.from_id is None else cursor.from_id, ""

    async def _oldest(self, newest: int) -> NumberedTrade:
        if self.exchange.trade_pages != "before_id":
            page = await self.fetch(0)
            if not page.trades:
                raise UnexpectedAnswer(f"{self.exchange.name} has a trade {newest}, but no first")
            return page.trades[0]
        # No trade has an id up to ``low``, and there is one at ``high``.
        low, high, found = -1, newest + 1, None
        before = min(self.exchange.trade_page_size, newest) + 1
        while high - low > 1:
            trades = await self._page(before)
            if trades:
                found, high = trades[0], trades[0].id
            else:
                low = before - 1
            before = (low + high) // 2 + 1
        if found is None:
            raise UnexpectedAnswer(f"{self.exchange.name} has a trade {newest}, but no first")
        return found

    async def _id_at(self, at_ms: int, oldest: NumberedTrade, newest: int) -> int:
        """The lowest id of a trade at or after a time; above the newest if there is none."""
        if at_ms <= oldest.at_ms:
            return oldest.id
        if self.exchange.trade_pages == "after_ns":
            return await self._id_after(at_ms, newest)
        # Trades up to ``low`` are before the time, those from ``high`` on are not.
        low, low_ms, high, high_ms = oldest.id, oldest.at_ms, newest + 1, self.now_ms
        goes_back = self.exchange.trade_pages == "before_id"
        half, requests = self.exchange.trade_page_size // 2, 0
        while high - low > 1:
            requests += 1
            share = (at_ms - low_ms) / max(1, high_ms - low_ms)
            if requests % _MIDDLE_EVERY == 0:
                share = 0.5
            guess = low + int((high - low) * share)
            if goes_back:
                start = min(max(guess + half, low + 2), high)
            else:
                start = min(max(guess - half, low + 1), high - 1)
            trades = await self._page(start)
            late = next((each for each in trades if each.at_ms >= at_ms), None)
            if late is not None and late is not trades[0]:
                return late.id
            if late is None and (trades or goes_back):
                low = start - 1 if goes_back else trades[-1].id
                low_ms = trades[-1].at_ms if trades else low_ms
            else:
                high = late.id if late is not None and goes_back else start
                high_ms = late.at_ms if late is not None else high_ms
        return high

    async def _page(self, start: int) -> Sequence[NumberedTrade]:
        """The page from an id on, or before it."""
        trades = (await self.fetch(start)).trades
        goes_back = self.exchange.trade_pages == "before_id"
        if any((each.id < start) != goes_back for each in trades):
            where = "before" if goes_back else "from"
            raise UnexpectedAnswer(f"a page {where} id {start} has others: {trades[0].id}")
        return trades

    async def _id_after(self, at_ms: int, newest: int) -> int:
        start_ns = at_ms * _MS_NS - 1
        while True:
            page = await self.fetch(start_ns)
            late = next((each.id for each in page.trades if each.at_ms >= at_ms), None)
            if late is not None:
                return late
            if page.next <= start_ns:
                return newest + 1
            start_ns = page.next


def is_dense(exchange: Exchange) -> bool:
    """Whether every page of a range of ids can be requested at once: ids show where it begins."""
    return TRADES.name in exchange.consecutive and exchange.trade_pages != "after_ns"
