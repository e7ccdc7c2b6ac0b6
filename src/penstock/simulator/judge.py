"""The judge: what a client says it has, held against the ledger.

It works after the fact and apart from the client: it alone reads ``/_sim/``. A client hands in its
evidence; the judge finds out what is missing, what came twice and what is wrong.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import aiohttp
import msgspec
from msgspec import Struct

_PAGE = 10_000
_DEPTH = 20_000


class SeenTrade(NamedTuple):
    """A trade as the client has it."""

    id: int
    at_ms: int
    price: Decimal
    quantity: Decimal
    taker_buys: bool


class SeenBook(NamedTuple):
    """A book as the client has it, at one update id."""

    update_id: int
    bids: Sequence[tuple[Decimal, Decimal]]
    asks: Sequence[tuple[Decimal, Decimal]]
    lowest: Decimal
    """Below this price the client never saw the book: its snapshot ended there."""
    highest: Decimal


class Findings(Struct, frozen=True, kw_only=True):
    """What the judge found."""

    trades: int = 0
    trades_missing: int = 0
    trades_duplicated: int = 0
    trades_wrong: int = 0
    books_synced: int = 0
    book_mismatches: int = 0
    requests: int = 0
    http_429: int = 0
    http_418: int = 0
    windows_over_limit: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing is missing, doubled, wrong or over a limit."""
        return not (
            self.trades_missing
            or self.trades_duplicated
            or self.trades_wrong
            or self.book_mismatches
            or self.http_429
            or self.http_418
            or self.windows_over_limit
        )


class Judge:
    """Reads the ledger of one simulator and compares."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http, self._base = http, f"{address}/_sim"

    async def judge(
        self, trades: Mapping[str, Sequence[SeenTrade]], books: Mapping[str, SeenBook | None]
    ) -> Findings:
        """Findings over everything handed in, by slug; a book that is None was not synced."""
        missing = duplicated = wrong = mismatches = 0
        for slug, seen in trades.items():
            counts = await self._judge_trades(slug, seen)
            missing, duplicated, wrong = (
                missing + counts[0], duplicated + counts[1], wrong + counts[2]
            )  # fmt: skip
        for slug, book in books.items():
            if book is not None:
                mismatches += not await self._book_is_right(slug, book)
        statuses, over = await self._judge_requests()
        return Findings(
            trades=sum(map(len, trades.values())),
            trades_missing=missing,
            trades_duplicated=duplicated,
            trades_wrong=wrong,
            books_synced=sum(book is not None for book in books.values()),
            book_mismatches=mismatches,
            requests=statuses.total(),
            http_429=statuses[429],
            http_418=statuses[418],
            windows_over_limit=over,
        )

    async def _judge_trades(self, slug: str, seen: Sequence[SeenTrade]) -> tuple[int, int, int]:
        by_id = {trade.id: trade for trade in seen}
        if not by_id:
            return 0, 0, 0
        first, last = min(by_id), max(by_id)
        missing = wrong = 0
        for start in range(first, last + 1, _PAGE):
            limit = min(_PAGE, last + 1 - start)
            page = await self._get("ledger/trades", symbol=slug, from_id=start, limit=limit)
            for row in page["trades"]:
                trade = by_id.get(row["id"])
                if trade is None:
                    missing += 1
                elif trade != _true_trade(row):
                    wrong += 1
        return missing, len(seen) - len(by_id), wrong

    async def _book_is_right(self, slug: str, book: SeenBook) -> bool:
        truth = await self._get("ledger/book", symbol=slug, update_id=book.update_id, depth=_DEPTH)
        bids = [level for level in _levels(truth["bids"]) if level[0] >= book.lowest]
        asks = [level for level in _levels(truth["asks"]) if level[0] <= book.highest]
        return bids == [level for level in book.bids if level[0] >= book.lowest] and asks == [
            level for level in book.asks if level[0] <= book.highest
        ]

    async def _judge_requests(self) -> tuple[Counter[int], int]:
        statuses: Counter[int] = Counter()
        after = 0
        while rows := (await self._get("requests", after=after))["requests"]:
            statuses.update(row["status"] for row in rows)
            after = rows[-1]["seq"]
        windows = (await self._get("windows"))["windows"]
        return statuses, sum(bool(window["refusals"]) for window in windows)

    async def _get(self, question: str, **parameters: str | int) -> Any:
        async with self._http.get(f"{self._base}/{question}", params=parameters) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read())


def _true_trade(row: Mapping[str, Any]) -> SeenTrade:
    return SeenTrade(
        row["id"], row["at_ms"], Decimal(row["price"]), Decimal(row["quantity"]), row["taker_buys"]
    )


def _levels(rows: Sequence[tuple[str, str]]) -> list[tuple[Decimal, Decimal]]:
    return [(Decimal(price), Decimal(quantity)) for price, quantity in rows]
