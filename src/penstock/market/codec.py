"""Encodes events as bytes, in the same format in the log and on the wire.

A record is one byte of format version and a JSON object. JSON, because levels are kept as the JSON
bytes the exchange sent and can be written without decoding; because any tool can read it; and
because in a compressed log repeated names cost nothing.

Format 1 has the exchange's time in milliseconds, ``at_ms``, where format 2 has ``at_ns``. Both are
read; format 2 is written.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Union

import msgspec

from penstock.errors import MalformedSymbol, NotOurRecord
from penstock.market import channels
from penstock.market.events import Event
from penstock.market.symbol import Symbol

VERSION = 2
FORMATS = (1, VERSION)
"""The formats that can be read."""
_PREFIX = bytes([VERSION])


def encode(event: Event) -> bytes:
    """Return the record of an event."""
    return _PREFIX + _encode(event)


def encode_many(events: Iterable[Event]) -> list[bytes]:
    """Return the records of several events, faster than one by one."""
    return list(map(_PREFIX.__add__, map(_encode, events)))


def decode(record: bytes) -> Event:
    """Return the event of a record.

    Raises:
        NotOurRecord: it was written by a newer penstock, or is not a record.
    """
    if not record:
        raise NotOurRecord("an empty record; the file it came from is damaged")
    if record[0] not in FORMATS:
        raise NotOurRecord(
            f"a record of format {record[0]}, where this penstock reads up to {VERSION}: it was"
            " written by a newer version (upgrade), or is no record at all"
        )
    try:
        event: Event = _decode(json_of(record))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        unknown = str(error).endswith("`$.kind`")
        problem = "a record of an unknown channel" if unknown else "a damaged record"
        raise NotOurRecord(f"{problem}: {error}") from error
    return event


# A field name with its quotes, which would be escaped inside a text.
_rename_time = re.compile(rb',"at_ms":(-?[0-9]+)').sub


def json_of(record: bytes) -> bytes:
    """Return the JSON of a record of any readable format, converted to the latest format."""
    if record[0] == VERSION:
        return record[1:]
    return _rename_time(lambda found: b',"at_ns":%d' % (int(found[1]) * 1_000_000), record[1:])


# A log repeats a few symbols millions of times: each is parsed once.
_symbol_of = lru_cache(maxsize=8192)(Symbol.parse)


def _read_symbol(wanted: type, value: object) -> object:
    if wanted is not Symbol or not isinstance(value, str):
        raise TypeError(f"{wanted.__name__} is not part of a record")
    try:
        return _symbol_of(value)
    except MalformedSymbol as error:
        raise ValueError(str(error)) from error


# Only symbols need a hook; one written in Python would cost more than all the rest.
_encode = msgspec.json.Encoder(enc_hook=attrgetter("unified")).encode


def _make_decoder() -> None:
    """Make the decoder of the events of all registered channels."""
    global _decode  # noqa: PLW0603 (the fastest look-up, and every record needs it)
    any_of_them: Any = Union[tuple(channels.BY_EVENT)]  # noqa: UP007 (of any number)
    _decode = msgspec.json.Decoder(any_of_them, dec_hook=_read_symbol).decode


_decode: Callable[[bytes], Event]
_make_decoder()
channels.when_registered(_make_decoder)
