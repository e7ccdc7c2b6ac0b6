"""How candles of published files are compared with the exchange's."""

from collections.abc import Awaitable, Callable

from penstock.market.events import Candle


def compared_by(
    fetch: Callable[[int, int], Awaitable[list[Candle]]], length_ms: int
) -> Callable[[Candle], Awaitable[str]]:
    """How a candle differs from the exchange's; ``fetch`` requests those that begin in a range."""

    async def difference(row: Candle) -> str:
        page = await fetch(row.open_ms, row.open_ms + length_ms)
        if [*map(_content, page)] == [_content(row)]:
            return ""
        found = page[0].summary if page else "none"
        return f"it has {row.summary}, and the exchange has {found}"

    return difference


def _content(candle: Candle) -> tuple[object, ...]:
    prices = candle.open, candle.high, candle.low, candle.close
    return candle.open_ms, *prices, candle.volume, candle.trades
