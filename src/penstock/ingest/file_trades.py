"""The trades of a job that published files have."""

from collections.abc import Awaitable, Callable

from penstock.errors import UnexpectedAnswer
from penstock.exchanges.bulk_files import FileSeries
from penstock.ingest.chunks import Batch
from penstock.ingest.file_cover import are_files_cheaper
from penstock.ingest.file_stitch import FileStitch
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.published_files import PublishedFiles
from penstock.ingest.trade_pages import Fetch, NumberedTrade
from penstock.ingest.trade_range import TradesTarget
from penstock.market.events import Trade


class FileTrades:
    """Records the trades of files, each day that is wholly within the range of a job."""

    def __init__(
        self,
        files: PublishedFiles,
        series: FileSeries[Trade],
        fetch: Fetch,
        *,
        left: Callable[[], IdRange],
        fill: Callable[[IdRange], Awaitable[bool]],
        commit: Callable[[Batch], Awaitable[bool]],
    ) -> None:
        """``fetch`` requests the page of trades that begins with an id; others as of a stitch."""
        self._fetch, self._left = fetch, left
        self._stitch = FileStitch(
            files=files,
            series=series,
            step=1,
            left=lambda: (left().first, left().last + 1),
            fill=lambda first, end: fill(IdRange(first, end - 1)),
            commit=lambda trades: commit(
                Batch(IdRange(trades[0].id, trades[-1].id), [*trades], [])
            ),
            compare=self._difference,
        )

    async def record(self, target: TradesTarget, ids: IdRange, page_size: int) -> bool:
        """Record all ids up to the last one that files have; return whether to continue.

        ``ids`` is the whole range of the job. If its days have fewer trades than a page, no file
        is read.

        Raises:
            Those of ``FileStitch.record``.
        """
        from_ms = (await self._trade(self._left().first)).at_ms
        since_ms = target.since_ms
        if since_ms is None:
            since_ms = 0 if target.from_id is None else (await self._trade(ids.first)).at_ms
        until_ms = target.until_ms
        if until_ms is None:
            until_ms = (await self._trade(ids.last)).at_ms
        rows, length_ms = ids.last - self._left().first + 1, until_ms - from_ms
        if not are_files_cheaper(rows, length_ms, page_size):
            return True
        return await self._stitch.record(since_ms, until_ms, from_ms)

    async def _difference(self, row: Trade) -> str:
        found = await self._trade(row.id)
        if _content(found) == _content(row):
            return ""
        return f"it has {row.summary}, and the exchange has {found.summary}"

    async def _trade(self, number: int) -> NumberedTrade:
        trades = (await self._fetch(number)).trades
        if not trades:
            raise UnexpectedAnswer(f"there are no trades from id {number} on")
        return trades[0]


def _content(trade: NumberedTrade) -> tuple[object, ...]:
    return trade.id, trade.at_ms, trade.price, trade.quantity, trade.taker
