"""Decodes frames that begin with the name of their stream: ``{"stream":"…","data":{…}}``.

The requested streams are a tagged union for the decoder: one call decodes any frame into the
payload of its stream, and rejects a frame that is not as documented.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Literal, NamedTuple, NoReturn, Union

import msgspec
from msgspec import Struct

from penstock.errors import UnknownChannel
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.events import Event
from penstock.market.symbol import Symbol

PayloadReader = Callable[[Any, Symbol, int], Event]
"""(payload, symbol, received_at_ns) → event. Raises ValidationError."""


def _decode_nothing(_frame: bytes | str) -> NoReturn:
    raise msgspec.ValidationError("Nothing was asked for")


class NamedChannel(NamedTuple):
    """A channel of such frames."""

    suffix: str
    """The end of its streams' names."""
    payload: Any
    """The structure of its payloads; generic in the symbol's native name, where they have it."""
    make: Callable[..., Event]
    """(maker, payload, symbol, received_at_ns) → event. Raises ValidationError."""


class NamedFrames:
    """The streams of one connection, and a decoder for their frames."""

    def __init__(
        self,
        symbols: SymbolMap,
        channels: Mapping[str, NamedChannel],
        maker: object,
        name_of: Callable[[str, str], str],
    ) -> None:
        """``name_of`` is (native name, suffix) → name of a stream."""
        self._symbols, self._channels = symbols, channels
        self._maker, self._name_of = maker, name_of
        self._streams: dict[str, type[Struct]] = {}
        """The structure of each stream's frames."""
        self._readers: dict[type[Struct], tuple[PayloadReader, Symbol]] = {}
        self._decode: Callable[[bytes | str], Any] = _decode_nothing

    def __contains__(self, name: str) -> bool:
        return name in self._streams

    def add(self, channel: str, symbols: Sequence[Symbol]) -> list[tuple[str, str, Symbol]]:
        """Add streams. Returns the name, the market's native name and the symbol of each.

        A payload that is generic has the native name in a field; other names are rejected.

        Raises:
            UnknownChannel: there is no such channel.
        """
        if channel not in self._channels:
            raise UnknownChannel(self._symbols.exchange, channel, tuple(self._channels))
        suffix, payload, make = self._channels[channel]
        read: PayloadReader = MethodType(make, self._maker)
        streams = []
        for symbol in symbols:
            native = self._symbols.native(symbol)
            name = self._name_of(native, suffix)
            if name not in self._streams:
                envelope = self._streams[name] = _envelope(name, native, payload)
                self._readers[envelope] = read, symbol
            streams.append((name, native, symbol))
        if self._streams:
            any_of_them: Any = Union[tuple(self._streams.values())]  # noqa: UP007 (of any number)
            self._decode = msgspec.json.Decoder(any_of_them).decode
        return streams

    def event(self, frame: bytes | str, received_at_ns: int) -> list[Event]:
        """The event of a frame, in a list. Raises what msgspec and the readers raise."""
        envelope = self._decode(frame)
        read, symbol = self._readers[type(envelope)]
        return [read(envelope.data, symbol, received_at_ns)]

    def events(self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]) -> list[Event]:
        """The same for many frames."""
        envelopes = list(map(self._decode, frames))
        readers = map(self._readers.__getitem__, map(type, envelopes))
        return [
            read(envelope.data, symbol, at_ns)
            for (read, symbol), envelope, at_ns in zip(
                readers, envelopes, received_at_ns, strict=True
            )
        ]


def _envelope(stream: str, native: str, payload: Any) -> type[Struct]:
    data = payload[Literal[native]] if hasattr(payload, "__parameters__") else payload
    return msgspec.defstruct("Envelope", [("data", data)], tag_field="stream", tag=stream, gc=False)
