"""Files and requests are stitched by id: every id is in exactly one of them, in order."""

import asyncio
from collections.abc import AsyncGenerator
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.ingest.archived import BTC, DAY, FILE, SERIES, row, zipped

from penstock.exchanges.base import TradePage
from penstock.ingest import archives
from penstock.ingest.archives import Archive
from penstock.ingest.chunks import Batch
from penstock.ingest.file_trades import FileTrades
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.published_files import OpenFile
from penstock.ingest.trade_range import TradesTarget
from penstock.market.events import Trade

assert SERIES is not None
ids = st.integers(0, 60)


class Stitched:
    """A job's cursor, files in memory, and what was recorded from where."""

    def __init__(self, files: list[list[int]], left: IdRange, stops_after: int) -> None:
        self._files, self.left, self._stops_after = files, left, stops_after
        self.parts: list[IdRange] = []
        self.from_files: list[int] = []
        self.kept: list[Any] = []

    async def opened(self, *_range: object) -> AsyncGenerator[OpenFile[Trade], None]:
        assert SERIES is not None
        for numbers in self._files:
            data = BytesIO(zipped("\n".join(map(row, numbers))))
            yield OpenFile(Archive(FILE, SERIES, data, 7))

    def keep(self, opened: OpenFile[Trade]) -> None:
        self.kept.append(opened)

    async def fetch(self, number: int) -> TradePage:
        assert SERIES is not None
        return TradePage([SERIES.read(row(number).split(","), 7)], number + 1)

    async def fill(self, part: IdRange) -> bool:
        return self._moved(part)

    async def commit(self, batch: Batch) -> bool:
        assert [trade.id for trade in batch.trades] == [*range(batch.ids.first, batch.ids.last + 1)]
        self.from_files += [trade.id for trade in batch.trades]
        return self._moved(batch.ids)

    def _moved(self, part: IdRange) -> bool:
        assert part.size
        self.parts.append(part)
        self.left = IdRange(part.last + 1, self.left.last)
        return len(self.parts) < self._stops_after

    def record(self) -> bool:
        files: Any = self
        assert SERIES is not None
        trades = FileTrades(
            files, SERIES, self.fetch, left=lambda: self.left, fill=self.fill, commit=self.commit
        )
        ends = {"since_ms": DAY.since_ms, "until_ms": DAY.until_ms}
        target = TradesTarget(symbol=BTC.unified, **ends)
        return asyncio.run(trades.record(target, self.left, 0))


@given(
    st.lists(st.sets(ids, min_size=1).map(sorted), max_size=3),
    st.tuples(ids, ids).map(sorted),
    st.integers(1, 40),
    st.integers(1, 9),
)
@example([[2, 3]], [1, 3], 40, 9)  # a single id before a file
def test_every_id_is_taken_once_and_in_order(
    files: list[list[int]], ends: list[int], stops_after: int, batch: int
) -> None:
    left = IdRange(*ends)
    stitched = Stitched(files, left, stops_after)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "BATCH", batch)

        goes_on = stitched.record()

    parts = stitched.parts
    assert all(one.last + 1 == other.first for one, other in pairwise(parts))
    if parts:
        assert parts[0].first == left.first
        assert parts[-1].last <= left.last
    assert goes_on == (len(parts) < stops_after)
    if goes_on:
        known = {number for numbers in files for number in numbers} & {
            *range(left.first, left.last + 1)
        }
        assert known <= {number for part in parts for number in range(part.first, part.last + 1)}
        assert not stitched.kept
    if files and goes_on:
        first = set(files[0]) & {*range(left.first, left.last + 1)}
        assert first <= set(stitched.from_files), "what the first file has is not requested"
