"""Names the streams of one connection, ``kind:market``, and maps them to what they are of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.errors import UnknownChannel
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol

Asked = Mapping[str, Mapping[str, Symbol]]
"""Requested symbols, by kind of stream and the exchange's name."""


class Stream(NamedTuple):
    """What a stream is of."""

    kind: str
    """The exchange's name of the channel."""
    native: str
    """The exchange's name of the market."""
    channel: str
    symbol: Symbol


class StreamNames:
    """The streams that a connection may request."""

    def __init__(self, symbols: SymbolMap, kinds: Mapping[str, str]) -> None:
        """``kinds`` has the exchange's name of each channel."""
        self._symbols, self._kinds = symbols, kinds
        self.streams: dict[str, Stream] = {}
        """Streams by name."""
        self.symbols: dict[str, dict[str, Symbol]] = {kind: {} for kind in kinds.values()}
        """Symbols by the exchange's name, of each kind."""

    def add(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """See ``Dialect.streams``."""
        kind = self._kinds.get(channel)
        if kind is None:
            raise UnknownChannel(self._symbols.exchange, channel, tuple(self._kinds))
        names = []
        for symbol in symbols:
            native = self._symbols.stream_name(symbol)
            self.symbols[kind][native] = symbol
            self.streams[f"{kind}:{native}"] = Stream(kind, native, channel, symbol)
            names.append(f"{kind}:{native}")
        return names
