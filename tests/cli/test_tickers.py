"""``penstock symbols`` and ``penstock tickers`` as processes."""

import asyncio
import json
from pathlib import Path

import pytest

from penstock.live import ProcessCache, ProcessStatus, TickCache

from .conftest import invoke, run, started, stopped, urls, wait_until


def ticks(folder: Path) -> set[str]:
    async def read() -> set[str]:
        async with TickCache(f"sqlite:{folder / 'live.db'}") as cache:
            return {tick.symbol.unified for tick in await cache.get_all()}

    return asyncio.run(read())


def statuses(folder: Path) -> set[ProcessStatus]:
    async def read() -> set[ProcessStatus]:
        async with ProcessCache(f"sqlite:{folder / 'live.db'}") as cache:
            return {each.status for each in await cache.get_processes()}

    return asyncio.run(read())


def test_symbols_are_added_listed_and_removed(
    tmp_path: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in urls(exchange).items():
        monkeypatch.setenv(name, value)
    there = ("--data-dir", str(tmp_path))

    empty = invoke("symbols", "list", *there)
    assert "There are no symbols" in empty.stdout
    assert invoke("symbols", "list", "--json", *there).stdout == ""
    added = invoke("symbols", "add", "binance", "btc_usdt", "ETHUSDT", "BTC/USDT", *there)
    assert (added.returncode, added.stdout) == (0, "")
    again = invoke("symbols", "add", "binance", "btc_usdt", *there)
    assert "in the list already" in again.stderr
    listed = invoke("symbols", "list", *there)
    assert listed.stdout == "binance BTC/USDT\nbinance ETH/USDT\n"
    refused = invoke("symbols", "add", "binance", "sol_usdt", "nope_usdt", *there)
    assert refused.returncode == 2
    assert invoke("symbols", "add", "bin", "btc_usdt", *there).returncode == 2
    assert invoke("symbols", "rm", "binance", "nonsense", *there).returncode == 2
    assert invoke("symbols", "rm", "binance", "BTCUSDT", *there).returncode == 0
    missing = invoke("symbols", "rm", "binance", "btc_usdt", *there)
    assert "was not in the list" in missing.stderr
    shown = invoke("symbols", "list", "--json", "--exchange", "binance", *there)
    assert json.loads(shown.stdout) == {"exchange": "binance", "symbol": "ETH/USDT"}
    assert invoke("symbols", "list", "--json", "--exchange", "kraken", *there).stdout == ""


def test_it_collects_the_list_finds_new_symbols_and_stops_when_told(
    tmp_path: Path, exchange: str
) -> None:
    environment = {**urls(exchange), "PENSTOCK_TICKERS_POLL_INTERVAL": "0.2"}
    there = ("--data-dir", ".")
    words = ("tickers", "--all", "--name", "a", "--json", *there)
    run("symbols", "add", "binance", "btc_usdt", *there, folder=tmp_path, **environment)
    with started(*words, folder=tmp_path, environment=environment) as process:
        wait_until((tmp_path / "live.db").exists, process)
        wait_until(lambda: ticks(tmp_path) == {"BTC/USDT"}, process)
        run("symbols", "add", "binance", "eth_usdt", *there, folder=tmp_path, **environment)
        wait_until(lambda: ticks(tmp_path) == {"BTC/USDT", "ETH/USDT"}, process)
        status = run("status", "--json", *there, folder=tmp_path)
        code, out, errors = stopped(process)

    assert code == 0, errors
    assert "Traceback" not in errors
    health = json.loads(out)
    assert (health["status"], health["exchanges"]) == ("running", ["binance"])
    assert health["symbol_count"] == 2
    assert health["ticks"] > 0
    assert "tickers-a" in status.stdout
    assert statuses(tmp_path) == {ProcessStatus.STOPPED}
    assert '"event":"DaemonStopped"' in errors


def test_named_markets_are_collected_without_the_list(tmp_path: Path, exchange: str) -> None:
    words = ("tickers", "binance", "--symbols", "ETHUSDT", "--data-dir", ".")
    with started(*words, folder=tmp_path, environment=urls(exchange)) as process:
        wait_until((tmp_path / "live.db").exists, process)
        wait_until(lambda: ticks(tmp_path) == {"ETH/USDT"}, process)
        code, _, errors = stopped(process)

    assert code == 0, errors


def test_bad_input_is_refused_with_what_to_do(
    tmp_path: Path, exchange: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in urls(exchange).items():
        monkeypatch.setenv(name, value)
    there = ("--data-dir", str(tmp_path), "--seconds", "0.1")

    assert "--all" in invoke("tickers", *there).stderr
    assert "--all" in invoke("tickers", "binance", "--all", *there).stderr
    assert "--symbols" in invoke("tickers", "--all", "--symbols", "btc_usdt", *there).stderr
    assert "Did you mean binance" in invoke("tickers", "binanse", *there).stderr
    nope = invoke("tickers", "binance", "--symbols", "nope_usdt", *there)
    assert (nope.returncode, "does not list" in nope.stderr) == (2, True)
    host = redis_url.partition("://")[2]
    monkeypatch.setenv("PENSTOCK_LIVE_URL", f"redis://:wrong-password@{host}")
    rejected = run("tickers", "binance", "--data-dir", str(tmp_path), folder=tmp_path)
    assert rejected.returncode == 75, "a password that is being changed may be right soon"
    assert "wrong-password" not in rejected.stderr
    assert "password" in rejected.stderr
