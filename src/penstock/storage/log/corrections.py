"""Selects the right one of several records with one id, where an exchange corrects its data.

A candle may be corrected after it has closed. Within a slot a correction replaces the older record
when it is written; records with the same id in other slots are compared when they are read. Every
reader uses the same rule, so all of them show the same record.
"""

from collections.abc import Iterable
from operator import attrgetter

from msgspec.structs import astuple, replace

from penstock.errors import NotOurRecord
from penstock.market import channels
from penstock.market.codec import decode
from penstock.market.events import Event
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream


def has_corrections(stream: Stream) -> bool:
    """Whether records of a stream may be corrected by later ones."""
    channel = channels.find(stream.channel)
    return channel is not None and channel.is_final is not None


def corrects(event: Event, held: bytes) -> bool:
    """Whether an event contradicts an older record. Not if it only has more or fewer fields.

    Streams and requests do not provide the same fields, and records of older versions lack some.

    Raises:
        NotOurRecord: the older record is of another channel.
    """
    known = decode(held)
    if type(known) is not type(event):
        raise NotOurRecord(f"a record of another channel where {type(event).__name__} should be")
    known = replace(known, received_at_ns=event.received_at_ns, source=event.source)
    return any(
        old != new and old is not None and new is not None
        for old, new in zip(astuple(known), astuple(event), strict=True)
    )


def first_received(same: Iterable[Stored]) -> Stored:
    """Of the records of one key in several slots, the one that was received first."""
    return min(same, key=_RECEIVED)


def last_corrected(same: Iterable[Stored]) -> Stored:
    """Of the records of one id in several slots, the one that holds its last correction.

    Equal copies are not corrections: of these, the one received first.
    """
    shown, *later = sorted(same, key=_RECEIVED)
    for each in later:
        if corrects(each.event, shown.record):
            shown = each
    return shown


_RECEIVED = attrgetter("received_at_ns", "slot")
