"""Chooses the slot of the log that a process writes."""

from itertools import count

from penstock.errors import SlotInUse
from penstock.exchanges import registry as exchanges
from penstock.storage.log import EventLog, LogWriter


def slot_name(kind: str, exchange: str, name: str | None) -> str:
    """The slot of a process for one exchange, distinct for each kind and exchange."""
    return "-".join(filter(None, (kind, exchanges.file_name(exchange), name)))


def free_slot(log: EventLog, name: str) -> LogWriter:
    """Open the first slot with this name and a number that no process owns."""
    for number in count():
        try:
            return log.writer(f"{name}-{number}")
        except SlotInUse:
            continue
    raise AssertionError("there is always one more")
