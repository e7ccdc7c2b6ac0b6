"""Every exchange ccxt knows can be looked at without asking it anything."""

import subprocess
import sys

import pytest

from penstock.errors import MissingExtra, UnknownExchange
from penstock.exchanges import registry
from penstock.exchanges.ccxt.feed import channels_of
from penstock.exchanges.ccxt.library import client
from penstock.exchanges.ccxt.limits import UNITS
from penstock.exchanges.symbol_map import SymbolMap
from penstock.market.interval import DAY_MS, Interval

PROBE = """
import runpy, sys
sys.argv = ["penstock", *{words!r}]
try:
    {code}
except SystemExit as end:
    assert not end.code, end.code
assert "ccxt" not in sys.modules, "ccxt was imported"
"""


def test_limits_intervals_and_channels_of_every_exchange_can_be_read() -> None:
    names = client.names()
    assert len(names) >= 90
    for name in names:
        exchange = registry.load(name)
        (limit,) = exchange.limits(0)
        made = client.make(name.removeprefix(client.PREFIX))
        assert exchange.name == name
        assert limit.kind == "paced"
        assert limit.most == UNITS
        assert UNITS * limit.period_ms / limit.amount >= made.rateLimit
        assert (exchange.candle_span or 0) >= 1
        assert exchange.consecutive == frozenset()
        assert exchange.latest_candles is None
        for text in exchange.intervals:
            length_ms = Interval.parse(text).fixed_ms
            assert length_ms is not None
            assert DAY_MS % length_ms == 0
        assert set(channels_of(made.has)) <= {"trades", "book_deltas", "tickers"}
        assert made.session is None, "nothing was opened"


def test_most_exchanges_have_candles_and_streams() -> None:
    names = [name.removeprefix(client.PREFIX) for name in client.names()]
    streamed = [name for name in names if channels_of(client.make(name).has)]
    with_candles = [name for name in names if registry.load(f"ccxt:{name}").intervals]

    assert len(streamed) > len(names) / 2
    assert len(with_candles) > len(names) / 2


def test_an_unknown_one_is_named_with_those_that_are_near() -> None:
    with pytest.raises(UnknownExchange, match="ccxt:kraken") as caught:
        registry.load("ccxt:krakn")
    assert "ccxt:kraken" in caught.value.near
    for name in ("ccxt:", "ccxt", "ccxt:Exchange", "nothing:okx", "ccxt:okx:okx"):
        with pytest.raises(UnknownExchange):
            registry.load(name)


def test_a_family_is_no_exchange_and_is_offered_as_what_it_is() -> None:
    assert "ccxt" not in registry.names()
    assert registry.families() == ["ccxt"]
    assert registry.file_name("ccxt:okx") == "ccxt-okx"
    with pytest.raises(UnknownExchange, match="ccxt:NAME"):
        registry.load("mtgox")


def test_without_ccxt_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ccxt.async_support", None)
    monkeypatch.setitem(sys.modules, "ccxt", None)
    with pytest.raises(MissingExtra, match=r"pip install 'penstock\[ccxt\]'"):
        client.make("okx")


def test_derivatives_are_not_asked_for_where_one_may_choose() -> None:
    def chosen(name: str) -> object:
        return client.make(name).options["fetchMarkets"]["types"]

    assert chosen("okx") == ["spot"]
    assert chosen("mexc") == {"spot": True, "swap": {"linear": False, "inverse": False}}


def test_it_has_no_dialect_and_says_what_it_has_instead() -> None:
    with pytest.raises(TypeError, match="feed"):
        registry.load("ccxt:okx").dialect(SymbolMap("ccxt:okx", []))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import penstock", []),
        ("runpy.run_module('penstock', run_name='__main__')", ["--help"]),
        ("from penstock.exchanges import registry; registry.names(); registry.families()", []),
        ("from penstock.exchanges import registry; registry.load('kraken')", []),
        ("import penstock.app.collector, penstock.app.worker, penstock.exchanges.ccxt.gateway", []),
        ("runpy.run_module('penstock', run_name='__main__')", ["connectors", "list"]),
    ],
    ids=["package", "help", "registry", "native", "folder", "connectors"],
)
def test_ccxt_is_imported_by_nobody_who_does_not_ask_for_it(
    code: str, words: list[str], tmp_path: object
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(code=code, words=words)],
        cwd=str(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
