"""What a ``trades_backfill`` job fetches, and where it stands."""

from msgspec import Struct

from penstock.errors import BadJob
from penstock.ingest.id_ranges import Id, IdRange
from penstock.jobs.kinds import Market, unified_symbol
from penstock.jobs.model import Count, Instant


class TradesTarget(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The trades of a market, from an id or a time to an id or a time."""

    symbol: str
    from_id: Id | None = None
    to_id: Id | None = None
    since_ms: Instant | None = None
    until_ms: Instant | None = None


class TradesCursor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The range that a client asks for, and how much of it is durable."""

    from_id: Id | None = None
    """The first id. A client leaves it out to begin at ``since_ms``, or with the first trade."""
    to_id: Id | None = None
    """The last id. A client leaves it out to end at ``until_ms``, or with the newest trade."""
    since_ms: Instant | None = None
    until_ms: Instant | None = None
    """The end of the range, not included."""
    is_resolved: bool = False
    """Whether ``from_id`` and ``to_id`` were compared with what the exchange has."""
    last_id: Id | None = None
    """All ids from ``from_id`` to this one are durable, or do not exist. Where pages go back, those
    from this one to ``to_id``."""
    after_ns: Id | None = None
    """The start of the next page, for exchanges that page by time."""
    page: Count = 0
    """Completed batches."""
    done: bool = False

    def left(self, *, goes_back: bool = False) -> IdRange:
        """The ids that are left, once resolved."""
        assert self.from_id is not None
        assert self.to_id is not None
        if self.last_id is None:
            return IdRange(self.from_id, self.to_id)
        if goes_back:
            return IdRange(self.from_id, self.last_id - 1)
        return IdRange(self.last_id + 1, self.to_id)


_OF_WORKERS = ("is_resolved", "last_id", "after_ns", "page", "done")


def target_of(market: Market, cursor: TradesCursor, kind: str) -> TradesTarget:
    """The target of a job for the range that a client names.

    Raises:
        BadJob: there is no such range, or the cursor is one that only a worker can set.
    """
    if market.symbol is None:
        raise BadJob("symbol", f"a {kind} needs one, such as BTC/USDT")
    if market.timeframe is not None:
        raise BadJob("timeframe", "trades have none: leave it out")
    for name in _OF_WORKERS:
        if getattr(cursor, name) != getattr(TradesCursor(), name):
            raise BadJob(f"cursor.{name}", "only a worker can set it")
    for ids, times in (("from_id", "since_ms"), ("to_id", "until_ms")):
        if getattr(cursor, ids) is not None and getattr(cursor, times) is not None:
            raise BadJob(f"cursor.{times}", f"{ids} is given too: leave one of them out")
    first, last = cursor.from_id, cursor.to_id
    if first is not None and last is not None and first > last:
        raise BadJob("cursor", f"from_id {first} is after to_id {last}")
    since_ms, until_ms = cursor.since_ms, cursor.until_ms
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise BadJob("cursor", "since_ms is not before until_ms")
    symbol = unified_symbol(market.symbol)
    return TradesTarget(
        symbol=symbol, from_id=first, to_id=last, since_ms=since_ms, until_ms=until_ms
    )
