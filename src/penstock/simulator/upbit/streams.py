"""Finds the feed of a stream's name."""

from collections.abc import Mapping, Sequence

from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.upbit import feeds
from penstock.simulator.upbit.control import (
    CANDLES,
    ONLY_REALTIME,
    ONLY_SNAPSHOT,
    UNITS,
    read_name,
)
from penstock.simulator.upbit.instrument import Instrument


class Streams:
    """All streams of the exchange, by name."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._by_code: Mapping[str, Instrument] = {each.code: each for each in instruments}

    def feed(self, name: str) -> StreamFeed | None:
        """The feed of that name."""
        kind, asked, form, part = read_name(name)
        code, _, units = asked.partition(".")
        instrument = self._by_code.get(code)
        if instrument is None:
            return None
        if kind == "trade":
            feed = feeds.trades(name, instrument, form)
        elif kind == "ticker":
            feed = feeds.ticker(name, instrument, form)
        elif kind == "orderbook":
            # An unsupported number of levels means all.
            known = {str(each): each for each in UNITS}
            feed = feeds.book(name, instrument, form, known.get(units, feeds.MOST_UNITS))
        elif kind in CANDLES:
            feed = feeds.candle(name, instrument, form, CANDLES[kind])
        else:
            return None
        if part == ONLY_REALTIME:
            return feeds.only_realtime(feed)
        return feeds.only_snapshot(feed) if part == ONLY_SNAPSHOT else feed
