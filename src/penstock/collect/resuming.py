"""Restores a collector's state from the previous collector's status and the log."""

from penstock.collect.absences import Absences
from penstock.collect.facts import StatusUnreadable
from penstock.collect.reporter import StatusLocation
from penstock.collect.status import CollectorStatus, read_status
from penstock.coverage.continuity import Continuity
from penstock.coverage.stored import lacks_records
from penstock.errors import NotOurRecord
from penstock.storage.log import LogReader
from penstock.telemetry import Listener


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
    absences.resume(location.slot, before, log, doubted=doubted)


def _known_before(location: StatusLocation, emit: Listener) -> CollectorStatus | None:
    """The previous status of a slot; None if there is none or a power cut damaged it."""
    try:
        return read_status(location.folder, location.slot)
    except NotOurRecord as error:
        emit(StatusUnreadable(slot=location.slot, reason=str(error)))
        return None
