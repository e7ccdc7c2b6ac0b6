"""What the compiled extension must know to encode the events of a class as ``codec.encode`` does.

msgspec stays the specification: whoever uses an encoder compares its first record with msgspec's.
"""

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo, fields

from penstock import compiled
from penstock.market.channels import BY_EVENT
from penstock.market.codec import VERSION
from penstock.market.events import Event

if TYPE_CHECKING:
    from penstock.compiled._hot import Encoder

_COMMON = ("exchange", "symbol", "received_at_ns")
"""The fields that a record begins with. The first two never change within a stream."""

_encoders: "dict[type[Event], Encoder | None]" = {}


def encoder_of(event: Event) -> "Encoder | None":
    """Return what encodes events of this class; None if msgspec has to."""
    kind = type(event)
    if kind not in _encoders:
        _encoders[kind] = _new_encoder(event)
    return _encoders[kind]


def beginning_of(event: Event) -> bytes:
    """Return what all records of a stream begin with, up to the time of receipt."""
    config = event.__struct_config__
    texts = (
        (config.tag_field, config.tag),
        ("exchange", event.exchange),
        ("symbol", event.symbol.unified),
    )
    return bytes([VERSION]) + b"{" + b",".join(_members(texts)) + b',"received_at_ns":'


def _members(texts: tuple[tuple[Any, Any], ...]) -> Iterator[bytes]:
    for name, text in texts:
        yield msgspec.json.encode(name) + b":" + msgspec.json.encode(text)


def _new_encoder(event: Event) -> "Encoder | None":
    kind = type(event)
    channel, infos, omits = BY_EVENT[kind], fields(kind), kind.__struct_config__.omit_defaults
    if compiled.Encoder is None or not _is_usual(kind, infos):
        return None
    own = infos[len(_COMMON) :]
    common = (*_COMMON, channel.id_field) if channel.id_field else _COMMON
    if not set(common) <= {info.name for info in infos}:
        return None
    plan = tuple(
        (
            b"," + msgspec.json.encode(info.encode_name) + b":",
            (info.default,) if omits and info.default is not NODEFAULT else (),
        )
        for info in own
    )
    return compiled.Encoder(
        copy(event),  # its fields are written to
        tuple(getattr(kind, name) for name in common),
        tuple(getattr(kind, info.name) for info in own),
        plan,
    )


def _is_usual(kind: type[Event], infos: tuple[FieldInfo, ...]) -> bool:
    """Whether its records begin with the common fields, and its defaults are single values."""
    config, common = kind.__struct_config__, infos[: len(_COMMON)]
    return (
        tuple(info.name for info in common) == tuple(info.encode_name for info in common) == _COMMON
        and all(info.default is NODEFAULT for info in common)
        and all(info.default_factory is NODEFAULT for info in infos)
        and isinstance(config.tag, str)
        and not config.array_like
    )
