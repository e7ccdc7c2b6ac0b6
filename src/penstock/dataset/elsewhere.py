"""Reports what logs of other machines hold and the lake does not have yet.

The ledger says which records a slot has, by number; the keeper's documents say which of them are
sealed.
"""

from collections.abc import Collection, Iterator

from penstock.coverage.model import SlotCoverage
from penstock.dataset.state import Ledger
from penstock.dataset.times import Range, iso
from penstock.errors import UnknownInterval
from penstock.market import channels
from penstock.market.channels import Channel
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

_JOBS = "work-"
"""How slots of workers are called: their jobs record the present and the past, in any order."""
_LATE_MS = 2_000
"""How much later than its market time a live record is received, at most as a rule."""
_MONTH_MS = 31 * 86_400_000
_MS_NS = 1_000_000


def unsealed_elsewhere(
    ledger: Ledger, streams: Collection[Stream], log_id: int | None, times: Range
) -> list[str]:
    """What other logs than this one hold of a range and the lake does not have yet, in words."""
    found: list[str] = []
    for held in ledger.held:
        row = channels.find(held.channel)
        if held.stream not in streams or held.log_id == log_id or row is None or not held.runs:
            continue
        seal = ledger.seals.get((held.log_id, held.slot, row.name))
        records = held.number - (seal.verified(held.stream) if seal is not None else 0)
        if records > 0:
            sealed_ms = seal.sealed_ms if seal is not None else 0
            found += _in_range(held, row, records, sealed_ms, times)
    return found


def _in_range(
    held: SlotCoverage, row: Channel, records: int, sealed_ms: int, times: Range
) -> Iterator[str]:
    """What is said of unsealed records of a slot, if they may be in the range."""
    first_ms, last_ms = held.runs[0].since_ms, held.runs[-1].until_ms
    market = f"{held.exchange} {held.channel} {Symbol.parse(held.symbol).unified}"
    where = f"slot {held.slot} of another log"
    if held.slot.startswith(_JOBS):
        if _begins_before(times, last_ms + 1) and _ends_after(times, first_ms):
            yield f"{market}: {records:,} records of {where} are not in the lake yet"
    elif _ends_after(times, max(first_ms, sealed_ms - _LATE_MS - _length_ms(held.stream, row))):
        after = iso(max(first_ms, sealed_ms))
        yield f"{market}: what {where} received after {after} is not in the lake yet"


def _begins_before(times: Range, at_ms: int) -> bool:
    return times.since_ns is None or times.since_ns < at_ms * _MS_NS


def _ends_after(times: Range, at_ms: int) -> bool:
    return times.until_ns is None or times.until_ns > at_ms * _MS_NS


def _length_ms(stream: Stream, row: Channel) -> int:
    """The length of candles, which are received when they end; 0 for all else."""
    if row.id_kind != "opening_time":
        return 0
    try:
        return Interval.parse(stream.channel[len(row.name) + 1 :]).fixed_ms or _MONTH_MS
    except UnknownInterval:
        return 0
