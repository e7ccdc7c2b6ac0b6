"""Decides what the owner of a slot may delete: what is sealed, verified and old enough."""

from collections.abc import Iterable, Mapping

from penstock.storage.lake.documents import Deletion
from penstock.storage.log import LogReader, SlotStats, StreamStats
from penstock.storage.log.keys import Stream

LEAST_HOT_NS = 600_000_000_000
"""Records of the last ten minutes are never deleted: subscribers fetch what they missed."""
_AIM = 0.8
"""The share of the maximum size that is left after a deletion."""


def hot_ns(slots: Iterable[SlotStats], now_ns: int, hot_s: float, most_bytes: int) -> int:
    """How old sealed records may become in the log, so that it stays within its maximum size.

    It is assumed that records are received at a constant rate; if not, the next call corrects it.
    """
    hot = round(hot_s * 1e9)
    slots = list(slots)
    size = sum(slot.size_bytes for slot in slots)
    if most_bytes and size > most_bytes:
        first_ns = min(
            (each.first_received_ns for slot in slots for each in slot.streams), default=now_ns
        )
        hot = min(hot, round((now_ns - first_ns) * _AIM * most_bytes / size))
    return max(hot, LEAST_HOT_NS)


def plan_deletions(
    log: LogReader,
    slot: str,
    streams: Iterable[StreamStats],
    verified: Mapping[Stream, int],
    before_ns: int,
) -> dict[Stream, Deletion]:
    """What may be deleted of each stream. Its last record stays: numbers and ids follow it."""
    found: dict[Stream, Deletion] = {}
    for stats in streams:
        stream = stats.stream
        last = min(verified.get(stream, 0), log.number_before(stream, slot, before_ns))
        if last <= 0:
            continue
        above = log.lowest_key(stream, slot, last + 1)
        key = stats.last_key if above is None else min(above, stats.last_key)
        if key > stats.first_key:
            found[stream] = Deletion(key.hex(), stats.last_number)
    return found
