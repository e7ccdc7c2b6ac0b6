"""Finds why records are missing: from the markers of lost connections, and who caused those."""

from typing import NamedTuple

from msgspec.structs import replace

from penstock.coverage.model import LOST, By, GapRow, Origin
from penstock.market.channels import DISCONNECTS, find
from penstock.market.events import Disconnect
from penstock.storage.log import LogReader, Span, Stored
from penstock.storage.log.keys import Stream, key_of_id

_OURS = ("removed", "stopped", "not_running", "not_collected", "damaged")
"""Causes of our own."""
_EXCHANGE = ("closed by the exchange", "answered with", "refused")
"""How the reason of a connection begins that the exchange ended or did not accept."""

_FETCHABLE = ("exchange_id", "opening_time")
"""What identifies the records of channels whose past an exchange serves."""


class Why(NamedTuple):
    """Why records are missing."""

    cause: str = LOST
    origin: Origin = "unknown"
    reason: str = ""
    marked_ns: int = 0
    """When the marker was recorded."""


def why(marker: Disconnect) -> Why:
    """What a marker says about the records that are missing after it."""
    origin: Origin = "unknown"
    if marker.cause in _OURS:
        origin = "ours"
    elif marker.reason.startswith(_EXCHANGE):
        origin = "exchange"
    return Why(marker.cause, origin, marker.reason, marker.received_at_ns)


def gap_row(stream: Stream, by: By, positions: tuple[int, int], why: Why) -> GapRow:
    """A new gap; it cannot be filled if no exchange serves the past of its channel."""
    row, (first, last) = find(stream.channel), positions
    gap = GapRow(
        **stream._asdict(), by=by, first=first, last=last,
        cause=why.cause, origin=why.origin, reason=why.reason,
    )  # fmt: skip
    if row is not None and row.id_kind in _FETCHABLE:
        return gap
    words = [why.reason, f"the past of {stream.channel} cannot be requested"]
    return replace(gap, state="unfillable", reason="; ".join(filter(None, words)))


class Explained(NamedTuple):
    """Why ids are missing, and the market times of the records beside them."""

    why: Why
    since_ms: int | None
    until_ms: int | None


def explained(log: LogReader, stream: Stream, first: int, last: int) -> Explained:
    """Why these ids are missing, by the records beside them and the last marker in between."""
    before, after = _record(log, stream, first - 1), _record(log, stream, last + 1)
    span = Span(
        since_ns=None if before is None else before.received_at_ns,
        until_ns=None if after is None else after.received_at_ns + 1,
    )
    found = Why()
    for stored in log.scan(stream._replace(channel=DISCONNECTS.name), span):
        marker = stored.event
        if isinstance(marker, Disconnect) and stream.channel in marker.channels:
            found = why(marker)
    return Explained(found, _ms(before), _ms(after))


def _record(log: LogReader, stream: Stream, number: int) -> Stored | None:
    if number < 0:
        return None
    return next(log.scan(stream, Span(key_of_id(number), key_of_id(number + 1)), limit=1), None)


def _ms(stored: Stored | None) -> int | None:
    return None if stored is None else stored.event.market_ms
