"""The documents of a market: its book, latest trades and candles. Numbers are exact texts."""

from typing import Literal

from msgspec import Struct

Badge = Literal["synced", "stale", "resyncing", "no book"]
"""The state of the shown book: as the exchange's; the last one known; waiting for a snapshot; not
collected."""
CandleInterval = Literal["1s", "5s", "15s", "1m", "5m", "15m", "1h", "1d"]

LevelPair = tuple[str, str]
"""Price and quantity."""


class BookSides(Struct, frozen=True, kw_only=True):
    """The best levels of a book, best first."""

    bids: list[LevelPair]
    asks: list[LevelPair]


class TradeRow(Struct, frozen=True, kw_only=True):
    """One trade."""

    id: str
    """The exchange's id, as text: some are too long for a number in JavaScript."""
    at_ms: int
    price: str
    quantity: str
    side: Literal["buy", "sell"]
    """Which side crossed the spread."""


class CandleRow(Struct, frozen=True, kw_only=True):
    """The candle that is not closed yet."""

    interval: CandleInterval
    at_ms: int
    """When it opened."""
    open: str
    high: str
    low: str
    close: str
    volume: str


class MarketDocument(Struct, frozen=True, kw_only=True):
    """One market, as of now."""

    exchange: str
    symbol: str
    badge: Badge
    why: str
    """Why the book is not synced."""
    sequence: int | None
    """The update id of the book; None where the exchange does not number its updates."""
    bid: str | None
    ask: str | None
    spread: str | None
    spread_bps: str | None
    """The spread in hundredths of a percent of the price between bid and ask."""
    book: BookSides
    """At most 50 levels a side, as far as they are known."""
    trades: list[TradeRow]
    """The newest 50 at most, newest first."""
    candle: CandleRow | None
    """The candle of now; None if there was no trade in it."""
    last_ms: int | None
    """When the latest record was received."""
    book_ms: int | None
    """When the latest change of the book was received."""


Candles = tuple[int, str, str, str, str, str]
"""When it opened, open, high, low, close and volume."""


class CandleGap(Struct, frozen=True, kw_only=True):
    """A range in which trades or candles are missing."""

    since_ms: int
    until_ms: int
    state: Literal["open", "filled", "unfillable"]
    reason: str


CandleSource = Literal["candles", "trades", "candles and trades", "lake", "nothing"]


class CandlesDocument(Struct, frozen=True, kw_only=True):
    """Candles of one market, oldest first. The last one may still change."""

    exchange: str
    symbol: str
    interval: CandleInterval
    items: list[Candles]
    gaps: list[CandleGap]
    source: CandleSource
    """What they were made from."""
    since_ms: int
    """What is recorded is included from this time on; earlier candles were not read."""
