"""Lists interruptions, after which records may be missing.

Where an exchange's ids are consecutive, the missing ids are known; see ``coverage.missing``.
Elsewhere only the loss of a connection is known: records may be missing from then until the next
one.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from penstock.market.channels import DISCONNECTS, find, recorded_in
from penstock.market.events import Disconnect
from penstock.storage.log import LogReader, Span
from penstock.storage.log.keys import Stream

_MINUTE_NS = 60 * 1_000_000_000
_DOUBLINGS = 24
"""Of a minute: some thirty years."""
_ENDINGS = ("stopped", "removed")
"""The causes of an intended end of collecting."""


class Interruption(Struct, frozen=True, kw_only=True, tag="interruption", tag_field="kind"):
    """A period in which records of a channel may be missing."""

    exchange: str
    symbol: str
    channel: str
    lost_ns: int
    back_ns: int | None
    """When the stream's next record was received; None if there is none yet."""
    reason: str


def interruptions(
    log: LogReader,
    wanted: Collection[tuple[str, str]],
    counted: Callable[[str], Collection[str]],
) -> Iterator[Interruption]:
    """The periods in which records may be missing, for markets of these names.

    ``counted`` returns the channels of an exchange whose ids show what is missing; those are left
    out.
    """
    for stream in log.streams():
        if stream.channel == DISCONNECTS.name and (stream.exchange, stream.symbol) in wanted:
            yield from _of_market(log, stream, counted(stream.exchange))


def _of_market(log: LogReader, stream: Stream, counted: Collection[str]) -> Iterator[Interruption]:
    over: dict[str, int | None] = {}
    for stored in log.scan(stream):
        event = stored.event
        if not isinstance(event, Disconnect):
            continue
        if event.cause == "damaged":
            yield from _of_damage(stream, event)
            continue
        for channel in event.channels:
            noticed_ns = event.received_at_ns
            if channel in counted or (channel in over and _is_within(noticed_ns, over[channel])):
                continue
            kept = _recorded_in(log, stream._replace(channel=channel), noticed_ns)
            over[channel] = _next_received(log, kept, noticed_ns)
            if over[channel] is None and event.cause in _ENDINGS:
                continue  # nothing was collected after it, so nothing is missing
            lost_ns = noticed_ns if event.since_ns is None else min(noticed_ns, event.since_ns)
            yield Interruption(
                exchange=stream.exchange,
                symbol=stream.symbol,
                channel=channel,
                lost_ns=lost_ns,
                back_ns=over[channel],
                reason=event.reason,
            )


def _of_damage(stream: Stream, event: Disconnect) -> Iterator[Interruption]:
    """Records lost from the log between two others, also of channels with consecutive ids."""
    for channel in event.channels:
        yield Interruption(
            exchange=stream.exchange,
            symbol=stream.symbol,
            channel=channel,
            lost_ns=event.received_at_ns if event.since_ns is None else event.since_ns,
            back_ns=event.received_at_ns,
            reason=event.reason,
        )


def _recorded_in(log: LogReader, stream: Stream, at_ns: int) -> list[Stream]:
    """The streams of the log in which the events of a channel were recorded at this time."""
    row = find(stream.channel)
    names = recorded_in(stream.channel)
    if row is not None and row.formerly is not None:
        earlier = log.scan(stream, Span(until_ns=at_ns), limit=1)
        names += [row.formerly] if next(earlier, None) is None else []
    return [stream._replace(channel=name) for name in names]


def _is_within(lost_ns: int, over_ns: int | None) -> bool:
    """Whether a connection was lost before the previous interruption ended."""
    return over_ns is None or lost_ns < over_ns


def _next_received(log: LogReader, streams: Sequence[Stream], at_ns: int) -> int | None:
    """When the streams' next live record was received, searched in ever longer spans."""
    since_ns = at_ns
    for doubled in range(_DOUBLINGS):
        span = Span(since_ns=since_ns, until_ns=at_ns + (_MINUTE_NS << doubled))
        received = (
            stored.received_at_ns
            for each in streams
            for stored in log.scan(each, span)
            if stored.event.source == "live"  # others were fetched
        )
        if (first_ns := min(received, default=None)) is not None:
            return first_ns
        since_ns = at_ns + (_MINUTE_NS << doubled)
    return None
