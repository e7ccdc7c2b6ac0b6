"""Makes the list of processes from the settings, and checks it before anything starts."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from penstock.config import Settings, UpExchange, environment_name
from penstock.errors import ConfigError
from penstock.exchanges import registry
from penstock.market import channels
from penstock.market.interval import DAY_MS, Interval
from penstock.market.market_shard import MarketShard
from penstock.market.symbol import is_slug
from penstock.resilience.backoff import Backoff
from penstock.supervisor.model import ChildPlan, Rules

_CANDLES = "candles"
_MONTH_MS = 31 * DAY_MS
_NOTHING = (
    "nothing is set to be collected. Name exchanges and markets, such as"
    ' exchanges = ["NAME"] and symbols = ["btc_usdt"] in the section [up] of penstock.toml;'
    " or set up.collect, up.fetch and up.tickers to false to run the other processes alone."
)
_NOT_SHARED = "memory: is for one process. Use sqlite:FILE, or another store that is shared."


def rules_of(settings: Settings) -> Rules:
    """The rules for restarting processes."""
    up = settings.up
    return Rules(
        backoff=Backoff(first_s=up.first_delay, longest_s=up.longest_delay),
        restart_limit=up.restart_limit,
        stable_after_s=up.stable_after,
        stop_timeout_s=up.stop_timeout,
        start_timeout_s=up.start_timeout,
        hung_after_s=up.hung_after,
        no_data_after_s=up.no_data_after,
    )


def plan_children(settings: Settings, named: Sequence[str] = ()) -> list[ChildPlan]:
    """The processes to run, in the order in which they are started.

    ``named`` are the markets of exchanges for which the settings have none.

    Raises:
        ConfigError: nothing would be collected, an exchange has no markets, or the state is not
            shared.
        UnknownExchange, UnknownChannel, MissingExtra: there is no exchange or channel of that name.
    """
    up = settings.up
    if settings.state.url.startswith("memory:"):
        # No process would see the statuses of the others, and all would look hung.
        raise ConfigError("state.url", problem=_NOT_SHARED, origin="settings")
    exchanges = list(dict.fromkeys((*up.exchanges, *up.per_exchange)))
    if not exchanges and (up.collect or up.fetch or up.tickers):
        raise ConfigError("up.exchanges", problem=_NOTHING, origin="settings")
    plans: list[ChildPlan] = []
    if up.bus:
        plans.append(ChildPlan("bus", "bus", ("bus",)))
    for name in exchanges:
        registry.load(name)
        own = up.per_exchange.get(name, UpExchange())
        plans += _of_exchange(settings, name, own, own.symbols or up.symbols or tuple(named))
    plans += [
        ChildPlan(f"tickers:{number}", "tickers", ("tickers", "--all", "--name", str(number)))
        for number in range(up.shared_tickers)
    ]
    plans += [
        ChildPlan(f"work:{number}", "work", ("work", "--slot", str(number)))
        for number in range(up.work)
    ]
    if up.keep:
        plans.append(ChildPlan("keep", "keep", ("keep",)))
    if up.serve:
        plans.append(ChildPlan("serve", "serve", ("serve",)))
    return _with_metrics(plans, settings.metrics.port)


def _of_exchange(
    settings: Settings, name: str, own: UpExchange, symbols: tuple[str, ...]
) -> Iterator[ChildPlan]:
    """The processes of one exchange."""
    up = settings.up
    kinds: Mapping[str, bool] = {
        "collect": up.collect if own.collect is None else own.collect,
        "fetch": up.fetch if own.fetch is None else own.fetch,
        "tickers": up.tickers if own.tickers is None else own.tickers,
    }
    if any(kinds.values()) and not symbols:
        setting = f"up.symbols or up.per_exchange.{name}.symbols"
        problem = f"{name} has no markets. Name some, such as btc_usdt."
        raise ConfigError(setting, problem=problem, origin="settings")
    if kinds["collect"]:
        streamed = own.channels or settings.collect.channels
        channels.check(streamed)
        chosen = ("--channels", ",".join(own.channels)) if own.channels else ()
        pace_s = _pace_s(streamed)
        words = ("collect", name, *symbols, *chosen)
        if own.shards == 1:
            yield ChildPlan(f"collect:{name}", "collect", words, name, pace_s)
        else:
            for shard in _shards(symbols, own.shards):
                process = f"collect:{name}-{shard.number}"
                own_words = (*words, "--shard", str(shard))
                yield ChildPlan(process, "collect", own_words, name, pace_s)
    if kinds["fetch"]:
        only_info = settings.fetch.what == ("info",)
        pace_s = settings.fetch.info_every if only_info else settings.fetch.every
        yield ChildPlan(f"fetch:{name}", "fetch", ("fetch", name, *symbols), name, pace_s)
    if kinds["tickers"]:
        daemon = registry.file_name(name)
        words = ("tickers", name, "--symbols", ",".join(symbols), "--name", daemon)
        yield ChildPlan(f"tickers:{name}", "tickers", words, name)


def _pace_s(names: Sequence[str]) -> float:
    """Seconds between two records, where all channels are candles; a candle comes when it ends."""
    lengths_ms = [
        Interval.parse(length).fixed_ms or _MONTH_MS
        for name in names
        for channel, _, length in [name.partition("_")]
        if channel == _CANDLES
    ]
    return min(lengths_ms) / 1000 if lengths_ms and len(lengths_ms) == len(names) else 0.0


def _shards(symbols: Sequence[str], count: int) -> Iterator[MarketShard]:
    """The shards that have markets, as far as the names show that.

    Other spellings than slugs are the exchange's, and only its collectors know their markets.
    """
    are_slugs = all(map(is_slug, symbols))
    for number in range(count):
        shard = MarketShard(number, count)
        if not are_slugs or any(map(shard.owns, symbols)):
            yield shard


def _with_metrics(plans: list[ChildPlan], port: int) -> list[ChildPlan]:
    """Give each process a metrics port of its own, from the one in the settings upwards.

    Raises:
        ConfigError: there are not so many ports.
    """
    if not port:
        return plans
    if port + len(plans) > 65_536:
        problem = f"{len(plans)} processes need as many ports from this one upwards."
        raise ConfigError("metrics.port", problem=problem, origin="settings")
    variable = environment_name("metrics.port")
    return [
        replace(each, environment={variable: str(port + number)})
        for number, each in enumerate(plans)
    ]
