"""What runs by which settings, and which settings are refused before anything starts."""

from pathlib import Path

import pytest

from penstock.config import Collect, Fetch, Metrics, Settings, State, Up, UpExchange, load
from penstock.errors import ConfigError, PenstockError, UnknownChannel, UnknownExchange
from penstock.supervisor.plan import plan_children


def planned(**up: object) -> dict[str, str]:
    plans = plan_children(Settings(up=Up(**up)))  # type: ignore[arg-type]
    return {plan.name: " ".join(plan.words) for plan in plans}


def test_a_minimal_file_gives_everything(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[up]\nexchanges = ["binance", "kraken"]\nsymbols = ["btc_usdt", "eth_usdt"]\n')
    settings = load(Settings, {}, file).settings

    plans = plan_children(settings)

    assert {plan.name: " ".join(plan.words) for plan in plans} == {
        "bus": "bus",
        "collect:binance": "collect binance btc_usdt eth_usdt",
        "fetch:binance": "fetch binance btc_usdt eth_usdt",
        "tickers:binance": "tickers binance --symbols btc_usdt,eth_usdt --name binance",
        "collect:kraken": "collect kraken btc_usdt eth_usdt",
        "fetch:kraken": "fetch kraken btc_usdt eth_usdt",
        "tickers:kraken": "tickers kraken --symbols btc_usdt,eth_usdt --name kraken",
        "work:0": "work --slot 0",
        "keep": "keep",
        "serve": "serve",
    }
    assert [plan.name for plan in plans if plan.delivers] == [
        f"{kind}:{name}"
        for name in ("binance", "kraken")
        for kind in ("collect", "fetch", "tickers")
    ]


def test_an_exchange_may_differ_and_need_not_be_listed_twice(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[up]\nexchanges = ["binance"]\nsymbols = ["btc_usdt"]\nwork = 2\nbus = false\n'
        "keep = false\nserve = false\ntickers = false\nshared_tickers = 1\n"
        '[up.per_exchange.upbit]\nsymbols = ["btc_krw"]\nchannels = ["trades"]\nfetch = false\n'
    )
    settings = load(Settings, {}, file).settings

    assert {plan.name: " ".join(plan.words) for plan in plan_children(settings)} == {
        "collect:binance": "collect binance btc_usdt",
        "fetch:binance": "fetch binance btc_usdt",
        "collect:upbit": "collect upbit btc_krw --channels trades",
        "tickers:0": "tickers --all --name 0",
        "work:0": "work --slot 0",
        "work:1": "work --slot 1",
    }


def test_markets_are_divided_among_shards() -> None:
    def shards(*symbols: str) -> dict[str, str]:
        own = UpExchange(symbols=symbols, shards=3, fetch=False, tickers=False)
        return planned(per_exchange={"binance": own}, bus=False, work=0, keep=False, serve=False)

    symbols = [f"a{number}_usdt" for number in range(50)]

    assert shards(*symbols) == {
        f"collect:binance-{number}": f"collect binance {' '.join(symbols)} --shard {number}/3"
        for number in range(3)
    }
    assert len(shards("btc_usdt")) == 1, "the others have no market"
    assert len(shards("BTCUSDT")) == 3, "only the exchange knows which market that is"


def test_each_process_has_a_metrics_port_of_its_own() -> None:
    settings = Settings(up=Up(exchanges=("binance",), symbols=("a_b",)), metrics=Metrics(port=9100))
    ports = [plan.environment["PENSTOCK_METRICS_PORT"] for plan in plan_children(settings)]

    assert ports == [str(9100 + number) for number in range(len(ports))]
    with pytest.raises(ConfigError, match=r"metrics\.port"):
        plan_children(Settings(up=settings.up, metrics=Metrics(port=65533)))


def test_what_delivers_seldom_is_known_to() -> None:
    def paces(channels: tuple[str, ...], fetch: Fetch) -> list[float]:
        up = Up(exchanges=("binance",), symbols=("a_b",))
        settings = Settings(up=up, collect=Collect(channels=channels), fetch=fetch)
        return [plan.pace_s for plan in plan_children(settings)[1:4]]

    assert paces(("trades", "candles_1h"), Fetch()) == [0, 60, 0]
    assert paces(("candles_1h", "candles_1d"), Fetch(every=7200)) == [3600, 7200, 0]
    assert paces(("candles_1M",), Fetch(what=("info",))) == [31 * 86400, 3600, 0]


def test_markets_may_come_from_the_environment() -> None:
    settings = Settings(up=Up(exchanges=("binance",)))

    assert plan_children(settings, ("btc_usdt",))[1].words == ("collect", "binance", "btc_usdt")


@pytest.mark.parametrize(
    ("up", "error", "says"),
    [
        ({}, ConfigError, "nothing is set to be collected"),
        ({"exchanges": ("binanc",), "symbols": ("a_b",)}, UnknownExchange, "binance"),
        ({"per_exchange": {"binanc": UpExchange(symbols=("a_b",))}}, UnknownExchange, "binance"),
        ({"exchanges": ("binance",)}, ConfigError, "has no markets"),
        (
            {"per_exchange": {"binance": UpExchange(symbols=("a_b",), channels=("trade",))}},
            UnknownChannel,
            "trades",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(
    up: dict[str, object], error: type[PenstockError], says: str
) -> None:
    with pytest.raises(error, match=says):
        planned(**up)


def test_a_state_store_that_is_not_shared_is_refused() -> None:
    up = Up(exchanges=("binance",), symbols=("btc_usdt",))
    with pytest.raises(ConfigError, match="memory: is for one process"):
        plan_children(Settings(up=up, state=State(url="memory:")))


def test_without_anything_to_collect_the_rest_runs_if_that_is_said() -> None:
    assert set(planned(collect=False, fetch=False, tickers=False)) == {
        "bus",
        "work:0",
        "keep",
        "serve",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[up]\nexchange = ["binance"]', r"up\.exchange.*Did you mean .*up\.exchanges"),
        ('[up.per_exchange.binance]\nsymbol = ["a_b"]', r"symbol.*Did you mean .*symbols"),
        ("[up]\nwork = -1", r"up\.work.*-1 is not allowed"),
    ],
)
def test_a_typo_is_refused_with_the_name_that_is_meant(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)

    with pytest.raises(ConfigError, match=says):
        load(Settings, {}, file)
