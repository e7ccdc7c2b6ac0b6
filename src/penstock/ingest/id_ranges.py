"""Gaps of trades: the range of ids that a job fetches, and where it stands."""

from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from penstock.errors import BadJob, near_matches
from penstock.jobs.kinds import Market, unified_symbol
from penstock.jobs.model import Count, Instant
from penstock.market.channels import AGG_TRADES, TRADES

FETCHED_BY_ID = (TRADES.name, AGG_TRADES.name)
"""Channels whose old records can be requested, and have ids."""

# Some exchanges' ids exceed the whole numbers of a double.
Id = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class IdRange(NamedTuple):
    """Consecutive ids, both ends included; empty if the last is below the first."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return max(0, self.last - self.first + 1)


class IdRangeTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The records of one market and channel with these ids, both ends included."""

    symbol: str
    channel: str
    first_id: Id
    last_id: Id


class IdRangeCursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ids that are left to fetch. All others of the job's range are durable, or do not exist.

    Where pages go forward the first advances, where they go back the last does.
    """

    channel: str = TRADES.name
    first_id: Id
    last_id: Id
    """Below ``first_id`` if none is left."""
    since_ms: Instant | None = None
    """A time at which the range has not begun yet, for exchanges that page by time; None: it is
    looked up in the log, or searched for."""
    after_ns: Id | None = None
    """The start of the next page, for exchanges that page by time."""
    page: Count = 0
    """Completed pages."""
    unanswered: Count = 0
    """How often the next ids were requested without being in the response."""
    done: bool = False

    @property
    def left(self) -> IdRange:
        return IdRange(self.first_id, self.last_id)


def target_of(market: Market, cursor: IdRangeCursor, kind: str) -> IdRangeTarget:
    """The target of a job for the ids that a client names.

    Raises:
        BadJob: there are no such ids, or the cursor is one that only a worker can set.
    """
    if market.symbol is None:
        raise BadJob("symbol", f"a {kind} needs one, such as BTC/USDT")
    if market.timeframe is not None:
        raise BadJob("timeframe", f"{cursor.channel} have none: leave it out")
    if cursor.channel not in FETCHED_BY_ID:
        near = near_matches(cursor.channel, FETCHED_BY_ID)
        hint = f"did you mean {near[0]}" if near else f"there are {' and '.join(FETCHED_BY_ID)}"
        raise BadJob("cursor.channel", f"{cursor.channel!r} cannot be fetched by id; {hint}")
    if cursor.first_id > cursor.last_id:
        what = f"first_id {cursor.first_id} is after last_id {cursor.last_id}"
        raise BadJob("cursor", what)
    if cursor.done:
        raise BadJob("cursor.done", "only a worker can say that a job is done")
    symbol = unified_symbol(market.symbol)
    return IdRangeTarget(
        symbol=symbol, channel=cursor.channel, first_id=cursor.first_id, last_id=cursor.last_id
    )
