"""A plan reads published files where they spare requests, and says how many it takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.archived import SERIES
from tests.ingest.bulk import FIRST_MS, PAGE, SYMBOL, Maps, Place, file_of

from penstock.cli.plan_view import plan_lines
from penstock.clock import SystemClock
from penstock.exchanges.bulk_files import whole_days
from penstock.ingest.file_cover import are_files_cheaper, cover_of
from penstock.ingest.file_mirror import MirrorSource
from penstock.ingest.file_source import FolderSource
from penstock.ingest.planner import Survey, plan, plan_all
from penstock.ingest.published_files import PublishedFiles, SizedFile
from penstock.ingest.survey import survey
from penstock.ingest.trade_range import TradesCursor
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS

assert SERIES is not None
SINCE_MS, UNTIL_MS = FIRST_MS + 12 * HOUR_MS, FIRST_MS + 4 * DAY_MS


@given(
    st.integers(0, 10**12),
    st.integers(1, 20 * DAY_MS),
    st.integers(0, 10**7),
    st.sets(st.integers(0, 19)),
)
def test_what_files_lack_is_the_rest_of_the_rows(
    since_ms: int, length_ms: int, rows: int, lacking: set[int]
) -> None:
    assert SERIES is not None
    until_ms = since_ms + length_ms
    days = [*whole_days(since_ms, until_ms)]
    listed = [
        SizedFile(SERIES.file(day), 7) for place, day in enumerate(days) if place not in lacking
    ]

    cover = cover_of(listed, since_ms, until_ms, rows)

    covered_ms = len(listed) * DAY_MS
    expected = rows * (length_ms - covered_ms) / length_ms
    assert (cover.files, cover.size) == (len(listed), 7 * len(listed))
    assert expected - len(listed) - 1 <= sum(cover.rest) <= expected + 1e-6 * rows + 1


def test_files_are_read_where_a_day_has_more_rows_than_a_page() -> None:
    assert are_files_cheaper(1, MINUTE_MS, 1000)
    assert not are_files_cheaper(1, 3 * MINUTE_MS, 1000)
    assert are_files_cheaper(2001, 2 * DAY_MS, 1000)
    assert not are_files_cheaper(2000, 2 * DAY_MS, 1000)


@dataclass
class Context:
    place: Place

    @property
    def gateways(self) -> Place:
        return self.place

    @property
    def markets(self) -> Maps:
        return Maps(self.place.symbols)

    @property
    def clock(self) -> SystemClock:
        return SystemClock()


async def asked(
    place: Place, wanted: dict[str, int], timeframe: str | None = None, folder: Path | None = None
) -> Survey:
    settings, clock = place.settings, SystemClock()
    source: Any = MirrorSource(place.address, Path(), settings.requests, clock)
    files = PublishedFiles(source if folder is None else FolderSource(folder), clock)
    cursor = TradesCursor(**wanted)  # type: ignore[arg-type]
    try:
        return await survey(Context(place), "binance", SYMBOL.unified, cursor, timeframe, files)
    finally:
        await files.aclose()


async def test_a_plan_with_files_needs_as_many_requests_as_it_says(place: Place) -> None:
    wanted = {"since_ms": SINCE_MS, "until_ms": UNTIL_MS}

    found = await asked(place, wanted)
    planned = plan(found)
    before = await place.requests()
    await place.run(place.job(**wanted))

    assert (planned.source, planned.files) == ("files", 3)
    without = -(-found.rows // PAGE)
    assert planned.requests < without / 3
    used = await place.requests() - before
    # Those that look for the begin and the end come in addition.
    assert planned.requests <= used <= planned.requests + 14
    assert planned.rows == len(place.trades())
    assert "from 3 files of" in plan_lines(plan_all([found]))[0]


async def test_candles_and_open_ranges_are_planned_too(place: Place) -> None:
    span = {"since_ms": SINCE_MS, "until_ms": UNTIL_MS}
    (first, end) = await place.ids(FIRST_MS + DAY_MS, UNTIL_MS)

    candles = plan(await asked(place, span, "1m"))
    hours = plan(await asked(place, span, "1h"))
    by_id = plan(await asked(place, {"from_id": first - 1, "to_id": end}))

    assert (candles.source, candles.files) == ("files", 3)
    assert candles.requests == 3 + 1, "half a day is one page"
    assert (hours.source, hours.files) == ("rest", 0)
    assert by_id.files == 3
    assert by_id.requests <= 3 + 2


@pytest.mark.parametrize("has_files", [True, False])
async def test_only_files_that_exist_are_planned(
    place: Place, tmp_path: Path, has_files: bool
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    if has_files:
        await place.download(folder, 1)

    found = await asked(place, {"since_ms": SINCE_MS, "until_ms": UNTIL_MS}, folder=folder)

    if not has_files:
        assert found.cover is None
        return
    assert found.cover is not None
    assert found.cover.files == 1
    assert found.cover.size == (folder / file_of(1).name).stat().st_size
    planned = plan(found)
    assert planned.requests == 1 + sum(-(-part // PAGE) for part in found.cover.rest)
