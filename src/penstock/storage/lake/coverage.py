"""The table ``coverage``: what is complete and what is missing, so that a lake alone can tell."""

from collections.abc import Iterable

import polars as pl
import pyarrow as pa

from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

COVERAGE = "coverage"

COVERAGE_COLUMNS = (
    ("exchange", pa.string(), "the exchange; the table is partitioned by it"),
    ("channel", pa.string(), "the channel, such as `trades` or `candles_1m`"),
    ("symbol", pa.string(), "the market, such as `BTC/USDT`"),
    ("by", pa.string(), "what `first` and `last` are: `id`, `open_ms` or `received_ns`"),
    ("first", pa.int64(), "the first position of the interval"),
    ("last", pa.int64(), "its last position, included"),
    ("since", pa.timestamp("us", tz="UTC"), "the market time of its first record"),
    ("until", pa.timestamp("us", tz="UTC"), "the market time of its last record"),
    ("state", pa.string(), "`complete`, `gap`, `filled` or `unfillable`"),
    ("cause", pa.string(), "why data is missing, or was"),
    ("origin", pa.string(), "`ours`, `exchange` or `unknown`"),
    ("reason", pa.string(), "the words of the disconnect or of the exchange"),
    ("source", pa.string(), "what filled it"),
)
"""The columns: name, type, meaning."""

COVERAGE_SCHEMA = pa.schema([(name, held) for name, held, _ in COVERAGE_COLUMNS])


def series_keys(series: Iterable[Stream]) -> pl.DataFrame:
    """The columns that identify these series."""
    keys = [(each.exchange, each.channel, unified(each)) for each in series]
    return pl.DataFrame(keys, ["exchange", "channel", "symbol"], orient="row").cast(pl.String)


def unified(stream: Stream) -> str:
    """The name of a stream's market, as tables have it."""
    return Symbol.parse(stream.symbol).unified
