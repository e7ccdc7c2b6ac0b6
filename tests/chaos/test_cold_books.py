"""Many cold books at once: never over the limit, and hardly slower than the limit allows.

Simulator and collector are processes. The collector begins with as many books as take several
windows of the exchange's budget to ask for; then one of them loses frames. The simulator's request
log is what counts: one request for each book, no refusal, no window over the limit, and one request
more for the gap. All books are synced within 110 % of the time that the weight alone would take.
``make chaos-snapshots`` does the same with 400 books and the exchange's own limit.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S

from penstock.collect.status import CollectorStatus, read_status

BOOKS = int(os.environ.get("PENSTOCK_TEST_BOOKS", "60"))
WEIGHT = int(os.environ.get("PENSTOCK_TEST_WEIGHT", "1500"))
WINDOW_S = int(os.environ.get("PENSTOCK_TEST_WINDOW", "10"))

EXCHANGE, SLOT = "binance", "collect-binance"
SYMBOLS = [f"sim{number:03}_usdt" for number in range(1, BOOKS + 1)]
HIT, STREAM = SYMBOLS[0], "sim001usdt@depth*"
"""A busy market: its gap shows at once."""
COST = 50
"""Of a book of 1,000 levels."""
PENSTOCK = [sys.executable, "-m", "penstock"]
SLACK = 1.1


@contextmanager
def process(
    words: list[str], env: dict[str, str], errors: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with errors.open("wb") as sink:
        running = subprocess.Popen(
            [*PENSTOCK, *words], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=sink
        )
        try:
            yield running
        finally:
            running.kill()
            running.communicate()


@dataclass
class Scene:
    """A simulator, a collector's folder, and looks at both."""

    address: str
    folder: Path

    def ask(self, question: str, body: dict[str, str] | None = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        with urllib.request.urlopen(
            f"{self.address}/_sim/{question}", data, timeout=PATIENCE_S
        ) as answer:
            return json.load(answer)

    def book_requests(self) -> list[dict[str, Any]]:
        rows = self.ask("requests")["requests"]
        return [row for row in rows if row["path"].endswith("/depth")]

    def wait(self, seconds: float, true: Callable[[CollectorStatus], bool]) -> CollectorStatus:
        deadline = time.monotonic() + seconds
        while True:
            status = read_status(self.folder, SLOT)
            if status is not None and true(status):
                return status
            assert time.monotonic() < deadline, status and [
                (book.symbol, book.state, book.reason)
                for book in status.books
                if book.state != "synced"
            ]
            time.sleep(0.1)


def all_synced(status: CollectorStatus) -> bool:
    synced = sum(book.state == "synced" for book in status.books)
    return len(status.books) == BOOKS and synced == BOOKS


def test_cold_books_sync_as_fast_as_the_limit_allows_and_a_gap_costs_one_request(
    tmp_path: Path,
) -> None:
    simulated = {
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_LIMIT": str(WEIGHT),
        "PENSTOCK_SIMULATOR_BINANCE_WEIGHT_WINDOW": str(WINDOW_S),
    }
    words = ["sim", EXCHANGE, "--port", "0", "--json", "--symbols", ",".join(SYMBOLS)]
    with process(words, simulated, tmp_path / "sim") as simulator:
        assert simulator.stdout is not None
        scene = Scene(json.loads(simulator.stdout.readline())["listening"], tmp_path / "data")
        collected = {
            "PENSTOCK_EXCHANGES_REST_URLS": f"{EXCHANGE}={scene.address}",
            "PENSTOCK_EXCHANGES_STREAM_URLS": f"{EXCHANGE}={scene.address}",
            "PENSTOCK_COLLECT_DATA_DIR": str(scene.folder),
            "PENSTOCK_COLLECT_CHANNELS": "book_deltas",
            "PENSTOCK_COLLECT_AUDIT_EVERY": "0",
        }
        words = ["collect", EXCHANGE, *SYMBOLS]
        with process(words, collected, tmp_path / "collect") as collector:
            summary = begin(scene)
            summary |= lose_one(scene)
            collector.send_signal(signal.SIGTERM)
            assert collector.wait(30) == 0
        windows = scene.ask("windows")["windows"]
        refused = [row for row in scene.ask("requests")["requests"] if row["status"] != 200]
    fullest = max(window["max_used"] for window in windows)
    sound = all(window["sound"] for window in windows)
    summary |= {"fullest_window": fullest / WEIGHT, "refused": len(refused), "sound": sound}
    print(json.dumps(summary))

    assert refused == []
    assert fullest <= WEIGHT
    assert summary["requests"] == BOOKS, "one each"
    assert summary["requests_after_gap"] == 1
    # A simulator that could not keep up has made its client wait.
    assert summary["seconds"] <= SLACK * summary["floor_s"] or not sound, summary
    errors = (tmp_path / "collect").read_text()
    assert "Traceback" not in errors, errors[-2000:]


def begin(scene: Scene) -> dict[str, Any]:
    """Wait for all books; how long it took from the first request until all were seen synced."""
    floor_s = BOOKS * COST / WEIGHT * WINDOW_S
    status = scene.wait(3 * floor_s + 30, all_synced)
    asked = scene.book_requests()
    took_s = (status.at_ms - asked[0]["at_ms"]) / 1000
    return {"books": BOOKS, "floor_s": floor_s, "seconds": took_s, "requests": len(asked)}


def lose_one(scene: Scene) -> dict[str, Any]:
    """Drop frames of one book, until some are lost; what that costs."""
    before = len(scene.book_requests())
    scene.ask("faults", {"plan": f"drop@{STREAM}=1"})
    deadline = time.monotonic() + PATIENCE_S
    while not scene.ask("faults")["counts"].get("drop"):
        assert time.monotonic() < deadline, "nothing was lost"
        time.sleep(0.05)
    scene.ask("faults", {"plan": ""})

    def mended(status: CollectorStatus) -> bool:
        hit = next(book for book in status.books if book.symbol == HIT)
        return hit.resyncs == 1 and all_synced(status)

    status = scene.wait(2 * WINDOW_S + 30, mended)
    resyncs = {book.symbol: book.resyncs for book in status.books if book.resyncs}
    assert resyncs == {HIT: 1}, "its neighbours stay as they are"
    return {"requests_after_gap": len(scene.book_requests()) - before}
