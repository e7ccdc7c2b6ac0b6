"""``penstock ingest``: what it fetches, how it stops and continues, and what it refuses."""

import asyncio
import json
import shlex
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.jobs_made import made_job

from penstock.clock import SystemClock
from penstock.connectors import ConnectorManager
from penstock.ingest.registry import kinds
from penstock.jobs.model import JobLock
from penstock.jobs.product_locks import ProductLocks
from penstock.jobs.service import JobService
from penstock.market.events import Trade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream
from penstock.storage.state import open_store
from penstock.throttle.gate import Limit

from .conftest import PENSTOCK, invoke, started, stopped, urls, wait_until
from .terminal import CTRL_C, terminal


@pytest.fixture
def folder(tmp_path: Path, exchange: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder, with the exchange at its address."""
    for name, value in urls(exchange).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PENSTOCK_COLLECT_DATA_DIR", str(tmp_path))
    return tmp_path


def ask(address: str, question: str, **query: str | int) -> Any:
    words = "&".join(f"{name}={value}" for name, value in query.items())
    with urllib.request.urlopen(f"{address}/_sim/{question}?{words}") as answer:
        return json.load(answer)


def newest(address: str, slug: str = "btc_usdt") -> int:
    at_ms = ask(address, "state")["at_ms"]
    return int(ask(address, "ledger/ids", symbol=slug, at_ms=at_ms)["next_trade_id"]) - 1


def truth(address: str, first: int, last: int, slug: str = "btc_usdt") -> list[tuple[int, Decimal]]:
    rows: list[tuple[int, Decimal]] = []
    for start in range(first, last + 1, 5000):
        page = {"from_id": start, "limit": min(5000, last + 1 - start)}
        found = ask(address, "ledger/trades", symbol=slug, **page)["trades"]
        rows += [(row["id"], Decimal(row["price"])) for row in found]
    return rows


def stored(folder: Path, slug: str = "btc_usdt") -> list[tuple[int, Decimal]]:
    with closing(open_log(f"rocksdb:{folder}").reader()) as log:
        events = [each.event for each in log.scan(Stream("binance", "trades", slug))]
    return [(event.id, Decimal(event.price_text)) for event in events if isinstance(event, Trade)]


def ingest(*words: str | int) -> subprocess.CompletedProcess[str]:
    return invoke("ingest", "binance", *map(str, words))


def jobs() -> list[Any]:
    return [json.loads(line) for line in invoke("jobs", "list", "--json").stdout.splitlines()]


def test_all_trades_of_a_range_are_fetched_once(folder: Path, exchange: str) -> None:
    first, last = (number := newest(exchange, "eth_usdt") - 9000), number + 7654
    words = ("BTCUSDT", "ETH/USDT", "--from-id", first, "--to-id", last)

    found = ingest(*words, "--json")

    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert (report["finished"], report["resume"], report["errors"]) == (True, None, {})
    assert report["rows"] == 2 * (last + 1 - first)
    assert [each["product"] for each in report["products"]] == ["BTCUSDT", "ETHUSDT"]
    for each, slug in zip(report["products"], ("btc_usdt", "eth_usdt"), strict=True):
        assert each["state"] == "success"
        assert each["requests"] == 8
        assert stored(folder, slug) == truth(exchange, first, last, slug)
    assert "BackfillDone" in found.stderr

    again = ingest(*words)

    assert again.returncode == 0
    assert again.stdout.count("nothing was fetched") == 2
    assert "with 0 requests" in again.stdout
    assert " rows from " not in again.stdout, "there is nothing to plan"


async def set_limit(data: Path, *limits: Limit) -> None:
    """Limit the requests of the fleet, or not any more."""
    store = await open_store(f"sqlite:{data / 'state.db'}")
    manager = ConnectorManager(store)
    await manager.ensure_connector("binance")
    await manager.edit("binance", limits=limits or None, version=None)
    await JobService(store, kinds()).wake("binance")
    await store.close()


def test_a_stopped_one_continues_with_the_command_that_it_prints(
    folder: Path, exchange: str
) -> None:
    last = newest(exchange)
    first = last - 30_000
    ends = ("--from-id", str(first), "--to-id", str(last), "--chunk-concurrency", "5")
    data = folder / "with space"
    data.mkdir()
    command = ("ingest", "binance", "btc_usdt", *ends, "--data-dir", str(data))
    # Ten pages a minute or so: it cannot be done before it is stopped.
    asyncio.run(set_limit(data, Limit(16, 60_000, "request")))
    words = [*PENSTOCK, *command]

    with terminal(words, size=(80, 24), folder=folder, environment=urls(exchange)) as shown:
        shown.until_shown(
            "BTCUSDT", "waits for the limit", "0 of 1 products done", "requests/s of 0.2667"
        )
        shown.type(CTRL_C)
        code = shown.ended()

    assert code == 130, shown.everything
    assert "30,001 rows from /api/v3/historicalTrades" in shown.everything
    assert "BTCUSDT: not finished;" in shown.text
    again = shlex.split(shown.text.rsplit("Stopped. Continue with: ")[-1].replace("\n", ""))
    assert again == ["penstock", *command]
    partly = stored(data)
    assert 0 < len(partly) < last + 1 - first

    other = invoke(*command[:3], "--from-id", str(first + 1), "--data-dir", str(data))
    asyncio.run(set_limit(data))
    done = invoke(*again[1:], "--json")

    assert other.returncode == 2
    assert f"from id {first} to id {last}" in other.stderr
    assert f"penstock ingest binance BTCUSDT --from-id {first} --to-id {last}" in other.stderr
    assert "penstock jobs rm" in other.stderr
    assert done.returncode == 0, done.stderr
    (product,) = json.loads(done.stdout)["products"]
    assert product["rows"] == last + 1 - first - len(partly)
    assert product["rows_already_there"] == 0
    assert stored(data) == truth(exchange, first, last)


@contextmanager
def empty_pages(address: str, of: str) -> Iterator[str]:
    """The same exchange, which has no old trades of one market but the first page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, status = b"[]", 200
            if of not in self.path or "historical" not in self.path or "fromId=0" in self.path:
                with urllib.request.urlopen(address + self.path) as answer:
                    body, status = answer.read(), answer.status
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_product_without_end_fails_and_the_others_are_fetched(
    folder: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = newest(exchange, "eth_usdt") - 2000
    monkeypatch.setenv("PENSTOCK_JOBS_FIRST_DELAY", "0.05")
    ends = ("--from-id", first, "--to-id", first + 1499)

    with empty_pages(exchange, of="ETHUSDT") as address:
        monkeypatch.setenv("PENSTOCK_EXCHANGES_REST_URLS", f"binance={address}")
        found = ingest("ETHUSDT", "BTCUSDT", *ends)

    assert found.returncode == 1
    assert "ETHUSDT: failed: The trades with ids from" in found.stdout
    assert "were requested 10 times" in found.stdout
    assert "BTCUSDT: done; 1,500 rows" in found.stdout
    again = shlex.split(found.stderr.rsplit("Failed. Continue with: ")[-1])
    assert again[:5] == ["penstock", "ingest", "binance", "ETHUSDT", "BTCUSDT"]
    assert len(stored(folder)) == 1500
    monkeypatch.setenv("PENSTOCK_EXCHANGES_REST_URLS", f"binance={exchange}")

    found = invoke(*again[1:])

    assert found.returncode == 0, found.stderr
    assert "ETHUSDT: done; 1,500 rows" in found.stdout
    assert "BTCUSDT: was done" in found.stdout


def test_a_dry_run_shows_the_plan_and_changes_nothing(folder: Path, exchange: str) -> None:
    last = newest(exchange)

    shown = ingest("BTCUSDT", "--from-id", last - 4321, "--to-id", last, "--dry-run")
    found = ingest("BTCUSDT", "--from-id", last - 4321, "--to-id", last, "--dry-run", "--json")

    assert (shown.returncode, found.returncode) == (0, 0), found.stderr
    assert "4,322 rows" in shown.stdout
    plan = json.loads(found.stdout)
    assert (plan["rows"], plan["requests"]) == (4322, 5)
    assert jobs() == []
    assert not (folder / "log").exists()


def test_a_product_that_another_job_fetches_is_refused(folder: Path, exchange: str) -> None:
    async def hold() -> None:
        store = await open_store(f"sqlite:{folder / 'state.db'}")
        lock = JobLock(locked_by="far/work-0/7")
        job = made_job("ohlcv_backfill", id="other", lock=lock)
        await ProductLocks(store, SystemClock()).take("product:binance:BTCUSDT", job)
        await store.close()

    asyncio.run(hold())

    found = ingest("BTCUSDT", "--from-id", newest(exchange) - 10)

    assert found.returncode == 2
    assert "product:binance:BTCUSDT is locked by far/work-0/7 for job other, since" in found.stderr
    assert "until" in found.stderr
    assert jobs() == []


def test_without_an_answer_there_is_no_plan_and_jobs_wait_for_the_breaker(
    folder: Path, exchange: str
) -> None:
    first = newest(exchange) - 100
    assert ingest("BTCUSDT", "--from-id", first, "--dry-run").returncode == 0
    invoke("connectors", "add", "binance")
    invoke("connectors", "breaker", "binance", "open")
    words = ("ingest", "binance", "BTCUSDT", "--from-id", str(first))

    with started(*words, folder=folder, environment={}) as process:
        wait_until(lambda: [job["state"] for job in jobs()] == ["waiting_rate_limit"], process)
        code, out, errors = stopped(process)

    assert code == 130, errors
    assert "there is no plan: Nothing is sent to binance: its circuit breaker is open" in errors
    assert "BTCUSDT: not finished; 0 rows" in out
    assert "Stopped. Continue with: penstock ingest binance BTCUSDT" in errors


def test_with_a_paused_connector_nothing_is_begun(folder: Path) -> None:
    invoke("connectors", "add", "binance")
    invoke("connectors", "pause", "binance")

    found = ingest("BTCUSDT")

    assert found.returncode == 2
    assert "is paused: nothing is sent" in found.stderr
    assert jobs() == []


def test_a_range_that_begins_before_the_listing_starts_with_the_first_trade(
    folder: Path, exchange: str
) -> None:
    found = ingest("btc_usdt", "--from", "2010-01-01", "--to-id", 1200)

    assert found.returncode == 0, found.stderr
    assert "the range begins before the listing" in found.stdout
    assert stored(folder) == truth(exchange, stored(folder)[0][0], 1200)


def test_candles_are_fetched_with_a_timeframe(folder: Path, exchange: str) -> None:
    at_ms = ask(exchange, "state")["at_ms"] // 3_600_000 * 3_600_000
    ends = ("--from", iso(at_ms - 7_200_000), "--to", iso(at_ms))

    found = ingest("btc_usdt", *ends, "--timeframe", "1m", "--timeframe", "1h", "--json")
    again = ingest("btc_usdt", *ends, "--timeframe", "1m")

    assert found.returncode == 0, found.stderr
    assert [each["rows"] for each in json.loads(found.stdout)["products"]] == [120, 2]
    assert "nothing was fetched" in again.stdout


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("btc_usd",), "Did you mean btc_usdt"),
        (("btc_usdt", "--from", "2125-01-01"), "--from: it is in the future"),
        (("btc_usdt", "--to", "2125-01-01"), "leave it out to fetch up to now"),
        (("btc_usdt", "--workers", "0"), "--workers"),
        (("btc_usdt", "--chunk-concurrency", "none"), "auto"),
        (("btc_usdt", "--from", "yesterday"), "not a time"),
        (("btc_usdt", "--from", "2024-01-02", "--to", "2024-01-01"), "not before"),
        (("btc_usdt", "--from-id", "9", "--to-id", "8"), "after to_id"),
        (("btc_usdt", "--from", "2024-01-02", "--from-id", "8"), "leave one out"),
        (("btc_usdt", "--from-id", "99999999999999"), "is after the newest trade"),
        (("btc_usdt", "--timeframe", "7m"), "not a candle interval"),
        (("btc_usdt", "--timeframe", "1m", "--from-id", "1"), "candles have no ids"),
    ],
)
def test_bad_input_is_refused_before_anything_changes(
    folder: Path, words: tuple[str, ...], said: str
) -> None:
    found = ingest(*words)

    assert found.returncode == 2
    assert said in found.stderr
    assert jobs() == []
    assert not (folder / "log").exists()


def test_an_unknown_exchange_is_named_with_near_ones(folder: Path) -> None:
    found = invoke("ingest", "binanse", "BTCUSDT")

    assert found.returncode == 2
    assert "Did you mean binance" in found.stderr
    assert list(folder.iterdir()) == []
