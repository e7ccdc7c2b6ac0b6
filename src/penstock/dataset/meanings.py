"""What the columns of frames mean, for the page of schemas."""

import polars as pl

from penstock.dataset.gaps import Coverage
from penstock.dataset.listing import Listing
from penstock.dataset.view import View
from penstock.market.channels import (
    AGG_TRADES,
    BOOK_DELTAS,
    CANDLES,
    TICKERS,
    TICKERS_24H,
    TRADES,
)

MEANINGS = {
    "exchange": "the exchange",
    "symbol": "the market, such as `BTC/USDT`",
    "time": "when it happened by the exchange's clock, or was received where there is no such time;"
    " of a candle, when it opens",
    "time_ns": "the same in nanoseconds since 1970, with every digit the exchange sent",
    "received": "when it was received; null for computed candles",
    "received_ns": "the same in nanoseconds since 1970",
    "source": "`live`, `rest`, `backfill` if it fills a gap, or `computed`; in `coverage`, what"
    " filled a gap",
    "id": "the exchange's id; null if it needs more than 64 bits",
    "price": "the price",
    "quantity": "the quantity, in the base asset",
    "taker": "the side that crossed the spread: `buy` or `sell`",
    "first_trade_id": "the id of its first trade",
    "last_trade_id": "the id of its last trade",
    "interval": "the length, such as `1m`",
    "close_at": "the last millisecond that belongs to it",
    "open": "the first price; of a ticker, 24 hours ago",
    "high": "the highest price",
    "low": "the lowest price",
    "close": "the last price",
    "volume": "the volume, in the base asset",
    "quote_volume": "the volume, in the quote asset",
    "trades": "the number of trades",
    "closed": "whether it has ended",
    "taker_buy_volume": "the volume that takers bought",
    "taker_buy_quote_volume": "the same in the quote asset",
    "vwap": "the volume-weighted average price, where the exchange sends it",
    "is_snapshot": "whether these are the best levels of the book, not its changes",
    "first_update_id": "the first update in it; null where updates have no numbers",
    "update_id": "the last update in it; null or 0 where updates have no numbers",
    "bids": "levels, best first; of a change, the levels that changed: quantity 0 removes one",
    "asks": "the same of the other side",
    "checksum": "the exchange's checksum of the book",
    "bid": "the best bid",
    "bid_quantity": "its quantity",
    "ask": "the best ask",
    "ask_quantity": "its quantity",
    "last": "the price of the last trade; in `coverage`, its last position",
    "channel": "the channel, such as `trades`",
    "state": "`complete`, `gap`, `filled` or `unfillable`",
    "since": "market time of its beginning; null if unknown",
    "until": "market time of its end",
    "by": "what `first` and `last` are: `id`, `open_ms` or `received_ns`",
    "first": "its first position",
    "cause": "why it is missing",
    "origin": "who is responsible: `ours`, `exchange` or `unknown`",
    "reason": "the same in words, of the connection or of the exchange",
}
"""The meaning of every column, by name."""


def frame_schemas() -> dict[str, pl.Schema]:
    """The columns of every kind of frame, by the name of its table."""
    channels = (TRADES, AGG_TRADES, CANDLES, TICKERS, TICKERS_24H)
    return {
        **{row.name: View(row).schema for row in channels},
        "books": View(BOOK_DELTAS, books=True).schema,
        "coverage": Listing(Coverage, []).polars().schema,
    }
