"""The markets of which data was collected."""

from msgspec import Struct


class CollectedMarket(Struct, frozen=True, kw_only=True):
    """One market."""

    exchange: str
    symbol: str
    channels: list[str]
    last_ms: int | None
    """The market time of its latest record in the ledger."""


class Collected(Struct, frozen=True, kw_only=True):
    """All markets, by exchange and symbol."""

    items: list[CollectedMarket]
