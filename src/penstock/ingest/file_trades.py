"""Records the trades of published files, and what lies before and between them by requests.

The stitch is by id: rows below the next id that is left are skipped, and ids that are left below
the next row are requested. So no id is recorded twice or left out, whatever times trades have at
midnight, and ids that a file lacks are requested before they count as absent.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from penstock.errors import BadFile, UnexpectedAnswer
from penstock.exchanges.bulk_files import FileSeries
from penstock.ingest.chunks import Batch
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.published_files import OpenFile, PublishedFiles
from penstock.ingest.trade_pages import Fetch, NumberedTrade
from penstock.ingest.trade_range import TradesTarget
from penstock.market.events import Trade


@dataclass(frozen=True)
class FileTrades:
    """The files of one market's trades, and how a run records them."""

    files: PublishedFiles
    series: FileSeries[Trade]
    fetch: Fetch
    """Requests the page of trades that begins with an id."""
    left: Callable[[], IdRange]
    """The ids that are not recorded yet."""
    fill: Callable[[IdRange], Awaitable[bool]]
    """Requests and records these ids; returns whether to continue."""
    commit: Callable[[Batch], Awaitable[bool]]
    """Records a batch and moves the cursor past it; returns whether to continue."""

    async def record(self, target: TradesTarget, ids: IdRange) -> bool:
        """Record all ids up to the last one that files have; return whether to continue.

        ``ids`` is the whole range of the job. Only days that are wholly within are read from files.

        Raises:
            BadFile: a file is damaged or another one. What is before it is recorded.
        """
        from_ms = (await self._trade(self.left().first)).at_ms
        since_ms = target.since_ms
        if since_ms is None:
            since_ms = 0 if target.from_id is None else (await self._trade(ids.first)).at_ms
        until_ms = target.until_ms
        if until_ms is None:
            until_ms = (await self._trade(ids.last)).at_ms
        opened = self.files.opened(self.series, since_ms, until_ms, from_ms)
        async with aclosing(opened):
            async for file in opened:
                if not await self._record_file(file):
                    return False
        return True

    async def _record_file(self, file: OpenFile[Trade]) -> bool:
        try:
            goes_on = await self._record_rows(file)
        except BadFile:
            file.close()
            raise
        except BaseException:
            self.files.keep(file)
            raise
        if goes_on:
            file.close()
        else:
            self.files.keep(file)
        return goes_on

    async def _record_rows(self, file: OpenFile[Trade]) -> bool:
        while self.left().size and (rows := await file.read(self.left().first)):
            last = self.left().last
            wanted = [trade for trade in rows if trade.id <= last]
            if wanted and not file.is_compared:
                await self._compare(file, wanted[0])
            for run in _consecutive(wanted):
                if not await self._record_run(run):
                    return False
            if len(wanted) < len(rows):
                break
        return True

    async def _record_run(self, run: list[Trade]) -> bool:
        first = self.left().first
        if first < run[0].id and not await self.fill(IdRange(first, run[0].id - 1)):
            return False
        return await self.commit(Batch(IdRange(run[0].id, run[-1].id), [*run], []))

    async def _compare(self, file: OpenFile[Trade], row: Trade) -> None:
        """Compare a trade with the exchange's: a file of another market may have the right name."""
        found = await self._trade(row.id)
        if _content(found) != _content(row):
            what = f"it has {row.summary}, and the exchange has {found.summary}"
            raise BadFile(file.file.path, f"{what}: it may be that of another market")
        file.is_compared = True

    async def _trade(self, number: int) -> NumberedTrade:
        trades = (await self.fetch(number)).trades
        if not trades:
            raise UnexpectedAnswer(f"there are no trades from id {number} on")
        return trades[0]


def _content(trade: NumberedTrade) -> tuple[object, ...]:
    return trade.id, trade.at_ms, trade.price, trade.quantity, trade.taker


def _consecutive(trades: Sequence[Trade]) -> Iterator[list[Trade]]:
    """The trades in runs whose ids increase by one."""
    start = 0
    for index in range(1, len(trades) + 1):
        if index == len(trades) or trades[index].id > trades[index - 1].id + 1:
            yield [*trades[start:index]]
            start = index
