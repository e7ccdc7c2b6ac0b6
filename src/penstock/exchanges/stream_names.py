"""Names the streams of one connection, ``kind:market``, and maps them to what they are of."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.errors import UnknownChannel
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.symbol import Symbol

Asked = Mapping[str, Mapping[str, Symbol]]
"""Requested symbols, by kind of stream and the exchange's name."""

_REMEMBERED_REQUESTS = 100


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
        self._requests: dict[int, dict[str, str]] = {}

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

    def remember(self, request_id: int, names: Sequence[str]) -> None:
        """Store what a request named. The oldest requests are forgotten."""
        self._requests[request_id] = {self.streams[name].native: name for name in names}
        if len(self._requests) > _REMEMBERED_REQUESTS:
            del self._requests[next(iter(self._requests))]

    def requested(self, request_id: int) -> Mapping[str, str]:
        """The streams that a request named, by the exchange's name; empty if it is forgotten."""
        return self._requests.get(request_id, {})

    def of_one_kind(self, names: Sequence[str]) -> tuple[str, list[str]]:
        """The kind that these streams share, and the exchange's names of their markets."""
        (kind,) = {self.streams[name].kind for name in names}
        return kind, [self.streams[name].native for name in names]
