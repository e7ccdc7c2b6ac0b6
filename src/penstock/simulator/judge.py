"""The judge: what a client says it has, held against the ledger.

It works after the fact and apart from the client: it alone reads ``/_sim/``. A client hands in its
evidence; the judge finds out what is missing, what came twice, what is wrong, and whether the
client knows what it missed.
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
    """A trade as the client has it."""

    id: int
    at_ms: int
    price: Decimal
    quantity: Decimal
    taker_buys: bool


class SeenBook(NamedTuple):
    """The best levels of a book that the client believed in, after one update."""

    update_id: int
    bids: Sequence[tuple[Decimal, Decimal]]
    asks: Sequence[tuple[Decimal, Decimal]]
    at_ms: int | None = None
    """The time on that update, where the exchange has no ids; counts instead of the id."""


@dataclass
class Evidence:
    """Everything a client hands in, of one market."""

    trades: list[SeenTrade] = field(default_factory=list)
    consecutive: bool = True
    """Whether the exchange numbers its trades one by one, as the ledger does."""
    missing: list[tuple[int, int]] = field(default_factory=list)
    """Trade ids the client says it missed, as runs."""
    books: list[SeenBook] = field(default_factory=list)
    synced: bool = False
    """Whether its book was synced at the end."""


class Findings(Struct, frozen=True, kw_only=True):
    """What the judge found."""

    trades: int = 0
    trades_missing: int = 0
    trades_duplicated: int = 0
    trades_wrong: int = 0
    gaps_unlisted: int = 0
    """Trades that are missing without the client knowing."""
    gaps_untrue: int = 0
    """Trades the client calls missing that are not."""
    gaps_unknowable: int = 0
    """Trades that are missing where the exchange's ids do not show it: nobody calls them there."""
    books_synced: int = 0
    books_checked: int = 0
    book_mismatches: int = 0
    requests: int = 0
    http_429: int = 0
    """Requests and connects that were refused, also where the answer was an error inside a 200."""
    http_418: int = 0
    """Those of a banned address."""

    @property
    def honest(self) -> bool:
        """Nothing doubled, wrong or over a limit, and the client knows all that ids can tell."""
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
        """There was nothing to judge."""
        return not (self.trades or self.books_checked)

    @property
    def clean(self) -> bool:
        """Honest, and nothing is missing."""
        return self.honest and not self.trades_missing


def total(findings: Iterable[Findings]) -> Findings:
    """The sums of several."""
    counts: Counter[str] = Counter()
    for each in findings:
        counts.update(asdict(each))
    return Findings(**counts)


class Judge:
    """Reads the ledger of one simulator and compares."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http, self._base = http, f"{address}/_sim"

    async def exchange(self) -> str:
        """Which exchange is simulated."""
        return str((await self._get("state"))["exchange"])

    async def judge(self, markets: Mapping[str, Evidence]) -> Findings:
        """Findings over everything handed in, by slug."""
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
        # The ledger tells the future too; what is not yet, or never, cannot be seen, nor missed.
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
        """Trades under ids of the exchange's own making are known by everything else on them."""
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
        # The first and the last instant may have been seen in part, and nothing is wrong with that.
        missing = [t for t in (truth - seen).elements() if t[0] not in (first_ms, last_ms)]
        counts["trades_missing"] = counts["gaps_unknowable"] = len(missing)
        return counts

    async def _next_id(self, slug: str) -> int:
        """The id of the first trade that has not happened yet."""
        return await self._id_at(slug, await self._now_ms())

    async def _now_ms(self) -> int:
        return int((await self._get("state"))["at_ms"])

    async def _id_at(self, slug: str, at_ms: int) -> int:
        """The id of the first trade at or after an instant."""
        found = await self._get("ledger/ids", symbol=slug, at_ms=at_ms)
        return int(found["next_trade_id"])

    async def _book_is_right(self, slug: str, book: SeenBook) -> bool:
        depth = max(len(book.bids), len(book.asks), 1)
        by_id = {"update_id": book.update_id}
        which = by_id if book.at_ms is None else {"at_ms": book.at_ms}
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
        """By the totals: the rows of a long run are not all kept."""
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
