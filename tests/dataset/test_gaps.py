"""What is missing in a range is reported: named by a warning or an error, or listed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset, seal, stored
from tests.events import candle, trade

from penstock import GapError, GapWarning
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow, Run, SlotCoverage, as_document
from penstock.dataset.dataset import Dataset
from penstock.errors import NotCollected
from penstock.storage.lake.documents import SealState, merge_seals
from penstock.storage.log import open_log
from penstock.storage.state import open_store
from penstock.storage.state.schema import COVERAGE

NOON_MS = NOON_NS // 1_000_000
HELD = SlotCoverage(
    exchange="toy", channel="trades", symbol="btc_usdt", log_id=1, slot="a", number=90, by="id",
    runs=(
        Run(1, 50, NOON_MS + 1_000, NOON_MS + 50_000),
        Run(61, 100, NOON_MS + 61_000, NOON_MS + 100_000),
    ),
)  # fmt: skip
GAP = GapRow(
    exchange="toy", channel="trades", symbol="btc_usdt", by="id", first=51, last=60,
    since_ms=NOON_MS + 50_000, until_ms=NOON_MS + 61_000, cause="disconnected", origin="ours",
    reason="the connection was reset",
)  # fmt: skip


def data_with(folder: Path, gaps: Sequence[GapRow]) -> Dataset:
    url = f"sqlite:{folder / 'state.db'}"

    async def write() -> None:
        store = await open_store(url)
        await store.insert_if_absent(COVERAGE, as_document(HELD))
        for each in gaps:
            await GapRows(store).open(each)
        await store.close()

    asyncio.run(write())
    log = open_log("memory:")
    ids = [*range(1, 51), *range(61, 101)]
    times = [(each, NOON_NS + each * SECOND_NS) for each in ids]
    log.writer("a").append([trade(i, at_ns=ns, received_at_ns=ns) for i, ns in times])
    return dataset(log, state_url=url)


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return data_with(tmp_path, [GAP])


def test_a_gap_in_the_range_is_named_by_a_warning(data: Dataset) -> None:
    with pytest.warns(GapWarning) as caught:
        frame = data.trades("BTC/USDT").polars()

    assert frame.height == 90
    text = str(caught[0].message)
    assert "toy trades BTC/USDT: 2026-11-01T12:00:50Z to 2026-11-01T12:01:01Z" in text
    assert "ids 51 to 60" in text
    assert "gap, disconnected, the connection was reset" in text
    assert caught[0].filename == __file__


def test_a_gap_may_be_an_error(data: Dataset) -> None:
    query = data.trades("BTC/USDT", on_gap="raise")

    with pytest.raises(GapError, match="ids 51 to 60"):
        query.polars()
    with pytest.raises(GapError):
        iter(query)


@pytest.mark.parametrize(("since", "until"), [(1, 49), (62, 100)])
def test_a_range_without_gaps_is_silent(data: Dataset, since: int, until: int) -> None:
    times = [NOON_NS + second * SECOND_NS for second in (since, until)]

    assert data.trades(since=times[0], until=times[1], on_gap="raise").polars().height


def test_times_before_and_after_the_collection_are_missing(data: Dataset) -> None:
    with pytest.warns(GapWarning, match=r"nothing before 2026-11-01T12:00:01Z was collected"):
        data.trades(since="2026-10-01", until="2026-10-02").polars()
    with pytest.warns(GapWarning, match=r"nothing after 2026-11-01T12:01:40Z was collected"):
        data.trades(since="2026-11-01T13:00").polars()


def test_a_filled_gap_is_not_missing(tmp_path: Path) -> None:
    data = data_with(tmp_path, [replace(GAP, state="filled", source="backfill")])

    assert data.trades(on_gap="raise").polars().height
    assert [row.state for row in data.coverage()] == ["complete", "filled", "complete"]
    assert list(data.gaps()) == []


def test_an_unfillable_gap_is_missing(tmp_path: Path) -> None:
    data = data_with(tmp_path, [replace(GAP, state="unfillable", reason="older than 7 days")])

    with pytest.raises(GapError, match="unfillable, disconnected, older than 7 days"):
        data.trades(on_gap="raise").polars()


def test_coverage_and_gaps_are_listed_and_framed(data: Dataset) -> None:
    (gap,) = data.gaps("btc_usdt", channel="trades")

    assert (gap.first, gap.last, gap.origin) == (51, 60, "ours")
    frame = data.coverage().polars()
    assert frame["state"].to_list() == ["complete", "gap", "complete"]
    assert frame["since"].is_sorted()
    assert data.coverage().pandas().shape == (3, 13)
    assert data.coverage(since=NOON_NS + 62 * SECOND_NS).arrow().num_rows == 1
    assert data.sql("SELECT count(*) FROM coverage WHERE state = 'gap'").rows() == [(1,)]


def test_a_hole_that_is_not_reported_yet_is_missing(tmp_path: Path) -> None:
    with pytest.raises(GapError, match=r"ids 51 to 60\): gap, not examined yet"):
        data_with(tmp_path, []).trades(on_gap="raise").polars()


def test_what_another_machine_has_not_sealed_yet_is_said(tmp_path: Path) -> None:
    data_with(tmp_path, [])
    url = f"sqlite:{tmp_path / 'state.db'}"
    at_ns = NOON_NS + SECOND_NS
    seal(tmp_path / "lake", stored([trade(1, at_ns=at_ns, received_at_ns=at_ns)], "a"), log_id=1)
    data = dataset(None, tmp_path / "lake", url)
    query = data.trades(until=NOON_NS + 45 * SECOND_NS, on_gap="raise")

    with pytest.raises(GapError, match="slot a of another log received after 2026-11-01T12:00:01Z"):
        query.polars()
    sealed = SealState(log_id="1", slot="a", channel="trades", sealed_ms=NOON_MS + 50_000)

    async def write() -> None:
        store = await open_store(url)
        await merge_seals(store, sealed)
        await store.close()

    asyncio.run(write())
    assert query.polars().height == 1
    with pytest.raises(GapError, match="received after 2026-11-01T12:00:50Z is not in the lake"):
        data.trades(on_gap="raise").polars()


def write_state(url: str, held: SlotCoverage, sealed: SealState | None) -> None:
    async def write() -> None:
        store = await open_store(url)
        await store.insert_if_absent(COVERAGE, as_document(held))
        if sealed is not None:
            await merge_seals(store, sealed)
        await store.close()

    asyncio.run(write())


def test_old_records_that_a_job_recorded_elsewhere_lately_are_said(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'state.db'}"
    late_ms = NOON_MS + 3_600_000
    seal(tmp_path / "lake", stored([trade(1, at_ns=NOON_NS)], "work-0"), log_id=1)
    sealed = SealState(
        log_id="1", slot="work-0", channel="trades", sealed_ms=late_ms,
        numbers={str(HELD.stream): 80},
    )  # fmt: skip
    write_state(url, replace(HELD, slot="work-0"), sealed)
    data = dataset(None, tmp_path / "lake", url)

    with pytest.raises(GapError, match="10 records of slot work-0 of another log are not in the"):
        data.trades(until=late_ms, on_gap="raise").polars()
    assert "10 records" in "".join(data.trades(until=NOON_MS + 2_000).missing())
    after = data.trades(since=NOON_MS + 200_000, until=NOON_MS + 300_000)
    assert "another log" not in "".join(after.missing())

    all_ = replace(sealed, numbers={str(HELD.stream): 90})
    write_state(url, HELD, all_)
    assert not [each for each in data.trades().missing() if "work-0" in each]


def test_a_market_that_only_another_machine_has_and_has_not_sealed_is_said(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'state.db'}"
    write_state(url, replace(HELD, symbol="eth_usdt"), None)
    seal(tmp_path / "lake", stored([trade(1, at_ns=NOON_NS)], "a"), log_id=1)
    data = dataset(None, tmp_path / "lake", url)

    for query in (data.trades("ETH/USDT"), data.trades(["BTC/USDT", "eth_usdt"]), data.trades()):
        said = "".join(query.missing())
        assert "trades ETH/USDT: what slot a of another log received after" in said
    with pytest.raises(GapError, match="ETH/USDT"):
        data.trades("ETH/USDT", on_gap="raise").polars()
    assert data.trades("ETH/USDT", on_gap="ignore").polars().height == 0
    assert {row.symbol for row in data.coverage("ETH/USDT")} == {"ETH/USDT"}
    with pytest.raises(NotCollected):
        data.trades("XRP/USDT")


def test_a_candle_that_has_ended_elsewhere_is_said_until_it_is_sealed(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'state.db'}"
    hour_ms = 3_600_000
    held = SlotCoverage(
        exchange="toy", channel="candles_1h", symbol="btc_usdt", log_id=1, slot="a", number=2,
        by="open_ms",
        runs=(Run(NOON_MS, NOON_MS + 2 * hour_ms - 1, NOON_MS, NOON_MS + 2 * hour_ms),),
    )  # fmt: skip
    seal(tmp_path / "lake", stored([candle(NOON_MS, interval="1h")], "a"), log_id=1)
    sealed = SealState(
        log_id="1", slot="a", channel="candles", sealed_ms=NOON_MS + 2 * hour_ms + 500,
        numbers={str(held.stream): 1},
    )  # fmt: skip
    write_state(url, held, sealed)
    data = dataset(None, tmp_path / "lake", url)

    said = data.candles("1h", until=NOON_MS + 2 * hour_ms).missing()
    assert "is not in the lake yet" in "".join(said), "the second was received at its end"
    assert data.candles("1h", until=NOON_MS + hour_ms // 2).missing() == []


def test_unknown_coverage_is_said(tmp_path: Path) -> None:
    log = open_log("memory:")
    log.writer("a").append([trade(1, at_ns=NOON_NS, received_at_ns=NOON_NS)])

    with pytest.warns(GapWarning, match="gaps are not known"):
        dataset(log).trades().polars()
