"""Which files of a range are taken, from a folder or an address, and what is an error of either."""

import errno
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.archived import BTC, DAY, FILE, SERIES, checksum, put, row, zipped

from penstock.clock import SystemClock
from penstock.config import Collect, Ingest, Requests, Settings
from penstock.errors import BadFile, ConfigError, NoAnswer, StorageError, StorageFull
from penstock.exchanges.binance.files import FILES
from penstock.exchanges.bulk_files import FileSpan, months, whole_days
from penstock.ingest import file_mirror
from penstock.ingest.file_mirror import MirrorSource
from penstock.ingest.file_source import FileSource, FolderSource, source_of
from penstock.ingest.published_files import PublishedFiles
from penstock.market.events import Trade
from penstock.market.interval import DAY_MS, Interval

assert SERIES is not None
MOMENTS = st.integers(0, 2_000_000_000_000)
QUICK = Requests(attempts=3, first_delay=0.01, read_timeout=0.3)


def ms(*day: int) -> int:
    return int(datetime(*day, tzinfo=UTC).timestamp()) * 1000  # type: ignore[arg-type,misc]


def span(frequency: Any, since_ms: int, until_ms: int) -> FileSpan:
    return FileSpan(frequency, since_ms, until_ms)


@given(MOMENTS, st.integers(0, 200 * DAY_MS))
def test_days_and_months_are_whole_and_cover_the_range(since_ms: int, length_ms: int) -> None:
    until_ms = since_ms + length_ms

    days, touched = [*whole_days(since_ms, until_ms)], [*months(since_ms, until_ms)]

    assert all(since_ms <= day.since_ms < day.until_ms <= until_ms for day in days)
    assert [day.since_ms for day in days[1:]] == [day.until_ms for day in days[:-1]]
    if days:
        assert days[0].since_ms - since_ms < DAY_MS
        assert until_ms - days[-1].until_ms < DAY_MS
    else:
        assert length_ms < 2 * DAY_MS
    assert [each.since_ms for each in touched[1:]] == [each.until_ms for each in touched[:-1]]
    if length_ms:
        assert touched[0].since_ms <= since_ms
        assert until_ms <= touched[-1].until_ms


def test_paths_are_those_of_the_exchange() -> None:
    day = span("daily", ms(2024, 2, 29), ms(2024, 3, 1))
    month = span("monthly", ms(2024, 2, 1), ms(2024, 3, 1))
    candles = FILES.candles("BTCUSDT", BTC, Interval.parse("1m"))
    assert SERIES is not None
    assert candles is not None

    assert SERIES.file(day).path == "data/spot/daily/trades/BTCUSDT/BTCUSDT-trades-2024-02-29.zip"
    assert SERIES.file(month).path == "data/spot/monthly/trades/BTCUSDT/BTCUSDT-trades-2024-02.zip"
    assert candles.file(day).path == "data/spot/daily/klines/BTCUSDT/1m/BTCUSDT-1m-2024-02-29.zip"


@pytest.mark.parametrize("native", ["../BTC", "..", "a/b", "a\\b", "", ".x", "a\x00"])
def test_a_name_that_would_leave_the_folder_has_no_files(native: str) -> None:
    assert FILES.trades(native, BTC) is None
    assert FILES.candles(native, BTC, Interval.parse("1m")) is None


@pytest.mark.parametrize("interval", ["3d", "1w", "1M", "7h"])
def test_candles_that_do_not_divide_a_day_have_no_files(interval: str) -> None:
    assert FILES.candles("BTCUSDT", BTC, Interval.parse(interval)) is None


async def test_a_month_is_taken_where_it_is_whole_and_days_elsewhere(tmp_path: Path) -> None:
    assert SERIES is not None
    spans = [
        span("monthly", ms(2024, 1, 1), ms(2024, 2, 1)),
        span("monthly", ms(2024, 2, 1), ms(2024, 3, 1)),
        *(
            span("daily", day, day + DAY_MS)
            for day in range(ms(2024, 1, 28), ms(2024, 3, 5), DAY_MS)
        ),
    ]
    for number, each in enumerate(spans):
        file = SERIES.file(each)
        put(tmp_path, zipped(row(number, each.since_ms), file.member), file)
    files = PublishedFiles(FolderSource(tmp_path), SystemClock())

    listed = await files.listed(SERIES, ms(2024, 1, 30), ms(2024, 3, 3) + 5)
    opened: list[str] = []
    async for found in files.opened(SERIES, ms(2024, 1, 30), ms(2024, 3, 3), ms(2024, 1, 31)):
        opened.append(found.file.name)
        found.close()

    names = [each.file.name.removeprefix("BTCUSDT-trades-").removesuffix(".zip") for each in listed]
    assert names == ["2024-01-30", "2024-01-31", "2024-02", "2024-03-01", "2024-03-02"]
    assert all(each.size == (tmp_path / each.file.path).stat().st_size for each in listed)
    assert opened == [each.file.name for each in listed[1:]], "the first one ends before"


async def test_a_file_that_is_kept_is_read_on(tmp_path: Path) -> None:
    assert SERIES is not None
    put(tmp_path, zipped("\n".join(map(row, range(5)))))
    files = PublishedFiles(FolderSource(tmp_path), SystemClock())

    async def only() -> Any:
        return [each async for each in files.opened(SERIES, DAY.since_ms, DAY.until_ms, 0)]

    (first,) = await only()
    assert len(await first.read(0)) == 5
    files.keep(first)
    (again,) = await only()

    assert again is first
    assert [each.id for each in await again.read(3)] == [3, 4], "it begins again"
    assert await again.read(5) == []
    files.keep(again)
    await files.aclose()


async def never(_request: web.Request) -> web.StreamResponse:
    raise AssertionError


class Mirror:
    """An address whose answers a test sets."""

    def __init__(self) -> None:
        self.answer: Callable[[web.Request], Any] = never
        self.asked: list[str] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        answered: web.StreamResponse = await self.answer(request)
        return answered


@pytest.fixture
async def mirror() -> AsyncIterator[Mirror]:
    mirror, app = Mirror(), web.Application()
    app.router.add_route("*", "/{path:.*}", mirror.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    mirror.url = f"http://127.0.0.1:{runner.addresses[0][1]}/below"
    yield mirror
    await runner.cleanup()


@pytest.fixture
async def source(mirror: Mirror, tmp_path: Path) -> AsyncIterator[MirrorSource]:
    source = MirrorSource(mirror.url, tmp_path, QUICK, SystemClock())
    yield source
    await source.aclose()


async def test_a_mirror_has_sizes_beginnings_and_files(
    mirror: Mirror, source: MirrorSource, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if "missing" in request.path:
            return web.Response(status=404)
        return web.Response(body=b"0123456789")

    mirror.answer = answer

    assert await source.size("a/b.zip") == 10
    assert await source.head("a/b.zip", 4) == b"0123"
    opened = await source.open("a/b.zip")
    assert opened is not None
    with opened:
        opened.seek(0)
        assert opened.read() == b"0123456789"
    for missing in (source.size("missing"), source.head("missing", 4), source.open("missing")):
        assert await missing is None
    assert mirror.asked[0] == "HEAD /below/a/b.zip"
    assert not any(tmp_path.glob("*")), "a download has no name, so that none is left"  # noqa: ASYNC240


async def test_a_failure_is_repeated_and_a_refusal_is_told(
    mirror: Mirror, source: MirrorSource
) -> None:
    async def fail(_request: web.Request) -> web.Response:
        return web.Response(status=503 if len(mirror.asked) < 3 else 200, body=b"x")

    mirror.answer = fail
    assert await source.size("a") == 1
    assert len(mirror.asked) == 3

    async def hang(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"begin")
        assert request.transport is not None
        request.transport.close()
        return response

    mirror.answer, mirror.asked = hang, []
    with pytest.raises(NoAnswer, match="No whole answer"):
        await source.open("a")
    assert len(mirror.asked) == QUICK.attempts


async def test_a_download_without_an_end_is_stopped(
    mirror: Mirror, source: MirrorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_mirror, "_LARGEST", 5_000_000)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(bytes(100_000))
        return response

    mirror.answer = endless
    with pytest.raises(BadFile, match="more than 5,000,000 bytes"):
        await source.open("a")


class _Full:
    """A temporary file on a full disk."""

    def write(self, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        self.is_closed = True


async def test_a_full_disk_is_told_and_nothing_is_left(
    mirror: Mirror, source: MirrorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 1000)

    mirror.answer, full = answer, _Full()
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)

    with pytest.raises(StorageFull, match="a download failed: No space left"):
        await source.open("a")

    assert full.is_closed

    class Usage:
        free = 999

    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: Usage)
    with pytest.raises(StorageFull, match="no space for 1,000 bytes"):
        await source.open("a")


async def test_a_password_in_the_address_is_not_told(mirror: Mirror, tmp_path: Path) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=500)

    mirror.answer = answer
    url = mirror.url.replace("://", "://me:secret@")
    source = MirrorSource(url, tmp_path, QUICK, SystemClock())

    with pytest.raises(Exception, match="status 500") as raised:
        await source.size("a")

    await source.aclose()
    assert "secret" not in str(raised.value)


def chosen(files: str, tmp_path: Path) -> FileSource | None:
    settings = Settings(ingest=Ingest(files=files), collect=Collect(data_dir=str(tmp_path)))
    return source_of(settings, SystemClock())


def test_the_setting_is_a_folder_an_address_or_empty(tmp_path: Path) -> None:
    assert chosen("", tmp_path) is None
    assert isinstance(chosen(str(tmp_path), tmp_path), FolderSource)
    assert isinstance(chosen("https://data.binance.vision", tmp_path), MirrorSource)
    for wrong in (str(tmp_path / "none"), "ftp://host", "https://", "http:/x"):
        with pytest.raises(ConfigError, match=r"ingest\.files"):
            chosen(wrong, tmp_path)


async def test_a_file_that_cannot_be_opened_is_an_error_of_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, zipped(row(1)))

    def refuse(_self: Path, _mode: str) -> IO[bytes]:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        await FolderSource(tmp_path).open(FILE.path)


async def test_a_wrong_checksum_closes_the_file(tmp_path: Path) -> None:
    assert SERIES is not None
    put(tmp_path, zipped(row(1)))
    (tmp_path / FILE.checksum_path).write_bytes(checksum(b"other"))
    files = PublishedFiles(FolderSource(tmp_path), SystemClock())

    with pytest.raises(BadFile, match="should be"):
        await anext(files.opened(SERIES, DAY.since_ms, DAY.until_ms, 0))


def test_trades_are_the_events_of_the_series() -> None:
    assert SERIES is not None
    assert isinstance(SERIES.read(row(7).split(","), 1), Trade)
