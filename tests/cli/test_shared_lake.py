"""Two data folders, one PostgreSQL and one lake on an S3 server: one frame with every row."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import aiohttp
import pytest
from tests import servers
from tests.waiting import PATIENCE_S

import penstock
from penstock.coverage.gap_rows import GapRows
from penstock.dataset.dataset import Dataset
from penstock.errors import PenstockError
from penstock.simulator.judge import Evidence, Findings, Judge, SeenTrade
from penstock.storage.state import open_store

from .conftest import run, started, stopped, urls, wait_until

MARKETS = {"btc_usdt": "BTC/USDT", "eth_usdt": "ETH/USDT"}


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    with servers.postgresql("-F") as url:
        yield url


@pytest.fixture
def told(exchange: str, postgresql_url: str, s3_options: dict[str, str]) -> dict[str, str]:
    """The environment of all processes."""
    return {
        **urls(exchange),
        "PENSTOCK_STATE_URL": postgresql_url,
        "PENSTOCK_STORAGE_LAKE_URL": f"s3://lake/{token_hex(4)}",
        "PENSTOCK_STORAGE_LAKE_OPTIONS": ",".join(f"{k}={v}" for k, v in s3_options.items()),
        "PENSTOCK_COLLECT_CHANNELS": "trades",
        "PENSTOCK_KEEP_SETTLE": "2",
        "PENSTOCK_KEEP_SEAL_EVERY": "0.5",
        "PENSTOCK_JOBS_GAP_WATCH": "0.5",
        "PENSTOCK_JOBS_CONCURRENCY": "1",
    }


@pytest.mark.sample
def test_records_of_two_folders_are_one_frame(
    tmp_path: Path, exchange: str, told: dict[str, str], s3_options: dict[str, str]
) -> None:
    def opened(where: Path | str) -> Dataset:
        return penstock.open(
            where,
            state_url=told["PENSTOCK_STATE_URL"],
            lake_url=None if isinstance(where, str) else told["PENSTOCK_STORAGE_LAKE_URL"],
            storage_options=s3_options,
        )

    # Both folders collect one market; the other is in b alone. Between the two runs is a gap.
    for _ in range(2):
        collect(tmp_path, told, {"a": ["btc_usdt"], "b": ["btc_usdt", "eth_usdt"]})
    fill_gaps_and_fetch_candles(tmp_path, told)

    from_a = opened(tmp_path / "a")
    said = "\n".join(from_a.trades().missing())
    assert "slot collect-binance of another log" in said, "known from the store"
    # Either worker may have filled the gaps.
    said += "\n".join(opened(tmp_path / "b").trades().missing())
    assert "records of slot work-0 of another log" in said
    with pytest.warns(penstock.GapWarning, match="not in the lake yet"):
        from_a.trades("ETH/USDT").polars()

    keep_until_nothing_is_missing(tmp_path, "b", told, from_a)
    check(from_a, exchange)
    keep_until_nothing_is_missing(tmp_path, "a", told, opened(told["PENSTOCK_STORAGE_LAKE_URL"]))
    lake = opened(told["PENSTOCK_STORAGE_LAKE_URL"])
    check(lake, exchange)
    assert lake.verify(checks=["records", "ids", "candles"]).clean


def collect(folder: Path, told: dict[str, str], markets: dict[str, list[str]]) -> None:
    """Collect in several data folders until each has trades of each of its markets."""
    began = datetime.now(UTC)

    def has_trades(name: str, slug: str) -> bool:
        try:
            data = penstock.open(folder / name, state_url=told["PENSTOCK_STATE_URL"])
            return any(True for _ in data.trades(MARKETS[slug], since=began, on_gap="ignore"))
        except PenstockError:
            return False  # there is no such folder or market yet

    with ExitStack() as stack:
        collectors = [
            stack.enter_context(
                started(
                    *("collect", "binance", *slugs, "--data-dir", name),
                    folder=folder,
                    environment=told,
                )
            )
            for name, slugs in markets.items()
        ]
        for name, slugs in markets.items():
            for slug in slugs:
                wait_until(partial(has_trades, name, slug), collectors[0], every_s=1)
        for each in collectors:
            code, _, errors = stopped(each)
            assert code == 0, errors


def fill_gaps_and_fetch_candles(folder: Path, told: dict[str, str]) -> None:
    """Have workers of both folders run jobs until none is left."""
    since = (datetime.now(UTC) - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%MZ")
    for symbol in MARKETS:
        words = ("jobs", "add", "binance", "ohlcv_backfill", symbol, "1m", "--since", since)
        done = run(*words, folder=folder, **told)
        assert done.returncode == 0, done.stderr

    async def is_filled() -> bool:
        store = await open_store(told["PENSTOCK_STATE_URL"])
        gaps = await GapRows(store).find()
        await store.close()
        trades = [gap for gap in gaps if gap.channel == "trades"]
        return len(trades) >= len(MARKETS) and all(gap.state == "filled" for gap in trades)

    def is_done() -> bool:
        jobs = run("jobs", "list", "--json", folder=folder, **told).stdout.splitlines()
        return {json.loads(job)["state"] for job in jobs} == {"success"} and asyncio.run(
            is_filled()
        )

    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                started("work", "--data-dir", name, folder=folder, environment=told)
            )
            for name in ("a", "b")
        ]
        wait_until(is_done, workers[0], every_s=1)
        for each in workers:
            code, _, errors = stopped(each)
            assert code == 0, errors


def keep_until_nothing_is_missing(
    folder: Path, name: str, told: dict[str, str], reader: Dataset
) -> None:
    """Seal one data folder until a reader misses nothing."""
    with started("keep", "--data-dir", name, folder=folder, environment=told) as keeper:
        wait_until(
            lambda: not reader.trades().missing() and not reader.candles("1m").missing(),
            keeper,
            every_s=1,  # each reads the whole lake
        )
        code, _, errors = stopped(keeper)
    assert code == 0, errors


def check(data: Dataset, exchange: str) -> None:
    """Compare the frames of a reader with the simulator's ledger."""
    frame = data.trades(on_gap="raise", numbers="text").polars()
    evidence: dict[str, Evidence] = {}
    for slug, symbol in MARKETS.items():
        trades = list(data.trades(symbol, on_gap="raise"))
        ids = [each.id for each in trades]
        assert frame.filter(symbol=symbol)["id"].sort().to_list() == sorted(ids)
        assert len(data.candles("1m", symbol, on_gap="raise").polars()) >= 119
        seen = [SeenTrade(t.id, t.at_ms, t.price, t.quantity, t.taker == "buy") for t in trades]
        evidence[slug] = Evidence(seen)
    assert frame.height == sum(len(each.trades) for each in evidence.values())
    found = asyncio.run(judged(exchange, evidence))
    assert found.trades == frame.height > 100
    wrong = (found.trades_missing, found.trades_duplicated, found.trades_wrong)
    assert wrong == (0, 0, 0)


async def judged(exchange: str, evidence: Any) -> Findings:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(PATIENCE_S)) as http:
        return await Judge(http, exchange).judge(evidence)
