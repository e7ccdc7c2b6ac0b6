"""Finds the periods in which a market's streams were not collected, across restarts.

A running collector records a marker for every loss as it happens, and when it stops. If it is
killed it cannot. The next one then derives from the log and from the previous status up to when
everything was recorded, and marks what may be missing since. The same is done for a market that is
added again.
"""

from collections.abc import Iterable, Sequence

from penstock.collect.status import CollectorStatus
from penstock.coverage.batches import StreamBatch
from penstock.coverage.writing import STREAMED
from penstock.market.channels import DISCONNECTS, find, recorded_in
from penstock.market.events import Cause, Disconnect, Event
from penstock.market.symbol import Symbol
from penstock.storage.log import LogReader
from penstock.storage.log.keys import Stream
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.wanted import StreamKey, Subscriptions

RECORDED_WITHIN_NS = 1_000_000_000
"""Events older than this are recorded, unless the status shows that some are waiting."""
_MS_NS = 1_000_000


class Absences:
    """The time of each stream's last record, and the latest marker of each market."""

    def __init__(self, exchange: str) -> None:
        self._exchange = exchange
        self._last_ns: dict[Stream, int] = {}
        self._alive_ns = 0
        """Up to when the previous collector had recorded everything, if its status shows that."""
        self._marker_of: dict[str, Disconnect] = {}
        """The latest marker of each market, by slug."""
        self._reason = "not running"

    def resume(
        self,
        before: CollectorStatus | None,
        log: LogReader,
        *,
        doubted: bool = False,
        shard: str = "",
    ) -> None:
        """Find what was last recorded by collectors, and how the previous one ended.

        With ``doubted`` (the log lacks records that the status lists) only the log is used. So it
        is if ``shard`` is another one than that of the status, which then says nothing about the
        markets that another slot had.
        """
        for stats in log.stats():
            for each in stats.streams if stats.slot.startswith(STREAMED) else ():
                if each.stream.exchange == self._exchange:
                    known_ns = self._last_ns.get(each.stream, 0)
                    self._last_ns[each.stream] = max(known_ns, each.last_received_ns)
        for stream in self._last_ns:
            if stream.channel == DISCONNECTS.name:
                for stored in log.scan(stream, reverse=True, limit=1):
                    self._note_marker(stored.event)
        if before is not None and before.state == "stopped":
            self._reason = "not running: stopped"
        elif before is not None:
            self._reason = "not running: ended without stopping"
            if all_well(before) and not doubted and before.shard == shard:
                synced_ms = before.at_ms if before.synced_ms is None else before.synced_ms
                self._alive_ns = synced_ms * _MS_NS - RECORDED_WITHIN_NS

    def __call__(self, batches: Sequence[StreamBatch]) -> None:
        """Update from newly recorded events, by stream."""
        for batch in batches:
            self._last_ns[batch.stream] = batch.records[-1].event.received_at_ns
            if batch.stream.channel == DISCONNECTS.name:
                for stored in batch.records:
                    self._note_marker(stored.event)

    def markers_at_start(self, stream_keys: Iterable[StreamKey], at_ns: int) -> list[Disconnect]:
        """The markers of streams that are collected again after a restart."""
        # A time in the future is from a wrong clock and is ignored.
        alive_ns = self._alive_ns if self._alive_ns <= at_ns else 0
        return self._markers(stream_keys, at_ns, self._reason, "not_running", alive_ns)

    def markers(self, stream_keys: Iterable[StreamKey], at_ns: int) -> list[Disconnect]:
        """The markers of streams that are collected again from now on."""
        return self._markers(stream_keys, at_ns, "not collected", "not_collected", 0)

    def _markers(
        self, stream_keys: Iterable[StreamKey], at_ns: int, reason: str, cause: Cause, alive_ns: int
    ) -> list[Disconnect]:
        since: dict[int, list[StreamKey]] = {}
        for channel, symbol in stream_keys:
            last_ns = self._last(channel, symbol)
            if last_ns is not None and not self._has_marker(channel, symbol, last_ns):
                known_ns = min(at_ns, max(last_ns, alive_ns))
                since.setdefault(known_ns, []).append((channel, symbol))
        markers: list[Disconnect] = []
        for since_ns, some in since.items():
            absent = [(each.channel, each.symbols) for each in Subscriptions.of(some)]
            markers += Disconnects(self._exchange, absent).mark(reason, at_ns, since_ns, cause)
        return markers

    def _last(self, channel: str, symbol: Symbol) -> int | None:
        row = find(channel)
        last_ns = self._last_in(recorded_in(channel), symbol)
        if last_ns is None and row is not None and row.formerly is not None:
            return self._last_in([row.formerly], symbol)
        return last_ns

    def _last_in(self, channels: Iterable[str], symbol: Symbol) -> int | None:
        streams = [Stream(self._exchange, channel, symbol.slug) for channel in channels]
        found = [self._last_ns[stream] for stream in streams if stream in self._last_ns]
        return max(found, default=None)

    def _has_marker(self, channel: str, symbol: Symbol, last_ns: int) -> bool:
        """Whether this absence of the stream has a marker already."""
        marker = self._marker_of.get(symbol.slug)
        return (
            marker is not None and channel in marker.channels and marker.received_at_ns >= last_ns
        )

    def _note_marker(self, event: Event) -> None:
        # A marker of log damage is about a past range; the stream is not absent after it.
        if isinstance(event, Disconnect) and event.cause != "damaged":
            self._marker_of[event.symbol.slug] = event


def all_well(status: CollectorStatus) -> bool:
    """Whether all streams were connected, none had stalled, and nothing waited to be recorded."""
    quiet = status.connection == "connected" and not (status.pending or status.stalled)
    return quiet and not any(shard.waiting for shard in status.shards)
