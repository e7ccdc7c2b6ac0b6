"""Turns a collector's status into metrics at each scrape.

It is the status that the process writes every second, so Prometheus receives what ``penstock
status`` shows, even if the file cannot be written. Each process serves only its own.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.collect.status import CollectorStatus, ConnectionStatus, own_statuses

_STATES = ("syncing", "synced", "stale", "stopped")


class CollectorGauges:
    """A custom collector for a registry: metrics of streams, connections, books and queues."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._pid = folder, os.getpid()

    def describe(self) -> Iterable[Metric]:
        """Nothing: the metrics are not known until there is a status."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """See prometheus_client."""
        for status in own_statuses(self._folder):
            if status.pid == self._pid:
                yield from _streams(status)
                yield from _troubles(status)
                yield from _connections(status)
                yield from _books(status)
                yield from _queues(status)


def _streams(status: CollectorStatus) -> Iterator[Metric]:
    exchange, stream = status.exchange, ("channel", "symbol")
    records = _counter("records", "Records written to the log.", *stream)
    for each in status.streams:
        records.add_metric([exchange, each.channel, each.symbol], each.records)
    missing = _gauge("missing_ids", "Ids that must exist and were not recorded.", *stream)
    for ids in status.ids:
        count = sum(last - first + 1 for first, last in ids.missing)
        missing.add_metric([exchange, ids.channel, ids.symbol], count)
    malformed = _counter("malformed_frames", "Frames that could not be parsed.", "reason")
    for reason, count in status.malformed.items():
        malformed.add_metric([exchange, reason], count)
    refusals = _counter("refusals", "Rejected subscriptions of a stream.", *stream)
    for refused in status.refusals:
        refusals.add_metric([exchange, refused.channel, refused.symbol], refused.count)
    gaps = _counter("gaps", "Gaps in ids; without ids, interruptions.", "channel", "cause")
    for gap in status.gaps:
        gaps.add_metric([exchange, gap.channel, gap.cause], gap.count)
    yield from (records, missing, malformed, refusals, gaps)


def _troubles(status: CollectorStatus) -> Iterator[Metric]:
    trouble = _gauge("trouble", "1 for each kind of current problem.", "kind")
    for kind in status.troubles:
        trouble.add_metric([status.exchange, kind], 1)
    yield trouble


def _connections(status: CollectorStatus) -> Iterator[Metric]:
    exchange = status.exchange
    members = [
        (str(number), member)
        for number, each in enumerate(status.shards)
        for member in each.members
    ]
    uptime = _gauge("connection_uptime_seconds", "Time since a connection opened.", "shard", "leg")
    age = _gauge("last_message_age_seconds", "Time since the latest frame.", "shard", "leg")
    for shard, member in members:
        place = [exchange, shard, str(member.number)]
        if member.up_s is not None:
            uptime.add_metric(place, member.up_s)
        if member.heard_s is not None:
            age.add_metric(place, member.heard_s)
    yield uptime
    yield age
    asked = _gauge("subscriptions_asked", "Streams that were subscribed to.")
    asked.add_metric([exchange], _sum_of(members, "asked"))
    yield asked
    acked = _gauge("subscriptions_acked", "Streams that the exchange acknowledged.")
    acked.add_metric([exchange], _sum_of(members, "asked") - _sum_of(members, "pending"))
    yield acked
    for name, words, found in (
        ("reconnects", "Connections that were lost, by reason.", [status.reconnects]),
        ("rotations", "Connections that were replaced.", _rotations(status)),
    ):
        counter = _counter(name, words, "reason")
        for reason, count in _by_reason(found).items():
            counter.add_metric([exchange, reason], count)
        yield counter


def _books(status: CollectorStatus) -> Iterator[Metric]:
    state = _gauge("book_state", "1 for the current state of a book.", "symbol", "state")
    drift = _gauge("book_drift", "Levels that differed at the last audit.", "symbol")
    resyncs = _counter("book_resyncs", "Times a book was resynchronized.", "symbol")
    for book in status.books:
        for each in _STATES:
            state.add_metric([status.exchange, book.symbol, each], float(book.state == each))
        if book.drift is not None:
            drift.add_metric([status.exchange, book.symbol], book.drift)
        resyncs.add_metric([status.exchange, book.symbol], book.resyncs)
    yield from (state, drift, resyncs)


def _queues(status: CollectorStatus) -> Iterator[Metric]:
    waiting = _gauge("events_waiting", "Events received and not yet written.")
    gathered = sum(shard.waiting for shard in status.shards)
    waiting.add_metric([status.exchange], gathered + status.unrecorded)
    yield waiting
    copies = _counter("copies_dropped", "Duplicate events from another connection.")
    copies.add_metric([status.exchange], sum(shard.dropped for shard in status.shards))
    yield copies
    if status.memory_bytes is not None:
        memory = _gauge("memory_bytes", "Memory of the process.")
        memory.add_metric([status.exchange], status.memory_bytes)
        yield memory


def _gauge(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"penstock_{name}", words, labels=["exchange", *labels])


def _counter(name: str, words: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"penstock_{name}", words, labels=["exchange", *labels])


def _sum_of(members: Iterable[tuple[str, ConnectionStatus]], field: str) -> int:
    return sum(getattr(member, field) for _, member in members)


def _rotations(status: CollectorStatus) -> list[dict[str, int]]:
    return [shard.rotations for shard in status.shards]


def _by_reason(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Counts by the part of a reason before the colon: the rest may differ every time."""
    found: dict[str, int] = {}
    for each in counts:
        for reason, count in each.items():
            kind = reason.partition(":")[0]
            found[kind] = found.get(kind, 0) + count
    return found
