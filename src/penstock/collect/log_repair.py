"""Lists the records that were lost with a damaged slot as gaps.

If a collector's status has the ids that were seen, they are reduced to those that are still in the
log. For other streams a marker in ``disconnects`` states between which two records some may be
missing.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from penstock.collect.status import CollectorStatus, read_status, write_status
from penstock.coverage.stored import still_logged
from penstock.errors import LogDamaged, NotOurRecord
from penstock.market.events import Disconnect
from penstock.market.symbol import Symbol
from penstock.storage.log import EventLog
from penstock.storage.log.keys import Stream, key_text
from penstock.storage.log.repair import Lost, Repair


def finish(repair: Repair, folder: Path, log: EventLog, at_ns: int) -> Path:
    """Put the repaired slot in place; return where the damaged one is kept.

    Raises:
        StorageError: it cannot be written.
    """
    status = _status(folder, repair.findings.slot)
    counted = set[Stream]()
    if status is not None:
        counted = {Stream(status.exchange, ids.channel, ids.symbol) for ids in status.ids}
    markers = list(_markers(repair.findings.lost, counted, at_ns))
    if markers:
        repair.mark(markers)
    aside = repair.put_in_place(datetime.fromtimestamp(at_ns / 1e9, UTC))
    if status is not None:
        with closing(log.reader()) as reader:
            ids = [still_logged(each, status.exchange, reader) for each in status.ids]
        write_status(folder, replace(status, ids=ids))
    return aside


@contextmanager
def reporting_damage(folder: Path, slot: str) -> Iterator[None]:
    """Write to a slot's status that this slot, or another, was found damaged on opening.

    The rest of the status is kept, for example the ids that were seen.
    """
    try:
        yield
    except LogDamaged as error:
        status = _status(folder, slot)
        if status is not None:
            why = str(error)
            with suppress(OSError):
                failed = replace(status, state="failed", trouble=why, troubles={"failed": why})
                write_status(folder, failed)
        raise


def _status(folder: Path, slot: str) -> CollectorStatus | None:
    try:
        return read_status(folder, slot)
    except NotOurRecord:
        return None  # the next collector finds that too, and reads the log


def _markers(lost: Iterable[Lost], counted: Collection[Stream], at_ns: int) -> Iterable[Disconnect]:
    for each in lost:
        if each.stream not in counted:
            yield Disconnect(
                exchange=each.stream.exchange,
                symbol=Symbol.parse(each.stream.symbol),
                received_at_ns=each.until_ns or at_ns,
                channels=(each.stream.channel,),
                reason=f"log damaged: lost {where(each)}",
                since_ns=each.since_ns,
                cause="damaged",
            )


def where(lost: Lost) -> str:
    """The position of lost records, by the keys beside them."""
    after = None if lost.after is None else key_text(lost.after)
    before = None if lost.before is None else key_text(lost.before)
    if after and before:
        return f"between {after} and {before}"
    return f"after {after}" if after else f"before {before}" if before else "altogether"
