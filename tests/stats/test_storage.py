"""Statistics of storage: sizes by exchange, channel and symbol, remembered and shown as gauges."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from penstock.clock import ManualClock
from penstock.config import Collect, Settings
from penstock.errors import StoreUnreachable
from penstock.stats.disk import Use
from penstock.stats.facts import StorageMeasured
from penstock.stats.growth import EVERY_MS
from penstock.stats.metrics import Metrics
from penstock.stats.reporter import KnownSizes, StatisticsReporter
from penstock.stats.shares import PartitionFiles, PartitionKey, Sampler
from penstock.stats.statistics import DirectoryStatistics, read_statistics, stored_samples
from penstock.stats.storage import Places, StorageScanner
from penstock.storage.lake import TableStats
from penstock.storage.log import SlotStats, StreamStats
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore, open_store
from penstock.telemetry import Fact

NOW_MS = 1_800_000_000_000


def write(path: Path, blocks: int, at_s: int = 1000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(blocks * 4096))
    os.utime(path, (at_s, at_s))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write(folder / "state.db", 3)
    write(folder / "log/collect-toy/000009.sst", 8, at_s=2000)
    write(folder / "log/collect-toy/LOG", 1)
    write(folder / "log/collect-toy.owner", 1)
    write(folder / "lake/trades/exchange=toy/date=2026-11-17/a.parquet", 4)
    write(folder / "lake/trades/exchange=toy/date=2026-11-18/b.parquet", 2, at_s=3000)
    write(folder / "lake/trades/exchange=an%2Fother/date=2026-11-18/c.parquet", 1)
    write(folder / "lake/trades/_delta_log/0.json", 1)
    return folder


def places(data: Path) -> Places:
    return Places(data, data / "log", data / "lake")


def stream(symbol: str, records: int, record_bytes: int = 100) -> StreamStats:
    return StreamStats(
        Stream("toy", "trades", symbol), records, records, b"", b"", 0, 5_000_000_000, record_bytes
    )


SLOTS = [SlotStats("collect-toy", 0, (stream("btc_usdt", 300), stream("eth_usdt", 100)))]


def rows(scanner: StorageScanner, slots: list[SlotStats]) -> Mapping[str, DirectoryStatistics]:
    return {each.directory: each for each in scanner.measure(slots).directories}


def test_files_are_counted_by_exchange_and_channel_and_in_all_directories_above(
    data: Path,
) -> None:
    found = rows(StorageScanner(places(data), lambda: 0), SLOTS)

    exact = {
        name: (each.size_bytes // 4096, each.files)
        for name, each in found.items()
        if not each.approximate
    }
    assert exact == {
        ".": (21, 8),
        "log": (10, 3),
        "log/collect-toy": (9, 2),
        "lake": (8, 4),
        "lake/toy": (6, 2),
        "lake/toy/trades": (6, 2),
        "lake/an/other": (1, 1),
        "lake/an/other/trades": (1, 1),
        "lake/_delta_log": (1, 1),
        "lake/_delta_log/trades": (1, 1),
    }
    assert found["lake/toy/trades"].updated_ms == 3_000_000
    assert found["."].updated_ms == 3_000_000


def test_a_slot_divides_by_the_records_of_its_streams(data: Path) -> None:
    found = rows(StorageScanner(places(data), lambda: 0), SLOTS)

    whole = found["log/collect-toy"].size_bytes
    btc = found["log/collect-toy/toy/trades/btc_usdt"]
    assert btc.size_bytes == round(whole * 3 / 4)
    assert (btc.files, btc.updated_ms, btc.approximate) == (2, 5_000, True)
    assert found["log/collect-toy/toy/trades/eth_usdt"].size_bytes == round(whole / 4)


def test_a_folder_elsewhere_is_measured_and_one_inside_another_is_not_counted_twice(
    data: Path, tmp_path: Path
) -> None:
    (data / "lake").rename(tmp_path / "elsewhere")
    scanner = StorageScanner(Places(data, data / "log", tmp_path / "elsewhere"), lambda: 0)

    found = scanner.measure(SLOTS)

    named = {each.directory: each for each in found.directories}
    assert named["lake/toy/trades"].size_bytes == 6 * 4096
    assert named["."].size_bytes == 21 * 4096
    [disk] = found.disks
    assert (disk.path, disk.data_bytes) == (str(data), 21 * 4096)
    assert 0 < disk.free_bytes < disk.size_bytes


def test_a_lake_in_an_object_store_is_listed_by_table(data: Path) -> None:
    scanner = StorageScanner(Places(data, data / "log", None), lambda: 0)

    found = scanner.measure([], [TableStats("trades", 3, 5, 100, 10**6)])

    named = {each.directory: each for each in found.directories}
    lake = named["lake/trades"]
    assert (lake.size_bytes, lake.files, lake.updated_ms) == (10**6, 5, None)


def test_links_are_not_followed_and_what_cannot_be_read_is_left_out(data: Path) -> None:
    (data / "loop").symlink_to(data)
    (data / "nowhere").symlink_to(data / "missing")

    assert rows(StorageScanner(places(data), lambda: 0), [])["."].files == 10
    missing = StorageScanner(Places(data / "not there"), lambda: 0).measure([])
    assert (missing.disks, missing.directories) == ((), ())


KEYS = [PartitionKey("trades", "toy", (f"date={day}",)) for day in range(5)]


@given(
    sizes=st.lists(st.integers(0, 10**12), min_size=5, max_size=5),
    counts=st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 99)), min_size=5,
                    max_size=5),
    sampled=st.integers(0, 5),
)  # fmt: skip
def test_the_symbols_of_a_table_take_what_the_table_takes(
    sizes: list[int], counts: list[dict[str, int]], sampled: int
) -> None:
    partitions = {
        key: PartitionFiles(Use(size, 1, 1), Path(str(number)))
        for number, (key, size) in enumerate(zip(KEYS, sizes, strict=True))
    }

    def read(file: Path) -> Mapping[str, float]:
        found = counts[int(file.name)]
        return {symbol: count / sum(found.values()) for symbol, count in found.items()}

    sampler, left = Sampler(read), iter([True] * sampled)
    sampler.sample(partitions, lambda: next(left, False))

    divided = sampler.divide(partitions)
    largest = sorted(KEYS, key=lambda key: partitions[key].use.size_bytes, reverse=True)
    known = [key for key in largest[:sampled] if counts[int(partitions[key].largest.name)]]
    expected = sum(sizes) if any(partitions[key].use.size_bytes for key in known) else 0
    assert sum(use.size_bytes for use in divided.values()) == pytest.approx(expected, abs=20)


def test_a_file_is_sampled_once_and_again_only_if_another_is_the_largest() -> None:
    read: list[str] = []

    def shares(file: Path) -> Mapping[str, float]:
        read.append(file.name)
        if file.name == "damaged":
            raise ValueError("not a file of ours")
        return {"btc_usdt": 1.0}

    sampler = Sampler(shares)
    for names in (["a", "b"], ["a", "b"], ["a", "c"], ["damaged", "c"], ["damaged", "c"]):
        partitions = {
            key: PartitionFiles(Use(10, 1, 1), Path(name))
            for key, name in zip(KEYS, names, strict=False)
        }
        sampler.sample(partitions, lambda: True)

    assert read == ["a", "b", "c", "damaged"]
    assert sampler.divide(partitions)["toy", "trades", "btc_usdt"].size_bytes == 20


def reporter(data: Path, clock: ManualClock, facts: list[Fact]) -> StatisticsReporter:
    scanner = StorageScanner(places(data), clock.monotonic_ns)
    known = KnownSizes(SLOTS, [])
    return StatisticsReporter(scanner, str(data), lambda: known, clock, facts.append)


async def test_growth_survives_a_restart_because_samples_are_stored(data: Path) -> None:
    store, clock, facts = await open_store("memory:"), ManualClock(NOW_MS), list[Fact]()
    for number in range(8):
        found = await reporter(data, clock, facts).report(store, "a")
        write(data / f"lake/trades/exchange=toy/date=2026-11-18/{number}.parquet", 10)
        await clock.advance(EVERY_MS / 1000)

    [disk] = found.disks
    per_day = 10 * 4096 * 6 * 24
    assert disk.growth_bytes_per_day == pytest.approx(per_day)
    assert disk.days_until_full == pytest.approx(disk.free_bytes / per_day)
    assert len((await stored_samples(store, "a"))[str(data)]) == 8
    assert await read_statistics(store) == [found]
    assert await stored_samples(store, "b") == {}


async def test_a_folder_that_nobody_measures_is_forgotten_after_a_month(data: Path) -> None:
    clock, facts = ManualClock(NOW_MS), list[Fact]()
    store = await open_store("memory:", clock=clock)
    await reporter(data / "removed", clock, facts).report(store, "removed")
    await clock.advance(29 * 86_400)
    await reporter(data, clock, facts).report(store, "a")
    assert [each.folder for each in await read_statistics(store)] == [str(data), f"{data}/removed"]

    await clock.advance(2 * 86_400)
    await reporter(data, clock, facts).report(store, "a")
    assert [each.folder for each in await read_statistics(store)] == [str(data)]


async def test_datasets_have_their_own_growth(data: Path) -> None:
    store, clock, facts = await open_store("memory:"), ManualClock(NOW_MS), list[Fact]()
    for number in range(60):
        found = await reporter(data, clock, facts).report(store, "a")
        write(data / f"lake/trades/exchange=toy/date=2026-11-18/{number}.parquet", 10)
        await clock.advance(EVERY_MS / 1000)

    growth = {each.dataset: each.growth_bytes_per_day for each in found.directories if each.dataset}
    assert growth["toy/trades"] == pytest.approx(10 * 4096 * 6 * 24)
    assert {per_day for name, per_day in growth.items() if name != "toy/trades"} <= {0.0}
    samples = (await stored_samples(store, "a"))["lake/toy/trades"]
    assert len(samples) == 10, "one an hour"
    assert await read_statistics(store) == [found]


async def test_gauges_are_served_though_the_store_does_not_answer(data: Path) -> None:
    class Silent(StateStore):
        async def get(self, *_: object) -> None:
            raise StoreUnreachable("somewhere", "no answer")

    store = await open_store("memory:")
    silent, facts = Silent(store._backend, 1), list[Fact]()

    clock = ManualClock(NOW_MS)
    await reporter(data, clock, []).report(store, "a")
    await clock.advance(EVERY_MS / 1000)
    restarted = reporter(data, clock, facts)
    with pytest.raises(StoreUnreachable):
        await restarted.report(silent, "a")

    assert [type(fact) for fact in facts] == [StorageMeasured]
    await restarted.report(store, "a")
    samples = (await stored_samples(store, "a"))[str(data)]
    assert len(samples) == 2, "what was stored before is read later, and not overwritten"


async def test_the_gauges_have_the_names_of_the_specification(data: Path) -> None:
    store, facts = await open_store("memory:"), list[Fact]()
    await reporter(data, ManualClock(NOW_MS), facts).report(store, "a")
    metrics = Metrics()
    for fact in facts:
        metrics(fact)

    families = {each.name: each for each in text_string_to_metric_families(metrics.text().decode())}
    for name, value in (
        ("storage_directory_size_bytes", 6 * 4096),
        ("storage_directory_file_count", 2),
        ("storage_directory_last_updated_timestamp", 3000),
    ):
        samples = {each.labels["directory"]: each.value for each in families[name].samples}
        assert families[name].type == "gauge"
        assert all(set(each.labels) == {"directory"} for each in families[name].samples)
        assert samples["lake/toy/trades"] == value

    [measured] = facts
    assert isinstance(measured, StorageMeasured)
    metrics(StorageMeasured(statistics=replace(measured.statistics, directories=())))
    assert b'directory="lake' not in metrics.text(), "what no longer exists is not served"


def test_the_settings_name_what_is_measured(tmp_path: Path) -> None:
    from penstock.app.monitoring import reporter_of  # noqa: PLC0415

    settings = Settings(collect=Collect(data_dir=str(tmp_path)))
    found = reporter_of(settings, lambda: KnownSizes([], []), ManualClock(0))

    assert found._scanner._places == places(tmp_path)
