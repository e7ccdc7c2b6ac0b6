"""The wanted streams of a connection: channel and symbol here, a name at the exchange."""

from collections.abc import Iterable, Iterator

from penstock.market import channels
from penstock.market.symbol import Symbol
from penstock.streaming.commands import Subscription
from penstock.streaming.dialect import Dialect

StreamKey = tuple[str, Symbol]
"""A channel and a symbol."""


class Subscriptions:
    """Wanted symbols by channel, each once."""

    def __init__(self, wanted: Iterable[Subscription] = ()) -> None:
        self._channels: dict[str, dict[Symbol, None]] = {}
        for each in wanted:
            self.add(each)

    def __iter__(self) -> Iterator[Subscription]:
        return (Subscription(channel, tuple(each)) for channel, each in self._channels.items())

    def stream_keys(self) -> list[StreamKey]:
        """Return all streams."""
        return [(channel, symbol) for channel, each in self._channels.items() for symbol in each]

    def add(self, wanted: Subscription) -> None:
        """Add streams."""
        self._channels.setdefault(wanted.channel, {}).update(dict.fromkeys(wanted.symbols))

    def remove(self, wanted: Subscription) -> None:
        """Remove streams."""
        symbols = self._channels.get(wanted.channel, {})
        for symbol in wanted.symbols:
            symbols.pop(symbol, None)
        if not symbols:
            self._channels.pop(wanted.channel, None)

    @classmethod
    def of(cls, stream_keys: Iterable[StreamKey]) -> "Subscriptions":
        """Create from stream keys."""
        wanted = cls()
        for channel, symbol in stream_keys:
            wanted.add(Subscription(channel, (symbol,)))
        return wanted


class WantedStreams:
    """The streams of one connection, by key and by name."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._names: dict[StreamKey, str] = {}
        self._stream_keys: dict[str, StreamKey] = {}
        """Includes removed streams: a late answer may name one."""
        self._books: dict[str, Symbol] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._names)

    def add(self, wanted: Subscription) -> list[StreamKey]:
        """Add streams; return the keys of the new ones.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have one; none was added.
        """
        channel = wanted.channel
        channels.check([channel])
        fresh = [each for each in wanted.symbols if (channel, each) not in self._names]
        names, stream_keys = (
            self._dialect.streams(channel, fresh),
            [(channel, each) for each in fresh],
        )
        self._names.update(zip(stream_keys, names, strict=True))
        self._stream_keys.update(zip(names, stream_keys, strict=True))
        if channel == channels.BOOK_DELTAS.name:
            self._books.update(zip(names, fresh, strict=True))
        return stream_keys

    def remove(self, wanted: Subscription) -> list[str]:
        """Remove streams; return the names of those that were present."""
        stream_keys = [(wanted.channel, symbol) for symbol in wanted.symbols]
        names = [
            self._names.pop(stream_key) for stream_key in stream_keys if stream_key in self._names
        ]
        for name in names:
            self._books.pop(name, None)
        return names

    def name(self, channel: str, symbol: Symbol) -> str | None:
        """Return the exchange's name of a stream."""
        return self._names.get((channel, symbol))

    def book_of(self, name: str) -> Symbol | None:
        """Return the symbol of a book's stream; None for other streams."""
        return self._books.get(name)

    def names(self, stream_keys: Iterable[StreamKey]) -> list[str]:
        """Return the exchange's names of these streams."""
        return [self._names[stream_key] for stream_key in stream_keys]

    def key(self, name: str) -> StreamKey | None:
        """Return the stream with this name; it may have been removed."""
        return self._stream_keys.get(name)

    def group_of(self, name: str) -> str:
        """Return the group of a stream; one message may request streams of one group."""
        return "" if self._dialect.limits.mixed_channels else self._stream_keys[name][0]
