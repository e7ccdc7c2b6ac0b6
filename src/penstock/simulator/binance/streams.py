"""Finds the feed of a stream's name.

Symbols are lower case in stream names. An invalid name, or one of an unlisted symbol, has no feed;
a client may subscribe to it and receives nothing, as on the real exchange.
"""

import re
from collections.abc import Mapping, Sequence

from penstock.simulator.binance import feeds
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import HOUR_MS, LENGTHS_MS, SECOND_MS, Period, window_ms
from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.engine.pacing import Frames

ALL_MINI_TICKERS = "!miniTicker@arr"
SLOW_MS, FAST_MS = SECOND_MS, 100

_KLINE = re.compile(r"kline_(\w+?)(@\+08:00)?")
_DEPTH = re.compile(r"depth(5|10|20)?(@100ms)?")
_ROLLING = re.compile(r"ticker_(1h|4h|1d)")
_UTC_8_MS = 8 * HOUR_MS


class Streams:
    """All streams of the exchange, by name."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self._instruments = instruments
        self._by_name: Mapping[str, Instrument] = {
            each.symbol.lower(): each for each in instruments
        }

    def feed(self, stream: str) -> StreamFeed | None:
        """The feed of that name."""
        frames = self._frames(stream)
        return None if frames is None else StreamFeed(stream, frames)

    def _frames(self, stream: str) -> Frames | None:
        if stream == ALL_MINI_TICKERS:
            return feeds.mini_tickers(self._instruments)
        name, _, kind = stream.partition("@")
        instrument = self._by_name.get(name)
        return None if instrument is None else _frames_of(instrument, kind)


def _frames_of(instrument: Instrument, kind: str) -> Frames | None:
    match kind:
        case "trade":
            return feeds.trades(instrument)
        case "aggTrade":
            return feeds.agg_trades(instrument)
        case "bookTicker":
            return feeds.touches(instrument)
        case "ticker":
            return feeds.day_ticker(instrument)
        case "miniTicker":
            return feeds.mini_ticker(instrument)
        case "avgPrice":
            return feeds.average_price(instrument)
    if found := _DEPTH.fullmatch(kind):
        every_ms = FAST_MS if found[2] else SLOW_MS
        if found[1]:
            return feeds.top(instrument, int(found[1]), every_ms)
        return feeds.depth(instrument, every_ms)
    if (found := _KLINE.fullmatch(kind)) and found[1] in LENGTHS_MS:
        return feeds.candles(instrument, Period(found[1], _UTC_8_MS if found[2] else 0))
    if found := _ROLLING.fullmatch(kind):
        return feeds.rolling_ticker(instrument, found[1], window_ms(found[1]) or 0)
    return None
