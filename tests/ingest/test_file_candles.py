"""Candles of published files are those of requests, stitched without overlap or gap."""

import random

import pytest
from msgspec.structs import replace
from tests.ingest.bulk import FIRST_MS, Place

from penstock.errors import BadFile
from penstock.ingest import archives
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS

SINCE_MS, UNTIL_MS = FIRST_MS + HOUR_MS, FIRST_MS + 3 * DAY_MS + 2 * HOUR_MS
"""The first page does not reach midnight. Two days come from files, in each unit of time."""


def content(candles: list[Candle]) -> list[Candle]:
    return [replace(each, received_at_ns=0) for each in candles]


async def requested(place: Place) -> list[Candle]:
    """The candles without files."""
    await place.run(place.candle_job(SINCE_MS, UNTIL_MS), source="")
    found = content(place.candles())
    place.forget()
    return found


async def test_candles_of_files_equal_those_of_requests(place: Place) -> None:
    expected = await requested(place)
    before = await place.requests("klines")

    job = await place.run(place.candle_job(SINCE_MS, UNTIL_MS))

    assert content(place.candles()) == expected
    opens = list(range(SINCE_MS, UNTIL_MS, MINUTE_MS))
    assert place.recorded == opens, "each once, in order"
    assert job.progress.rows == len(opens)
    # The first page, the rest of its day, two comparisons, and what is after the files.
    assert await place.requests("klines") - before <= 6


@pytest.mark.parametrize("fault", ["http404@*2024-12-31*=1", "http404@*.zip*=1"])
async def test_what_a_missing_file_has_is_requested(place: Place, fault: str) -> None:
    expected = await requested(place)
    await place.plan(fault)

    await place.run(place.candle_job(SINCE_MS, UNTIL_MS))

    assert content(place.candles()) == expected
    assert sorted(place.recorded) == [*range(SINCE_MS, UNTIL_MS, MINUTE_MS)]


async def test_a_wrong_checksum_is_an_error_and_nothing_of_the_file_is_recorded(
    place: Place,
) -> None:
    await place.plan("corrupt@*2025-01-01.zip=1")

    with pytest.raises(BadFile, match="SHA-256"):
        await place.run(place.candle_job(SINCE_MS, UNTIL_MS))

    assert place.recorded == [*range(SINCE_MS, FIRST_MS + 2 * DAY_MS, MINUTE_MS)]


@pytest.mark.parametrize("seed", range(2))
async def test_killed_anywhere_and_run_again_it_ends_equal(
    place: Place, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 300)
    expected = await requested(place)
    drawn, job = random.Random(seed), place.candle_job(SINCE_MS, UNTIL_MS)
    for _ in range(500):
        place.points, place.kill_at = 0, drawn.randrange(1, 25)
        job = await place.run(job)
        if job.cursor.last_ts == UNTIL_MS - MINUTE_MS:
            break
    place.kill_at = -1
    await place.run(job)

    assert content(place.candles()) == expected
    assert sorted(place.recorded) == [*range(SINCE_MS, UNTIL_MS, MINUTE_MS)]
