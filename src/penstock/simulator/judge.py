"""Compares what a client recorded with the ledger.

The judge runs after the client and separately from it: only the judge reads ``/_sim/``. From the
client's evidence it counts what is missing, duplicated or wrong, and whether the client reported
what it missed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import aiohttp
import msgspec
from msgspec import Struct
from msgspec.structs import asdict

_PAGE = 10_000
_NO_SUCH_BOOK = 400
_NO_ROWS = (1 << 63) - 1


class SeenTrade(NamedTuple):
    """A trade as the client recorded it."""

    id: int
    at_ms: int
    price: Decimal
    quantity: Decimal
    taker_buys: bool


class SeenBook(NamedTuple):
    """The best levels of a client's synced book after one update."""

    update_id: int
    bids: Sequence[tuple[Decimal, Decimal]]
    asks: Sequence[tuple[Decimal, Decimal]]
    at_ms: int | None = None
    """The time of that update, where the exchange has no ids; used instead of the id."""


@dataclass
class Evidence:
    """Everything that a client recorded of one market."""

    trades: list[SeenTrade] = field(default_factory=list)
    consecutive: bool = True
    """Whether the exchange numbers its trades consecutively, as the ledger does."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of trade ids that the client reports as missing, both ends included."""
    books: list[SeenBook] = field(default_factory=list)
    synced: bool = False
    """Whether the client's book was synced at the end."""


class Findings(Struct, frozen=True, kw_only=True):
    """The results of a comparison."""

    trades: int = 0
    trades_missing: int = 0
    trades_duplicated: int = 0
    trades_wrong: int = 0
    gaps_unlisted: int = 0
    """Trades that are missing and that the client did not report."""
    gaps_untrue: int = 0
    """Trades that the client reports as missing but that are not."""
    gaps_unknowable: int = 0
    """Missing trades that a client cannot detect, since the exchange's ids do not show gaps."""
    gaps_open: int = 0
    """Gaps in the ledger of coverage that are neither filled nor known to be unfillable."""
    books_synced: int = 0
    books_checked: int = 0
    book_mismatches: int = 0
    requests: int = 0
    http_429: int = 0
    """Requests and connects that were refused, also where the response was a 200 with an error."""
    http_418: int = 0
    """Requests and connects of a banned address."""

    @property
    def honest(self) -> bool:
        """Nothing is duplicated, wrong or over a limit, and every detectable gap is reported."""
        return not (
            self.trades_duplicated
            or self.trades_wrong
            or self.gaps_unlisted
            or self.gaps_untrue
            or self.book_mismatches
            or self.http_429
            or self.http_418
        )

    @property
    def empty(self) -> bool:
        """There was nothing to compare."""
        return not (self.trades or self.books_checked)

    @property
    def clean(self) -> bool:
        """Honest, and nothing is missing."""
        return self.honest and not self.trades_missing


def total(findings: Iterable[Findings]) -> Findings:
    """The sum of several findings, field by field."""
    counts: Counter[str] = Counter()
    for each in findings:
        counts.update(asdict(each))
    return Findings(**counts)


class Judge:
    """Compares evidence with the ledger of one simulator."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http, self._base = http, f"{address}/_sim"

    async def exchange(self) -> str:
        """The name of the simulated exchange."""
        return str((await self._get("state"))["exchange"])

    async def judge(self, markets: Mapping[str, Evidence]) -> Findings:
        """The findings over all evidence, given by slug."""
        counts: Counter[str] = Counter()
        for slug, evidence in markets.items():
            counts["books_synced"] += evidence.synced
            if evidence.consecutive:
                counts += await self._judge_trades(slug, evidence)
            elif evidence.trades:
                counts += await self._judge_unnumbered(slug, evidence.trades)
            for book in evidence.books:
                counts["books_checked"] += 1
                counts["book_mismatches"] += not await self._book_is_right(slug, book)
        return Findings(**(counts + await self._judge_requests()))

    async def _judge_trades(self, slug: str, evidence: Evidence) -> Counter[str]:
        seen = {trade.id: trade for trade in evidence.trades}
        listed = {n for first, last in evidence.missing for n in range(first, last + 1)}
        counts = Counter(trades=len(evidence.trades))
        counts["trades_duplicated"] = len(evidence.trades) - len(seen)
        known = seen.keys() | listed
        # The ledger also has future trades. A trade that has not happened can be neither recorded
        # nor missed.
        beyond = await self._next_id(slug)
        never = {number for number in known if not 1 <= number < beyond}
        counts["trades_wrong"] = len(never & seen.keys())
        counts["gaps_untrue"] = len(never - seen.keys())
        end = min(max(known, default=-1) + 1, beyond)
        for start in range(max(1, min(known, default=1)), end, _PAGE):
            limit = min(_PAGE, end - start)
            page = await self._get("ledger/trades", symbol=slug, from_id=start, limit=limit)
            for row in page["trades"]:
                number = row["id"]
                counts["trades_missing"] += number not in seen
                counts["gaps_unlisted"] += number not in known
                counts["gaps_untrue"] += number in seen and number in listed
                counts["trades_wrong"] += number in seen and seen[number] != _true_trade(row)
        return counts

    async def _judge_unnumbered(self, slug: str, trades: Sequence[SeenTrade]) -> Counter[str]:
        """Compare trades by all fields except the id, which differs from the ledger's."""
        first_ms, last_ms = min(t.at_ms for t in trades), max(t.at_ms for t in trades)
        seen = Counter(once[1:] for once in {trade.id: trade for trade in trades}.values())
        counts = Counter(trades=len(trades), trades_duplicated=len(trades) - seen.total())
        beyond = await self._id_at(slug, min(last_ms + 1, await self._now_ms()))
        truth: Counter[tuple[int, Decimal, Decimal, bool]] = Counter()
        for start in range(await self._id_at(slug, first_ms), beyond, _PAGE):
            limit = min(_PAGE, beyond - start)
            page = await self._get("ledger/trades", symbol=slug, from_id=start, limit=limit)
            truth.update(_true_trade(row)[1:] for row in page["trades"])
        counts["trades_wrong"] = (seen - truth).total()
        # Of the first and the last millisecond the client may have recorded only a part.
        missing = [t for t in (truth - seen).elements() if t[0] not in (first_ms, last_ms)]
        counts["trades_missing"] = counts["gaps_unknowable"] = len(missing)
        return counts

    async def _next_id(self, slug: str) -> int:
        """The id of the first trade that has not happened yet."""
        return await self._id_at(slug, await self._now_ms())

    async def _now_ms(self) -> int:
        return int((await self._get("state"))["at_ms"])

    async def _id_at(self, slug: str, at_ms: int) -> int:
        """The id of the first trade at or after a time."""
        found = await self._get("ledger/ids", symbol=slug, at_ms=at_ms)
        return int(found["next_trade_id"])

    async def _book_is_right(self, slug: str, book: SeenBook) -> bool:
        if book.at_ms is None:
            return await self._is_book(slug, book, update_id=book.update_id)
        # The time does not tell whether it came by a stream or by REST.
        return await self._is_book(slug, book, at_ms=book.at_ms) or await self._is_book(
            slug, book, snapshot_ms=book.at_ms
        )

    async def _is_book(self, slug: str, book: SeenBook, **which: int) -> bool:
        depth = max(len(book.bids), len(book.asks), 1)
        try:
            truth = await self._get("ledger/book", symbol=slug, depth=depth, **which)
        except aiohttp.ClientResponseError as error:
            if error.status != _NO_SUCH_BOOK:
                raise
            return False
        bids, asks = _levels(truth["bids"]), _levels(truth["asks"])
        return bids[: len(book.bids)] == list(book.bids) and asks[: len(book.asks)] == list(
            book.asks
        )

    async def _judge_requests(self) -> Counter[str]:
        """Count from the totals, since the log does not keep all rows of a long run."""
        totals = (await self._get("requests", after=_NO_ROWS))["totals"]
        found = {"requests": "request", "http_429": "429", "http_418": "418"}
        return Counter({name: totals.get(total, 0) for name, total in found.items()})

    async def _get(self, question: str, **parameters: str | int) -> Any:
        async with self._http.get(f"{self._base}/{question}", params=parameters) as answer:
            answer.raise_for_status()
            return msgspec.json.decode(await answer.read())


def _true_trade(row: Mapping[str, Any]) -> SeenTrade:
    return SeenTrade(
        row["id"], row["at_ms"], Decimal(row["price"]), Decimal(row["quantity"]), row["taker_buys"]
    )


def _levels(rows: Sequence[Sequence[str]]) -> list[tuple[Decimal, Decimal]]:
    return [(Decimal(price), Decimal(quantity)) for price, quantity in rows]
