"""What watching costs: statistics over 100,000 files, and a scrape of eight busy processes.

The files are those of a lake: in folders by channel, exchange and day, one Parquet file and links
to it. ``stats_first_s`` also samples the symbols of each folder, for a second at most. A scrape is
one of a server over HTTP; each process serves its metrics of 500 streams on its socket, in a
process of its own as in a fleet.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.app.server import open_server
from penstock.clock import SystemClock
from penstock.config import Api, Collect, Loaded, Settings
from penstock.runtime.status import ProcessStatus, this_machine, write_process
from penstock.runtime.stores import open_state
from penstock.stats.sockets import socket_file
from penstock.stats.storage import Places, StorageScanner

FILES = 100_000
CHANNELS, EXCHANGES, DAYS = 5, 4, 100
SYMBOLS = 20
PROCESSES, STREAMS = 8, 500
SCRAPES = 20


def make_files(lake: Path) -> None:
    """The files of a lake, evenly in folders."""
    symbols = [f"C{number}/USDT" for number in range(SYMBOLS)]
    rows = pa.table({"symbol": symbols * 50})
    for channel, exchange, day in product(range(CHANNELS), range(EXCHANGES), range(DAYS)):
        folder = lake / f"channel{channel}" / f"exchange=e{exchange}" / f"date=2026-{day:03}"
        folder.mkdir(parents=True)
        pq.write_table(rows, folder / "0.parquet")
        for number in range(1, FILES // (CHANNELS * EXCHANGES * DAYS)):
            os.link(folder / "0.parquet", folder / f"{number}.parquet")


def measure_statistics() -> dict[str, object]:
    """Seconds of the first measurement, and the median of those after it."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-stats-") as folder:
        make_files(Path(folder) / "lake")
        places = Places(Path(folder), Path(folder) / "log", Path(folder) / "lake")
        scanner, took = StorageScanner(places, time.monotonic_ns), []
        for _ in range(6):
            began = time.monotonic()
            found = scanner.measure([])
            took.append(time.monotonic() - began)
        files = next(each.files for each in found.directories if each.directory == ".")
        assert files == FILES, files
    return {
        "stats_files": files,
        "stats_first_s": round(took[0], 2),
        "stats_scan_s": round(statistics.median(took[1:]), 2),
    }


_PROCESS = """
import sys
from pathlib import Path
from prometheus_client import CollectorRegistry, Counter, generate_latest
from penstock.runtime.status import this_machine
from penstock.stats.sockets import served_on, socket_file
registry, streams = CollectorRegistry(), int(sys.argv[2])
for name in ("records", "gaps", "refusals"):
    labels = ["exchange", "channel", "symbol"]
    counter = Counter(f"penstock_{name}", name, labels, registry=registry)
    for number in range(streams):
        counter.labels("toy", "trades", f"c{number}_usdt").inc(number)
with served_on(socket_file(Path(sys.argv[1]), *this_machine()), lambda: generate_latest(registry)):
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def processes(folder: Path) -> Iterator[list[int]]:
    """Processes that serve metrics; their ids."""
    (folder / "log").mkdir(exist_ok=True)  # they serve nothing in an empty folder
    with ExitStack() as stack:
        found = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _PROCESS, str(folder), str(STREAMS)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for _ in range(PROCESSES)
        ]
        for each in found:
            assert each.stdout is not None
            each.stdout.readline()
            while not socket_file(folder, this_machine()[0], each.pid).exists():
                time.sleep(0.01)
        yield [each.pid for each in found]


async def _scrapes(folder: Path, pids: list[int]) -> tuple[list[float], bytes]:
    settings = Settings(collect=Collect(data_dir=str(folder)), api=Api(port=0))
    clock, took, text = SystemClock(), [], b""
    loaded = Loaded(settings, {})
    async with open_server(loaded, clock) as server, aiohttp.ClientSession() as session:
        async with open_state(settings, clock) as store:
            for number, pid in enumerate(pids):
                status = ProcessStatus(
                    kind="collect", name=f"collect-{number}", host=this_machine()[0], pid=pid,
                    folder=str(folder), started_ms=1, at_ms=1, state="running",
                )  # fmt: skip
                await write_process(store, str(number), status)
        for _ in range(SCRAPES):
            began = time.monotonic()
            async with session.get(f"{server.url}/metrics") as answer:
                text = await answer.read()
            took.append(1000 * (time.monotonic() - began))
    return took, text


def measure_scrape() -> dict[str, object]:
    """Milliseconds of a scrape, the median, and how many series it has."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-scrape-") as name:
        folder = Path(name)
        with processes(folder) as pids:
            took, text = asyncio.run(_scrapes(folder, pids))
    lines = [line for line in text.splitlines() if not line.startswith(b"#")]
    assert sum(b'process="collect-' in line for line in lines) > PROCESSES * STREAMS
    return {
        "scrape_processes": PROCESSES,
        "scrape_series": len(lines),
        "scrape_ms": round(statistics.median(took), 1),
    }


def measure_monitoring() -> Mapping[str, object]:
    """Both."""
    return {**measure_statistics(), **measure_scrape()}
