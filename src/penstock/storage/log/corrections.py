"""Selects the right one of several records of one candle.

An exchange may correct a candle after it has closed. Within a slot a correction replaces the older
record when it is written; records of the same candle in other slots are compared when they are
read. Every reader uses the same rule, so all of them show the same record.
"""

from collections.abc import Iterable
from operator import attrgetter

from msgspec.structs import astuple, replace

from penstock.errors import NotOurRecord
from penstock.market.codec import decode
from penstock.market.events import Candle
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream


def has_corrections(stream: Stream) -> bool:
    """Whether records of a stream may be corrected by later ones."""
    return stream.channel.startswith("candles_")


def corrects(candle: Candle, held: bytes) -> bool:
    """Whether a candle contradicts an older record. Not if it only has more or fewer fields.

    Streams and requests do not provide the same fields, and records of older versions lack some.

    Raises:
        NotOurRecord: the older record is not a candle.
    """
    known = decode(held)
    if not isinstance(known, Candle):
        raise NotOurRecord("a record that is no candle where a candle should be")
    known = replace(known, received_at_ns=candle.received_at_ns, source=candle.source)
    return any(
        old != new and old is not None and new is not None
        for old, new in zip(astuple(known), astuple(candle), strict=True)
    )


def first_received(same: Iterable[Stored]) -> Stored:
    """Of the records of one key in several slots, the one that was received first."""
    return min(same, key=_RECEIVED)


def last_corrected(same: Iterable[Stored]) -> Stored:
    """Of the records of one candle in several slots, the one that holds its last correction.

    Equal copies are not corrections: of these, the one received first.
    """
    shown, *later = sorted(same, key=_RECEIVED)
    for each in later:
        candle = each.event
        if isinstance(candle, Candle) and corrects(candle, shown.record):
            shown = each
    return shown


_RECEIVED = attrgetter("received_at_ns", "slot")
