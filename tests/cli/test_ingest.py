"""``penstock ingest``: what it fetches, how it stops and continues, and what it refuses."""

import json
import shlex
import signal
import subprocess
import urllib.request
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.market.events import Trade
from penstock.storage.log import open_log
from penstock.storage.log.keys import Stream

from .conftest import invoke, started, urls, wait_until


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


def test_a_stopped_one_continues_with_the_command_that_it_prints(
    folder: Path, exchange: str
) -> None:
    last = newest(exchange)
    first = last - 60_000
    words = ("--from-id", str(first), "--to-id", str(last), "--chunk-concurrency", "1")
    data = str(folder / "with space")
    command = ("ingest", "binance", "btc_usdt", *words, "--data-dir", data)

    def has_rows() -> bool:
        Path(data).mkdir(exist_ok=True)
        return len(stored(Path(data))) > 5000

    with started(*command, folder=folder, environment=urls(exchange)) as process:
        wait_until(has_rows, process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "not finished" in out
    shown = shlex.split(errors.rsplit("Continue with: ")[-1])
    assert shown == ["penstock", *command]
    partly = stored(Path(data))
    assert 0 < len(partly) < last + 1 - first

    other = invoke(*command[:3], "--from-id", str(first + 1), "--data-dir", data)
    done = invoke(*shown[1:], "--json")

    assert other.returncode == 2
    assert f"from id {first} to id {last}" in other.stderr
    assert f"penstock ingest binance BTCUSDT --from-id {first} --to-id {last}" in other.stderr
    assert "penstock jobs rm" in other.stderr
    assert done.returncode == 0, done.stderr
    (product,) = json.loads(done.stdout)["products"]
    assert product["rows"] == last + 1 - first - len(partly)
    assert product["rows_already_there"] == 0
    assert stored(Path(data)) == truth(exchange, first, last)


def test_one_product_fails_and_the_others_are_fetched(folder: Path, exchange: str) -> None:
    newer = newest(exchange) - 2000
    assert newer > newest(exchange, "eth_usdt")

    found = ingest("ETHUSDT", "BTCUSDT", "--from-id", newer, "--to-id", newer + 1499)

    assert found.returncode == 1
    assert "ETHUSDT: failed: cursor.from_id" in found.stdout
    assert "BTCUSDT: done; 1,500 rows" in found.stdout
    assert "Failed. Continue with: penstock ingest binance ETHUSDT BTCUSDT" in found.stderr
    assert len(stored(folder)) == 1500


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
