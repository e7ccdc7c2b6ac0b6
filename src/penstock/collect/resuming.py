"""Restores a collector's state from the previous collector's status and the log."""

from penstock.collect.absences import Absences
from penstock.collect.facts import ShardsDiffer, StatusUnreadable
from penstock.collect.reporter import StatusLocation
from penstock.collect.status import CollectorStatus, read_all, read_status
from penstock.coverage.continuity import Continuity
from penstock.coverage.stored import lacks_records
from penstock.errors import NotOurRecord, StorageError
from penstock.storage.log import LogReader
from penstock.telemetry import Listener

_FRESH_MS = 5_000
"""A running collector writes its status more often than this."""


def resume(
    location: StatusLocation,
    log: LogReader,
    continuity: Continuity,
    absences: Absences,
    emit: Listener,
) -> None:
    """Restore the previous status of a slot, as far as the log confirms it.

    Raises:
        StorageError, NotOurRecord: the log or the status cannot be read.
    """
    before = _known_before(location, emit)
    doubted = lacks_records(before, log)
    continuity.resume(location.exchange, before.ids if before else (), log, doubted=doubted)
    absences.resume(before, log, doubted=doubted, shard=location.shard)


def compare_shards(location: StatusLocation, now_ms: int, emit: Listener) -> None:
    """Warn if other collectors of the exchange run in this folder with another number of shards."""
    if not location.shard:
        return
    try:
        statuses = read_all(location.folder)
    except (NotOurRecord, StorageError):
        return  # a damaged status of another process is no reason to end this one
    count = location.shard.partition("/")[2]
    others = [
        f"{each.slot}: {each.shard}"
        for each in statuses
        if (each.exchange, each.state) == (location.exchange, "running")
        and each.slot != location.slot
        and now_ms - each.at_ms < _FRESH_MS
        and each.shard.partition("/")[2] not in ("", count)
    ]
    if others:
        exchange, shard = location.exchange, location.shard
        emit(ShardsDiffer(exchange=exchange, shard=shard, others=others))


def _known_before(location: StatusLocation, emit: Listener) -> CollectorStatus | None:
    """The previous status of a slot; None if there is none or a power cut damaged it."""
    try:
        return read_status(location.folder, location.slot)
    except NotOurRecord as error:
        emit(StatusUnreadable(slot=location.slot, reason=str(error)))
        return None
