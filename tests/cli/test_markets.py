"""``penstock markets``: what an exchange lists, asked of it once and then read from the store."""

import json
from pathlib import Path

from .conftest import run, urls


def test_markets_are_asked_for_once_and_shown_with_their_steps(
    exchange: str, tmp_path: Path
) -> None:
    def markets(*words: str, at: str = "http://127.0.0.1:9") -> str:
        done = run("markets", "binance", *words, folder=tmp_path, **urls(at))
        assert done.returncode == 0, done.stderr
        return done.stdout

    table = markets(at=exchange)
    one = json.loads(markets("BTCUSDT", "--json"))

    assert "BTC/USDT" in table
    assert "ETH/USDT" in table
    assert "2 markets, as of 20" in table
    assert "candles: 1s 1m" in table
    (btc,) = one["markets"]
    assert (btc["symbol"], btc["native"], btc["status"]) == ("BTC/USDT", "BTCUSDT", "TRADING")
    assert f" {btc['tick_size']} " in table
    assert f" {btc['lot_size']} " in table
    assert "1m" in one["timeframes"]
    unknown = run("markets", "binance", "btc_usdd", folder=tmp_path, **urls(exchange))
    assert unknown.returncode == 2
    assert "btc_usdt" in unknown.stderr
    nobody = run("markets", "binance", "--refresh", folder=tmp_path, **urls("http://127.0.0.1:9"))
    assert nobody.returncode == 2, "asked for anew, and nobody answers"
