"""Requests old trades page by page, for each way in which exchanges page through them.

A page is a proof: of the ids that it covers, those that it lacks do not exist. By id, a page covers
all ids from the requested one to its last trade; pages that go back, from their first trade to the
requested id. By time, it covers the ids from the first one wanted only if it begins with a trade
that is not later than that one, or with the market's first trade.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from penstock.errors import UnexpectedAnswer
from penstock.ingest.id_ranges import IdRange, IdRangeCursor
from penstock.market.events import AggTrade, Trade

_MS_NS = 1_000_000
# How far the search for the time of an id first goes back, and how much further each time.
_FIRST_STEP_NS = 1_000 * _MS_NS
_STEP_GROWTH = 8

NumberedTrade = Trade | AggTrade


class Page(Protocol):
    """A page of trades, oldest first, and the cursor of the next page."""

    @property
    def trades(self) -> Sequence[NumberedTrade]: ...

    @property
    def next(self) -> int: ...


Fetch = Callable[[int], Awaitable[Page]]
"""Requests the page of a cursor, as ``Exchange.trade_pages`` defines it."""


class Covered(NamedTuple):
    """Ids at one end of those wanted, of which a page has every trade that exists."""

    ids: IdRange
    trades: Sequence[NumberedTrade]
    """Those with these ids."""
    after_ns: int | None = None
    """Where the next page begins, for pages by time."""
    ended: str = ""
    """Why there are no trades beyond those returned; empty: there may be."""


class Pager(Protocol):
    """One way of paging."""

    goes_back: bool
    """Whether the last ids come first."""

    async def next(self, cursor: IdRangeCursor) -> Covered:
        """Request the page that the cursor is at.

        Raises:
            UnexpectedAnswer: the page is not in order, or not the one that was requested.
            ExchangeError, ExchangeUnreachable: there is none now.
        """
        ...


class FromId:
    """Pages that begin with an id."""

    goes_back = False

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def next(self, cursor: IdRangeCursor) -> Covered:
        """See ``Pager``."""
        left = cursor.left
        page = await self._fetch(left.first)
        ids = _in_order(page)
        if not ids:
            return Covered(left, [], ended=f"it has no trades from id {left.first} on")
        if ids[0] < left.first:
            raise UnexpectedAnswer(f"a page from id {left.first} on begins with {ids[0]}")
        return _covered(page, IdRange(left.first, min(left.last, ids[-1])))


class BeforeId:
    """Pages that end before an id, and so go back."""

    goes_back = True

    def __init__(self, fetch: Fetch, *, ordered: bool = True) -> None:
        self._fetch, self._ordered = fetch, ordered

    async def next(self, cursor: IdRangeCursor) -> Covered:
        """See ``Pager``."""
        left = cursor.left
        page = await self._fetch(left.last + 1)
        ids = _in_order(page) if self._ordered else [trade.id for trade in page.trades]
        if max(ids, default=0) > left.last:
            raise UnexpectedAnswer(f"a page before id {left.last + 1} ends with {max(ids)}")
        if page.next > left.last:
            last = min(ids, default=left.last + 1)
            return _covered(page, left)._replace(ended=f"it has no trades before id {last}")
        return _covered(page, IdRange(max(left.first, page.next), left.last))


class AfterTime:
    """Pages that begin after a time.

    ``time_before`` is the time of a stored trade with a lower id than the given one, near to it.
    """

    goes_back = False

    def __init__(
        self, fetch: Fetch, now_ns: Callable[[], int], time_before: Callable[[int], int | None]
    ) -> None:
        self._fetch, self._now_ns, self._time_before = fetch, now_ns, time_before

    async def next(self, cursor: IdRangeCursor) -> Covered:
        """See ``Pager``."""
        left, at_ns = cursor.left, self._start(cursor)
        page = await self._fetch(at_ns)
        if at_ns and (not page.trades or page.trades[0].id > left.first):
            at_ns, page = await self._search(left.first, 0, at_ns)
        elif _is_below(page, left.first):
            at_ns, page = page.next, await self._fetch(page.next)
            if page.trades and _is_below(page, left.first):
                at_ns, page = await self._search(left.first, page.next, self._now_ns())
        ids = _in_order(page)
        if not ids or ids[-1] < left.first:
            return Covered(left, [], ended=f"it has no trades from id {left.first} on")
        # Not all trades of the last millisecond may be in the page.
        early_ns = page.trades[-1].at_ms * _MS_NS - 1
        after_ns = early_ns if early_ns > at_ns else page.next
        ids_covered = IdRange(left.first, min(left.last, ids[-1]))
        return _covered(page, ids_covered)._replace(after_ns=after_ns)

    def _start(self, cursor: IdRangeCursor) -> int:
        if cursor.after_ns is not None:
            return cursor.after_ns
        since_ns = None if cursor.since_ms is None else cursor.since_ms * _MS_NS
        known = [self._time_before(cursor.first_id), since_ns]
        before_ns = max((each for each in known if each is not None), default=None)
        if before_ns is None:
            return self._now_ns()
        # Slightly early, so that the page begins with that trade: a time that was sent as a binary
        # float may be a fraction of a microsecond late.
        return max(0, before_ns // _MS_NS * _MS_NS - 1)

    async def _search(self, wanted: int, low_ns: int, high_ns: int) -> tuple[int, Page]:
        """Find a page that begins at or below an id and reaches it, as late as possible.

        Trades after ``low_ns`` begin below the id, those after ``high_ns`` above it.
        """
        step_ns = _FIRST_STEP_NS
        while high_ns - low_ns > _MS_NS:
            at_ns = (low_ns + high_ns) // 2 if low_ns else max(0, high_ns - step_ns)
            step_ns *= _STEP_GROWTH
            page = await self._fetch(at_ns)
            if at_ns and (not page.trades or page.trades[0].id > wanted):
                high_ns = at_ns
            elif _is_below(page, wanted):
                low_ns = max(at_ns, page.trades[-1].at_ms * _MS_NS - 1)
            else:
                return at_ns, page
        at_ns, page = low_ns, await self._fetch(low_ns)
        while _is_below(page, wanted) and page.next > at_ns:
            at_ns, page = page.next, await self._fetch(page.next)
        return at_ns, page


def _is_below(page: Page, wanted: int) -> bool:
    return bool(page.trades) and page.trades[-1].id < wanted


def _in_order(page: Page) -> list[int]:
    ids = [trade.id for trade in page.trades]
    if any(one >= other for one, other in pairwise(ids)):
        raise UnexpectedAnswer(f"a page of {len(ids)} trades from id {ids[0]} is not in order")
    return ids


def _covered(page: Page, ids: IdRange) -> Covered:
    return Covered(ids, [trade for trade in page.trades if ids.first <= trade.id <= ids.last])
