"""Trades from published files and by requests are stitched without overlap and without a gap."""

import random
import zipfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from tests.ingest.archived import put, zipped
from tests.ingest.bulk import FIRST_MS, OTHER, PAGE, Place, file_of, series_of

from penstock.clock import SystemClock
from penstock.config import Ingest, Settings
from penstock.errors import BadFile, ExchangeError, NoAnswer
from penstock.ingest import archives
from penstock.ingest.file_source import source_of
from penstock.ingest.published_files import PublishedFiles
from penstock.market.interval import DAY_MS, HOUR_MS

SINCE_MS, UNTIL_MS = FIRST_MS + 22 * HOUR_MS, FIRST_MS + 3 * DAY_MS + 2 * HOUR_MS
RANGE = {"since_ms": SINCE_MS, "until_ms": UNTIL_MS}
Way = Callable[[Place], Awaitable[dict[str, int]]]


async def by_time(_place: Place) -> dict[str, int]:
    return RANGE


async def by_id(place: Place) -> dict[str, int]:
    first, end = await place.ids(SINCE_MS, UNTIL_MS)
    return {"from_id": first, "to_id": end - 1}


@pytest.mark.parametrize("way", [by_time, by_id])
async def test_whole_days_come_from_files_and_the_rest_by_requests(place: Place, way: Way) -> None:
    job = await place.run(place.job(**await way(place)))

    await place.check(SINCE_MS, UNTIL_MS)
    assert job.progress.rows == len(place.trades())
    outside_files = await place.ids(SINCE_MS, FIRST_MS + DAY_MS)
    pages = (outside_files[1] - outside_files[0]) // PAGE
    assert pages <= await place.requests() <= pages + 14, "a day would take nine more"


async def test_a_range_of_whole_days_needs_pages_for_nothing_but_its_ends(place: Place) -> None:
    since_ms, until_ms = FIRST_MS, FIRST_MS + 2 * DAY_MS

    await place.run(place.job(since_ms=since_ms, until_ms=until_ms))

    await place.check(since_ms, until_ms)
    # The search for the two ends takes more or fewer pages as time passes.
    assert await place.requests() <= 16, "two days would take eighteen more"


async def test_the_first_day_of_a_market_is_whole(place: Place) -> None:
    listed_ms = int(datetime(2021, 1, 3, tzinfo=UTC).timestamp()) * 1000

    await place.run(place.job(until_ms=listed_ms + DAY_MS))

    await place.check(listed_ms, listed_ms + DAY_MS)
    assert await place.requests() <= 6


async def test_what_a_missing_file_has_is_requested(place: Place) -> None:
    await place.plan("http404@*2024-12-31*=1")

    await place.run(place.job(**RANGE))

    await place.check(SINCE_MS, UNTIL_MS)


@pytest.mark.parametrize("fault", ["corrupt", "short", "corrupt@*.CHECKSUM"])
async def test_a_wrong_checksum_is_an_error_and_nothing_of_the_file_is_recorded(
    place: Place, fault: str
) -> None:
    name = "*2025-01-01.zip" if "CHECKSUM" not in fault else "*2025-01-01.zip.CHECKSUM"
    await place.plan(f"{fault.partition('@')[0]}@{name}=1")
    job = place.job(**RANGE)

    with pytest.raises(BadFile, match=r"SHA-256|checksum") as raised:
        await place.run(job)

    assert file_of(2).path in str(raised.value)
    first, end = await place.ids(SINCE_MS, FIRST_MS + 2 * DAY_MS)
    assert place.recorded == list(range(first, end)), "all before it, and nothing of it"
    await place.plan("")
    await place.run(job)
    await place.check(SINCE_MS, UNTIL_MS)


async def test_a_transfer_that_is_cut_is_repeated_and_then_an_error(place: Place) -> None:
    await place.plan("cutbody@*.zip=1")

    with pytest.raises(NoAnswer):
        await place.run(place.job(**RANGE))

    await place.plan("http500@*.zip=1")
    with pytest.raises(ExchangeError):
        await place.run(place.job(**RANGE))
    await place.plan("cutbody@*.zip=0.3,http500@*.zip*=0.1")
    job = place.job(**RANGE)
    for _ in range(20):
        try:
            job = await place.run(job)
        except (NoAnswer, ExchangeError):
            continue
        break
    await place.check(SINCE_MS, UNTIL_MS)


async def test_a_folder_may_have_the_files_with_or_without_the_exchanges_folders(
    place: Place, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    data = (await place.download(tmp_path / "other", 1)).read_bytes()
    put(folder, data, file_of(1))
    await place.download(folder, 2)

    await place.run(place.job(**RANGE), source=str(folder))

    await place.check(SINCE_MS, UNTIL_MS)
    outside_files = await place.ids(SINCE_MS, FIRST_MS + DAY_MS)
    assert await place.requests() <= (outside_files[1] - outside_files[0]) // PAGE + 14


async def test_a_file_without_a_checksum_is_refused(place: Place, tmp_path: Path) -> None:
    path = await place.download(tmp_path / "files", 1)
    path.with_name(f"{path.name}.CHECKSUM").unlink()

    with pytest.raises(BadFile, match="no checksum file"):
        await place.run(place.job(**RANGE), source=str(tmp_path / "files"))


def lines_of(data: bytes) -> list[str]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return archive.read(archive.namelist()[0]).decode().splitlines()


async def test_ids_that_a_file_lacks_are_requested(place: Place, tmp_path: Path) -> None:
    rows = lines_of((await place.download(tmp_path / "other", 1)).read_bytes())
    kept = [*rows[3:100], *rows[101:4000], *rows[4300:-2]]
    put(tmp_path / "files", zipped("\n".join(kept), file_of(1).member), file_of(1))

    await place.run(place.job(**RANGE), source=str(tmp_path / "files"))

    await place.check(SINCE_MS, UNTIL_MS)


async def test_a_file_of_another_market_is_refused(place: Place, tmp_path: Path) -> None:
    rows = lines_of((await place.download(tmp_path / "other", 1, OTHER)).read_bytes())
    first, end = await place.ids(FIRST_MS + DAY_MS, FIRST_MS + 2 * DAY_MS)
    wrong = [
        ",".join((str(number), *row.split(",")[1:]))
        for number, row in zip(range(first, end), rows, strict=False)
    ]
    put(tmp_path / "files", zipped("\n".join(wrong), file_of(1).member), file_of(1))

    with pytest.raises(BadFile, match="another market"):
        await place.run(place.job(**RANGE), source=str(tmp_path / "files"))

    assert max(place.recorded, default=0) < first


async def test_a_row_that_is_malformed_is_an_error_after_the_rows_before_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 500)
    rows = lines_of((await place.download(tmp_path / "other", 1)).read_bytes())
    rows[1200] = "nonsense"
    put(tmp_path / "files", zipped("\n".join(rows), file_of(1).member), file_of(1))

    with pytest.raises(BadFile) as raised:
        await place.run(place.job(**RANGE), source=str(tmp_path / "files"))

    assert raised.value.line == 1201
    (first,) = await place.ids(FIRST_MS + DAY_MS)
    assert max(place.recorded) == first + 999


async def test_a_run_that_is_stopped_goes_on_in_the_same_file(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 500)
    job = place.job(since_ms=FIRST_MS, until_ms=FIRST_MS + DAY_MS)
    job = await place.run(job, stop_at=4)
    assert place.trades()
    await place.plan("http500@*.zip*=1")

    while not job.cursor.last_id or job.cursor.last_id < (job.cursor.to_id or 0):
        job = await place.run(job, stop_at=job.progress.pages + 3)

    await place.check(FIRST_MS, FIRST_MS + DAY_MS)


@pytest.mark.parametrize("seed", range(3))
async def test_killed_anywhere_and_run_again_it_ends_equal_to_the_ledger(
    place: Place, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BATCH", 2000)
    drawn = random.Random(seed)
    job = place.job(**RANGE)
    for _ in range(500):
        place.points, place.kill_at = 0, drawn.randrange(1, 40)
        job = await place.run(job)
        if not job.cursor.is_resolved or job.cursor.last_id == job.cursor.to_id:
            break
    place.kill_at = -1
    await place.run(job)

    assert place.runs > 5
    await place.check(SINCE_MS, UNTIL_MS)


async def test_the_files_of_a_range_are_listed_with_their_sizes(
    place: Place, tmp_path: Path
) -> None:
    await place.plan("http404@*2025-01-01*=1")
    path = await place.download(tmp_path / "files", 1)
    for source in (place.address, str(tmp_path / "files")):
        chosen = Settings(collect=place.settings.collect, ingest=Ingest(files=source))
        found = source_of(chosen, SystemClock())
        assert found is not None
        files = PublishedFiles(found, SystemClock())

        listed = await files.listed(series_of(), SINCE_MS, UNTIL_MS)

        await files.aclose()
        assert listed == [(file_of(1), path.stat().st_size)]
