"""Recorded events in the exchanges' own formats: one file per exchange, named after it.

Each is the reverse of the exchange's dialect: it says which recorded stream a subscription gets and
encodes its events as the exchange sends them. Connections and subscriptions are handled by the
simulated exchange, as is the list of markets.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import NamedTuple, Protocol, cast

from penstock.errors import UnknownExchange
from penstock.market.events import BookSnapshot, Event, Trade
from penstock.market.symbol import Symbol
from penstock.simulator.engine.exchange import Query, Reply

SHARED = ("formats",)
"""Files that are not exchanges."""


class Wanted(NamedTuple):
    """What a subscription gets: the events of some channels of one market."""

    symbol: Symbol
    channels: tuple[str, ...]


class Recorded(Protocol):
    """What the replay has reached."""

    def book(self, symbol: Symbol) -> BookSnapshot | None:
        """The whole book, or the snapshot with which the recording begins; None if unknown."""
        ...

    def trades(self, symbol: Symbol) -> Sequence[Trade]:
        """The latest trades, oldest first."""
        ...


Answer = Callable[[Query, Recorded], bytes | Reply]
"""The response to a request, from what the replay has reached."""


class NativeExchange(Protocol):
    """One exchange's formats, for the markets of a replay."""

    kept: Sequence[str]
    """REST paths that the simulated exchange answers: its clock and its list of markets."""
    answers: Mapping[str, Answer]
    """REST paths that are answered from the records."""
    heartbeats: Sequence[str]
    """Beginnings of the names of streams that the simulated exchange sends."""

    def wanted(self, stream: str) -> Wanted | None:
        """What a stream gets; None if nothing was or can be recorded of it."""
        ...

    def frames(self, event: Event, stream: str) -> list[bytes]:
        """The frames that carry an event on a stream."""
        ...

    def opening(self, book: BookSnapshot, stream: str) -> list[bytes]:
        """The frames with which the stream of a book begins, where there are any."""
        ...


class _NativeModule(Protocol):
    def make(self, symbols: Iterable[Symbol]) -> NativeExchange: ...


def names() -> list[str]:
    """The exchanges that a replay can stand in for."""
    return sorted({each.name for each in iter_modules(__path__)} - set(SHARED))


def native_exchange(name: str, symbols: Iterable[Symbol]) -> NativeExchange:
    """The formats of an exchange.

    Raises:
        UnknownExchange: a replay cannot stand in for it.
    """
    if name not in names():
        raise UnknownExchange(name, names())
    module = cast("_NativeModule", import_module(f"{__name__}.{name}"))
    return module.make(symbols)
