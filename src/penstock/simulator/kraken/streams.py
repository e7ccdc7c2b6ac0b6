"""Defines the simulator's stream names: channel, option, pair, and whether a snapshot is sent.

The names, such as ``book-10/BTC/USD+snapshot``, are used by fault plans and in the list of
connections, but never sent to clients.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.kraken import feeds
from penstock.simulator.kraken.instrument import Instrument

HEARTBEAT, INSTRUMENT = "heartbeat", "instrument"
_SNAPSHOT = "+snapshot"
_NAME = re.compile(r"(?P<channel>[a-z]+)(?:-(?P<option>\w+))?(?:/(?P<symbol>[^+]+))?")


class Stream(NamedTuple):
    """One subscription."""

    channel: str
    symbol: str = ""
    option: str = ""
    """Depth, interval or trigger."""
    snapshot: bool = False

    @property
    def name(self) -> str:
        """The name of the stream."""
        option, symbol = (f"-{self.option}" if self.option else ""), self.symbol
        return f"{self.channel}{option}{symbol and '/' + symbol}{_SNAPSHOT * self.snapshot}"

    @property
    def place(self) -> tuple[str, ...]:
        """The key that is unique per connection: a pair's book has one depth, candles several."""
        several = (self.option,) if self.channel == "ohlc" else ()
        return (self.channel, self.symbol, *several)


def read(name: str) -> Stream:
    """Parse the name of a stream."""
    match = _NAME.match(name)
    if match is None:
        return Stream(name)
    snapshot = name.endswith(_SNAPSHOT)
    return Stream(match["channel"], match["symbol"] or "", match["option"] or "", snapshot)


class Streams:
    """All streams of the exchange, by name."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._instruments = instruments
        self._by_symbol: Mapping[str, Instrument] = {each.symbol: each for each in instruments}

    def lists(self, symbol: str, at_ms: int) -> bool:
        """Whether the pair is listed at a time."""
        instrument = self._by_symbol.get(symbol)
        return instrument is not None and instrument.listed_at_ms <= at_ms

    def feed(self, name: str) -> StreamFeed | None:
        """The feed of that name."""
        channel, symbol, option, snapshot = read(name)
        if channel == HEARTBEAT:
            return feeds.heartbeat(name)
        if channel == INSTRUMENT:
            return feeds.instruments(name, self._instruments, snapshot)
        instrument = self._by_symbol.get(symbol)
        if instrument is None:
            return None
        match channel:
            case "trade":
                return feeds.trades(name, instrument, snapshot)
            case "ticker":
                return feeds.ticker(name, instrument, snapshot)
            case "book":
                return feeds.book(name, instrument, int(option), snapshot)
            case "ohlc":
                return feeds.ohlc(name, instrument, int(option), snapshot)
        return None
