"""A collector that is left alone takes no more memory and no more descriptors as time goes by.

Simulator and collector are processes; the collector streams a couple of thousand messages a second,
keeps its books, records and publishes. Its resident memory and its open descriptors are read from
the kernel all the while. ``make soak`` does it for two hours; ``make test ARGS="-m long"`` for five
minutes.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import pytest

from penstock.cli.processes import running
from penstock.collect.status import read_status

SECONDS = float(os.environ.get("PENSTOCK_TEST_SECONDS") or 300)
LEAST_PER_SECOND = 2_000
SYMBOLS = [
    "btc_usdt", "eth_usdt", "bnb_usdt", "sol_usdt", "xrp_usdt", "ada_usdt", "doge_usdt", "ltc_usdt",
    "btc_fdusd", "eth_fdusd",
    *(f"sim{number:02}1_usdt" for number in range(100)),
]  # fmt: skip
CHANNELS = "trades,book_deltas,book_snapshots,tickers"
"""As much as it takes for that."""
LOOK_S = 5.0
START_S = 60.0
WARM_S = max(120.0, SECONDS / 8)
"""Caches fill in this time: what comes later is growth."""
HOURLY_BYTES = 1_000_000
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    at_s: float
    rss_bytes: int
    descriptors: int


def look_at(pid: int, at_s: float) -> Sample:
    """What the kernel says of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Sample(at_s, pages * PAGE, sum(1 for _ in open_files(pid)))


def open_files(pid: int) -> Iterator[str]:
    """What a process holds open, but for the log's tables: there are more of them as it grows."""
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if not (name := str(each.readlink())).endswith(".sst"):
                yield name


def slope(samples: list[Sample]) -> float:
    """Bytes a second, by least squares."""
    at_s, rss = fmean(each.at_s for each in samples), fmean(each.rss_bytes for each in samples)
    across = sum((each.at_s - at_s) ** 2 for each in samples)
    return sum((each.at_s - at_s) * (each.rss_bytes - rss) for each in samples) / across


def around(samples: list[Sample], minute: float) -> float:
    """The memory at about that minute; for as long as the log fills a few write buffers."""
    near = [each.rss_bytes for each in samples if abs(each.at_s - 60 * minute) <= 30.0]
    return median(near)


async def soak(folder: Path) -> tuple[list[Sample], float]:
    """Samples over the whole time, and messages a second."""
    sim = ["sim", "binance", "--symbols", ",".join(SYMBOLS), "--port", "0", "--json"]
    async with running(sim, {}) as simulator:
        assert simulator.stdout is not None
        line = await asyncio.wait_for(simulator.stdout.readline(), START_S)
        address = json.loads(line)["listening"]
        environment = {
            "PENSTOCK_EXCHANGES_REST_URLS": f"binance={address}",
            "PENSTOCK_EXCHANGES_STREAM_URLS": f"binance={address}",
            "PENSTOCK_COLLECT_DATA_DIR": str(folder),
            "PENSTOCK_COLLECT_AUDIT_EVERY": "60",
        }
        collect = ["collect", "binance", *SYMBOLS, "--channels", CHANNELS]
        async with running(collect, environment) as collector:
            began_s, samples = time.monotonic(), list[Sample]()
            while (at_s := time.monotonic() - began_s) < SECONDS:
                await asyncio.sleep(LOOK_S)
                assert collector.returncode is None, "the collector has died"
                samples.append(look_at(collector.pid, at_s))
            status = read_status(folder, "collect-binance")
    assert status is not None
    assert {book.state for book in status.books} == {"synced"}, status.books
    seconds = (status.at_ms - status.started_ms) / 1000
    return samples, sum(stream.records for stream in status.streams) / seconds


@pytest.mark.long
async def test_left_alone_it_takes_no_more_memory_and_no_more_descriptors(tmp_path: Path) -> None:
    samples, per_second = await soak(tmp_path)
    warm = [each for each in samples if each.at_s >= WARM_S]
    hourly = slope(warm) * 3600
    descriptors = sorted({each.descriptors for each in warm})
    report = {
        "seconds": SECONDS,
        "messages_per_second": round(per_second),
        "rss_mb": {f"{each.at_s:.0f}": round(each.rss_bytes / 1e6, 1) for each in samples[::12]},
        "rss_slope_mb_per_hour": round(hourly / 1e6, 2),
        "descriptors": descriptors,
    }
    print(json.dumps(report))

    assert per_second >= LEAST_PER_SECOND, report
    assert descriptors[-1] - descriptors[0] <= 8, report
    if SECONDS >= 3600:
        assert hourly <= HOURLY_BYTES, report
    else:
        assert around(samples, 5) <= 1.05 * around(samples, 2), report
