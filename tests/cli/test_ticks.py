"""``penstock ticks``: once, as lines, and redrawn on a terminal."""

import asyncio
import json
import signal
from pathlib import Path

from tests.live.ticks import ticker
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.live import TickCache
from penstock.market.events import Ticker

from .conftest import PENSTOCK, invoke, started
from .terminal import CTRL_C, terminal

CLOCK = SystemClock()


def store(folder: Path, *tickers: Ticker) -> None:
    async def put() -> None:
        async with TickCache(f"sqlite:{folder / 'live.db'}") as cache:
            await cache.set_tickers(tickers)

    asyncio.run(put())


def test_a_table_has_prices_ages_and_what_is_stale(tmp_path: Path) -> None:
    store(
        tmp_path,
        ticker(CLOCK, "1.50", last_text="1.51", ask_text="1.52"),
        ticker(CLOCK, "2.50", "ETH/USDT", age_s=100),
    )
    done = invoke("ticks", "--data-dir", str(tmp_path))

    header, stale, fresh = (line.split() for line in done.stdout.splitlines())
    assert header == ["exchange", "market", "price", "bid", "ask", "age"]
    assert stale[:3] == ["sim", "ETH/USDT", "2.50"]
    assert stale[3].startswith("0:01:4")
    assert stale[4:] == ["stale"]
    assert fresh[:5] == ["sim", "BTC/USDT", "1.51", "1.50", "1.52"]
    assert fresh[-1] == "s"
    assert done.returncode == 0


def test_json_lines_are_the_documents_of_the_api(tmp_path: Path) -> None:
    store(tmp_path, ticker(CLOCK), ticker(CLOCK, symbol="ETH/USDT"))
    store(tmp_path, ticker(CLOCK, "7", exchange="other"))

    done = invoke("ticks", "sim", "eth_usdt", "--json", "--data-dir", str(tmp_path))

    [tick] = map(json.loads, done.stdout.splitlines())
    assert (tick["exchange"], tick["symbol"], tick["bid"]) == ("sim", "ETH/USDT", "1.50")
    assert not tick["stale"]
    assert tick["age_ms"] >= 0
    assert len(invoke("ticks", "--json", "--data-dir", str(tmp_path)).stdout.splitlines()) == 3


def test_it_says_what_is_not_there(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    nothing = invoke("ticks", "--data-dir", str(folder))
    assert nothing.returncode == 1
    assert "live.db does not exist" in nothing.stderr
    assert not folder.exists()

    store(tmp_path, ticker(CLOCK))
    done = invoke("ticks", "sim", "btc_usdt", "sol_usdt", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "BTC/USDT" in done.stdout
    assert "no tick of SOL/USDT" in done.stderr
    assert "no tick of other" in invoke("ticks", "other", "--data-dir", str(tmp_path)).stderr
    wrong = invoke("ticks", "sim", "btcusdt", "--data-dir", str(tmp_path))
    assert wrong.returncode == 2
    assert "btcusdt" in wrong.stderr


def test_a_store_that_is_away_is_said(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[live]\nurl = "redis://127.0.0.1:1"\n')

    done = invoke("--config", str(file), "ticks")

    assert done.returncode == 2
    assert "redis://127.0.0.1:1" in done.stderr


def test_watch_prints_a_line_for_every_change_where_there_is_no_terminal(tmp_path: Path) -> None:
    store(tmp_path, ticker(CLOCK))
    words = ["ticks", "sim", "btc_usdt", "--watch", "--data-dir", str(tmp_path)]
    with started(*words, folder=tmp_path, environment={}) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        store(tmp_path, ticker(CLOCK, "8", "ETH/USDT"))
        store(tmp_path, ticker(CLOCK, "2.50"))
        second = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0

    assert first.startswith("sim BTC/USDT  bid 1.50, age ")
    assert second.startswith("sim BTC/USDT  bid 2.50, age ")


def test_watch_redraws_a_terminal(tmp_path: Path) -> None:
    store(tmp_path, ticker(CLOCK))
    words = ["ticks", "--watch", "--data-dir", "."]
    with terminal([*PENSTOCK, *words], size=(80, 24), folder=tmp_path) as shown:
        shown.until_shown("sim", "1.50")
        store(tmp_path, ticker(CLOCK, "2.50"))
        shown.until_shown("sim", "2.50")
        assert "1.50" not in shown.text
        shown.type(CTRL_C)
        assert shown.ended() == 0
