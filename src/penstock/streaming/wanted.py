"""What a connection is to stream: channel and symbol on our side, a name on the exchange's."""

from collections.abc import Iterable, Iterator

from penstock.market.symbol import Symbol
from penstock.streaming.commands import Subscription
from penstock.streaming.dialect import Dialect

Place = tuple[str, Symbol]
"""A channel and a symbol."""


class Subscriptions:
    """What is wanted, channel by channel, each symbol once."""

    def __init__(self, wanted: Iterable[Subscription] = ()) -> None:
        self._channels: dict[str, dict[Symbol, None]] = {}
        for each in wanted:
            self.add(each)

    def __iter__(self) -> Iterator[Subscription]:
        return (Subscription(channel, tuple(each)) for channel, each in self._channels.items())

    def places(self) -> list[Place]:
        """The same, stream by stream."""
        return [(channel, symbol) for channel, each in self._channels.items() for symbol in each]

    def add(self, wanted: Subscription) -> None:
        """Want this too."""
        self._channels.setdefault(wanted.channel, {}).update(dict.fromkeys(wanted.symbols))

    def remove(self, wanted: Subscription) -> None:
        """Want this no longer."""
        symbols = self._channels.get(wanted.channel, {})
        for symbol in wanted.symbols:
            symbols.pop(symbol, None)
        if not symbols:
            self._channels.pop(wanted.channel, None)

    @classmethod
    def of(cls, places: Iterable[Place]) -> "Subscriptions":
        """The same, given stream by stream."""
        wanted = cls()
        for channel, symbol in places:
            wanted.add(Subscription(channel, (symbol,)))
        return wanted


class Wanted:
    """The streams of one connection, by place and by name."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._names: dict[Place, str] = {}
        self._places: dict[str, Place] = {}
        """Those that are wanted no longer included: a late answer may name one."""
        self._books: dict[str, Symbol] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._names)

    def add(self, wanted: Subscription) -> list[Place]:
        """Learn the names of streams; the places of those that were not known.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have one; none was added.
        """
        channel = wanted.channel
        fresh = [each for each in wanted.symbols if (channel, each) not in self._names]
        names, places = self._dialect.streams(channel, fresh), [(channel, each) for each in fresh]
        self._names.update(zip(places, names, strict=True))
        self._places.update(zip(names, places, strict=True))
        if channel == "book_deltas":
            self._books.update(zip(names, fresh, strict=True))
        return places

    def remove(self, wanted: Subscription) -> list[str]:
        """Forget streams; the names of those that were known."""
        places = [(wanted.channel, symbol) for symbol in wanted.symbols]
        names = [self._names.pop(place) for place in places if place in self._names]
        for name in names:
            self._books.pop(name, None)
        return names

    def name(self, channel: str, symbol: Symbol) -> str | None:
        """What the exchange calls a stream."""
        return self._names.get((channel, symbol))

    def book_of(self, name: str) -> Symbol | None:
        """Whose book a stream tells of, if it does."""
        return self._books.get(name)

    def names(self, places: Iterable[Place]) -> list[str]:
        """What the exchange calls these streams."""
        return [self._names[place] for place in places]

    def place(self, name: str) -> Place | None:
        """Which stream the exchange calls so; it may be wanted no longer."""
        return self._places.get(name)

    def group_of(self, name: str) -> str:
        """What streams that may be asked for in one message have in common."""
        return "" if self._dialect.limits.mixed_channels else self._places[name][0]
