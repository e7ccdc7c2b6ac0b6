"""``penstock ticks``: the latest ticks, once or as they change."""

import asyncio
from collections.abc import Callable, Collection
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType

from penstock.api.views import tick_view
from penstock.cli.context import read_settings
from penstock.cli.fitting import Column, Row, Viewport, table
from penstock.cli.job_words import duration
from penstock.cli.options import DataOption, JsonOption, SecondsOption, note, say
from penstock.cli.running import View, in_foreground, run_shown, unless_drawn
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.live import Tick, TickCache, is_there, live_url
from penstock.market.symbol import Symbol
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.storage.cache import open_live_store
from penstock.telemetry import log_facts
from penstock.telemetry.printable import printable

_COLUMNS = (
    Column("exchange", 1, left=True),
    Column("market", 0, least=10, left=True),
    Column("price", 2, least=10),
    Column("bid", 3, least=10),
    Column("ask", 4, least=10),
    Column("age", 5, least=7),
    Column("", 6, left=True),
)
_STALE = "stale"


def ticks(
    context: typer.Context,
    exchange: Annotated[
        str | None, typer.Argument(help="Only this exchange.", show_default=False)
    ] = None,
    symbols: Annotated[
        list[str] | None,
        typer.Argument(help="Only these markets: btc_usdt, BTC/USDT, BTC-USDT."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and show changes.")] = False,
    seconds: SecondsOption = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the latest tick of every market, with its age.

    A tick is stale if it is older than live.stale_after: the market is quiet, or is not collected.
    Older ones than live.tick_ttl are not shown. With --watch a terminal is redrawn; elsewhere every
    change is a line. Exits 1 if there is no tick, or none of a market that was named.

    Example: penstock ticks binance btc_usdt eth_usdt --watch
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    shown = _Shown(exchange, {Symbol.parse(text) for text in symbols or ()}, as_json=as_json)
    if not is_there(live_url(settings)):
        note(f"penstock: There are no ticks yet: {live_url(settings)} does not exist.")
        raise typer.Exit(1)
    asyncio.run(_run(shown, settings, watch=watch, seconds=seconds))
    if not watch:
        raise typer.Exit(0 if shown.complete else 1)


async def _run(shown: "_Shown", settings: Settings, *, watch: bool, seconds: float | None) -> None:
    clock, live = SystemClock(), settings.live
    store = await open_live_store(
        live_url(settings),
        clock=clock,
        timeout_s=live.timeout,
        listener=unless_drawn(log_facts) if watch else log_facts,
    )
    cache = TickCache(store, ttl_s=live.tick_ttl, stale_after_s=live.stale_after, clock=clock)
    try:
        if watch:
            await _watch(shown, cache, clock, seconds)
        else:
            shown.show_all(await cache.get_all(shown.exchange))
    finally:
        await store.close()


async def _watch(shown: "_Shown", cache: TickCache, clock: Clock, seconds: float | None) -> None:
    stop, present = asyncio.Event(), _Present(cache, clock)
    stop_on_signals(stop)
    draws = in_foreground() and not shown.as_json
    following = _follow(shown, cache, present.add if draws else shown.show_lines, stop)
    if draws:
        view = View(
            lambda viewport: shown.drawn(present.ticks(), viewport),
            lambda: f"{len(present.ticks())} ticks",
        )
        await run_shown(following, stop, seconds, clock, view)
        return
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    await following
    deadline.cancel()


async def _follow(
    shown: "_Shown", cache: TickCache, use: Callable[[list[Tick]], None], stop: asyncio.Event
) -> None:
    """Pass on changes until ``stop`` is set."""

    async def follow() -> None:
        async with cache.subscribe(shown.exchange) as batches:
            async for batch in batches:
                use(shown.wanted(batch))

    stopping = asyncio.create_task(stop.wait())
    following = asyncio.create_task(follow())
    await asyncio.wait([stopping, following], return_when=asyncio.FIRST_COMPLETED)
    if following.done():
        following.result()
    for task in (stopping, following):
        task.cancel()
    await asyncio.gather(stopping, following, return_exceptions=True)


class _Present:
    """The ticks that were received, which grow older."""

    def __init__(self, cache: TickCache, clock: Clock) -> None:
        self._cache, self._clock = cache, clock
        self._since: dict[str, tuple[Tick, int]] = {}

    def add(self, ticks: list[Tick]) -> None:
        now_ns = self._clock.monotonic_ns()
        self._since.update((tick.key, (tick, now_ns)) for tick in ticks)

    def ticks(self) -> list[Tick]:
        """Those that have not expired, by key."""
        now_ns = self._clock.monotonic_ns()
        aged = (
            self._cache.aged(tick, (now_ns - since_ns) // 1_000_000)
            for _, (tick, since_ns) in sorted(self._since.items())
        )
        return [tick for tick in aged if tick is not None]


class _Shown:
    """Which ticks are shown, and how."""

    def __init__(self, exchange: str | None, symbols: Collection[Symbol], *, as_json: bool) -> None:
        self.exchange, self._symbols, self.as_json = exchange, symbols, as_json
        self.complete = False
        """Whether there was a tick, and one of each market that was named."""

    def wanted(self, ticks: list[Tick]) -> list[Tick]:
        return [tick for tick in ticks if not self._symbols or tick.symbol in self._symbols]

    def show_all(self, ticks: list[Tick]) -> None:
        found = self.wanted(ticks)
        missing = sorted(set(self._symbols) - {tick.symbol for tick in found})
        self.complete = bool(found) and not missing
        if self.as_json:
            self.show_lines(found)
        elif found:
            console = Console()
            console.print(self.drawn(found, Viewport(console.width)))
        for name in map(str, missing) if missing or found else [self.exchange or "any market"]:
            note(f"penstock: There is no tick of {printable(name)}")

    def show_lines(self, ticks: list[Tick]) -> None:
        for tick in ticks:
            if self.as_json:
                say(tick_view(tick))
            else:
                typer.echo(printable(_line(tick)))

    def drawn(self, ticks: list[Tick], viewport: Viewport) -> RenderableType:
        rows = [Row(_cells(tick), _STALE if tick.stale else "") for tick in ticks]
        return Group(*table(_COLUMNS, rows, (_STALE,), viewport))


def _cells(tick: Tick) -> tuple[str, ...]:
    ticker = tick.ticker
    prices = (ticker.last_text or "", ticker.bid_text or "", ticker.ask_text or "")
    state = _STALE if tick.stale else ""
    return (tick.exchange, tick.symbol.unified, *prices, _age(tick.age_ms), state)


def _line(tick: Tick) -> str:
    words = [tick.ticker.summary.removeprefix("ticker: "), f"age {_age(tick.age_ms)}"]
    return (
        f"{tick.exchange} {tick.symbol}  {', '.join([*words, *([_STALE] if tick.stale else [])])}"
    )


def _age(age_ms: int) -> str:
    return f"{age_ms / 1000:.1f} s" if age_ms < 60_000 else duration(age_ms / 1000)
