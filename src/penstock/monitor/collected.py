"""The markets of which data was collected."""

from collections.abc import AsyncIterable

from msgspec import Struct

from penstock.monitor.series import unified
from penstock.storage.state import Document


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


async def collected_from(documents: AsyncIterable[Document]) -> Collected:
    """The markets of the ledger's documents."""
    channels: dict[tuple[str, str], set[str]] = {}
    latest: dict[tuple[str, str], int] = {}
    async for each in documents:
        market = each["exchange"], each["symbol"]
        channels.setdefault(market, set()).add(each["channel"])
        for _, _, _, until_ms in each.get("runs", [])[-1:]:
            latest[market] = max(until_ms, latest.get(market, 0))
    return Collected(
        items=[
            CollectedMarket(
                exchange=exchange,
                symbol=unified(slug),
                channels=sorted(channels[exchange, slug]),
                last_ms=latest.get((exchange, slug)),
            )
            for exchange, slug in sorted(channels)
        ]
    )
