"""Data to read: a log in memory, a lake in a folder, and what a reader must find in them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from penstock.clock import ManualClock
from penstock.dataset.cold import Cold
from penstock.dataset.dataset import Dataset
from penstock.dataset.reading import Places
from penstock.dataset.source import Source
from penstock.dataset.state import StateReader
from penstock.market.channels import BY_EVENT, Channel
from penstock.market.codec import encode
from penstock.market.events import Event
from penstock.storage.lake import Lake, NumberRange, open_lake
from penstock.storage.lake.columns import slot_text, table_of
from penstock.storage.log import EventLog, Stored
from penstock.storage.log.keys import place_of

NOON_NS = 1_793_534_400_000_000_000
"""2026-11-01 12:00 UTC."""
SECOND_NS = 1_000_000_000
NOW_NS = NOON_NS + 86_400 * SECOND_NS


def stored(events: Iterable[Event], slot: str) -> list[Stored]:
    """Events as a slot would have recorded them, each under the next number."""
    found = []
    for number, event in enumerate(events, 1):
        stream, key = place_of(event)
        found.append(Stored(stream, slot, number, key, encode(event), str(stream), event))
    return found


def seal(
    lake: Path | str,
    records: Sequence[Stored],
    log_id: int = 0,
    options: Mapping[str, str] | None = None,
) -> None:
    """Append records to the tables of a lake."""
    for row in BY_EVENT.values():
        mine = [each for each in records if type(each.event) is row.event]
        if mine:
            for slot in {each.slot for each in mine}:
                _seal(
                    open_lake(str(lake), options),
                    row,
                    [each for each in mine if each.slot == slot],
                    log_id,
                )


def _seal(lake: Lake, row: Channel, records: Sequence[Stored], log_id: int) -> None:
    streams = {each.stream for each in records}
    slot = slot_text(log_id, records[0].slot)
    sealed = lake.sealed(row, slot, sorted(streams))
    last = {each.stream: each.number for each in sorted(records, key=lambda each: each.number)}
    ranges = {each: NumberRange(sealed[each] + 1, last[each]) for each in streams}
    lake.seal(row, slot, table_of(row, records, log_id), ranges)


def dataset(
    log: EventLog | None = None,
    lake: Path | None = None,
    state_url: str | None = None,
    **places: int,
) -> Dataset:
    clock = ManualClock(NOW_NS // 1_000_000)
    state = StateReader(state_url, clock) if state_url else None
    cold = Cold(str(lake)) if lake is not None else None
    return Dataset(Source(Places(log, cold, **places), state, clock), "here")
