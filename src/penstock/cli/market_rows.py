"""The rows of a collector's terminal view, one per market: book, trades and missing ids."""

from collections.abc import Iterator
from typing import NamedTuple

from rich.text import Text

from penstock.cli.fitting import Column, Row
from penstock.collect.status import BookStatus, CollectorStatus, StreamStatus
from penstock.market.channels import AGG_TRADES, TRADES

COLUMNS = (
    Column("symbol", 0, least=10, left=True),
    Column("book", 1, least=7, left=True),
    Column("trades", 2, least=7),
    Column("missing", 3),
    Column("per s", 4, least=6),
    Column("price", 7, least=9),
    Column("bid", 5, least=9),
    Column("ask", 6, least=9),
    Column("records", 8, least=9),
    Column("resyncs", 9),
    Column("audits", 10),
    Column("drift", 11),
    Column("last trade id", 12),
    Column("book update id", 13),
)
TROUBLES = (
    "with a book that is not synced",
    "with a silent stream",
    "with ids missing",
    "with a book that was not synced at the end",
)
"""The problems that a market can have, worst first."""
_TRADES = (TRADES.name, AGG_TRADES.name)
_STYLES = {"synced": "green", "syncing": "yellow", "stale": "red", "stopped": "dim"}


def market_rows(status: CollectorStatus) -> list[Row]:
    """A row for each market, sorted by name."""
    books = {book.symbol: book for book in status.books}
    streams: dict[str, list[StreamStatus]] = {}
    for stream in status.streams:
        streams.setdefault(stream.symbol, []).append(stream)
    missing: dict[str, int] = {}
    for ids in status.ids:
        lost = sum(last - first + 1 for first, last in ids.missing)
        missing[ids.symbol] = missing.get(ids.symbol, 0) + lost
    silent = {name.split()[-1] for name in status.stalled}
    return [
        _row(
            _Market(
                symbol,
                streams.get(symbol, []),
                books.get(symbol),
                missing.get(symbol),
                is_silent=symbol in silent,
                has_ended=status.state in ("stopped", "failed"),
            )
        )
        for symbol in sorted({*books, *streams})
    ]


def missing_ids(status: CollectorStatus) -> int:
    """The number of known missing ids."""
    return sum(last - first + 1 for ids in status.ids for first, last in ids.missing)


def trimmed(number: str | None) -> str:
    """A number without trailing zeros."""
    if number is None:
        return ""
    return number.rstrip("0").rstrip(".") if "." in number else number


class _Market(NamedTuple):
    """The status of one market."""

    symbol: str
    streams: list[StreamStatus]
    book: BookStatus | None
    missing: int | None
    """Missing ids; None if ids do not show it."""
    is_silent: bool
    has_ended: bool


def _row(market: _Market) -> Row:
    streams, book, missing = market.streams, market.book, market.missing
    trades = next((each for each in streams if each.channel in _TRADES), None)
    price = next(_prices(streams, trades), None)
    return Row(
        (
            market.symbol,
            Text(book.state, style=_STYLES[book.state]) if book else "",
            f"{trades.records:,}" if trades else "",
            "" if missing is None else Text(f"{missing:,}", style="red" if missing else ""),
            "" if market.has_ended else f"{sum(each.per_second for each in streams):,.0f}",
            trimmed(price),
            trimmed(book.bid if book else None),
            trimmed(book.ask if book else None),
            f"{sum(each.records for each in streams):,}",
            f"{book.resyncs:,}" if book else "",
            f"{book.audits:,}" if book else "",
            f"{book.drift:,}" if book and book.drift is not None else "",
            f"{trades.last_id}" if trades and trades.last_id is not None else "",
            f"{book.update_id}" if book and book.update_id else "",
        ),
        _trouble(market),
    )


def _prices(streams: list[StreamStatus], trades: StreamStatus | None) -> Iterator[str]:
    for each in [*([trades] if trades else []), *streams]:
        if each.last_price:
            yield each.last_price


def _trouble(market: _Market) -> str:
    book = market.book
    if book is not None and book.state not in ("synced", "stopped"):
        return TROUBLES[0]
    if market.is_silent:
        return TROUBLES[1]
    if market.missing:
        return TROUBLES[2]
    return (
        TROUBLES[3] if book is not None and book.state == "stopped" and not book.was_synced else ""
    )
