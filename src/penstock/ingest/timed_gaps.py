"""Gaps of trades by time, where ids are not consecutive but begin with the time of the trade.

They cannot be found by id; what may be missing lies around an interruption. Trades may arrive in
another order than that of their ids, the exchange or this machine may be seconds late, and their
clocks may differ. So more than the gap is requested.
"""

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow
from penstock.errors import MissingExtra, UnknownExchange
from penstock.exchanges import registry as exchanges
from penstock.ingest.id_ranges import IdRange
from penstock.market.channels import TRADES
from penstock.storage.log.keys import Stream

_AROUND_MS = 10_000


def ids_between(
    stream: Stream, since_ms: int | None, until_ms: int | None, around_ms: int = _AROUND_MS
) -> IdRange | None:
    """The ids that trades between two market times may have; None if they do not show the time."""
    if stream.channel != TRADES.name or since_ms is None or until_ms is None:
        return None
    try:
        id_at = exchanges.load(stream.exchange).trade_id_at
    except (UnknownExchange, MissingExtra):
        return None
    if id_at is None:
        return None
    return IdRange(id_at(max(0, since_ms - around_ms)), id_at(until_ms + around_ms + 1) - 1)


async def open_within(gaps: GapRows, stream: Stream, ids: IdRange) -> list[GapRow]:
    """The open gaps by time of a stream whose trades have ids in this range."""
    exchange, channel, symbol = stream
    rows = await gaps.find(exchange=exchange, channel=channel, symbol=symbol, state="open")
    return [
        row
        for row in rows
        if row.by == "received_ns"
        and (inside := ids_between(stream, row.since_ms, row.until_ms, 0)) is not None
        and ids.first <= inside.first
        and inside.last <= ids.last
    ]
