"""``penstock collect``: records one exchange's streams until it is stopped."""

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from penstock.app.collector import open_collector
from penstock.app.metrics import measured
from penstock.cli.collector_view import describe_collector, draw_collector
from penstock.cli.context import read_settings, symbols_or_named
from penstock.cli.memory import give_back_large_pieces
from penstock.cli.options import (
    DataOption,
    ExchangeArgument,
    JsonOption,
    MarketsArgument,
    SecondsOption,
    SlotOption,
    default,
    say,
    split,
)
from penstock.cli.painter import write
from penstock.cli.running import (
    View,
    last_words_logged,
    run_process,
    run_shown,
    stopped_words,
    unless_drawn,
)
from penstock.cli.symbols_file import OPTION, SymbolSelection
from penstock.clock import SystemClock
from penstock.collect.collector import Collector
from penstock.collect.facts import SymbolsReread
from penstock.collect.reporter import Reporter
from penstock.collect.status import CollectorStatus
from penstock.config import Settings
from penstock.errors import ConfigError, PenstockError
from penstock.market.market_shard import MarketShard
from penstock.runtime.stopping import opened, stop_on_signals
from penstock.telemetry import Listener, log_facts


def collect(
    context: typer.Context,
    exchange: ExchangeArgument,
    symbols: MarketsArgument = None,
    symbols_file: Annotated[
        Path | None,
        typer.Option(
            OPTION,
            help="File with further markets; reloaded on SIGHUP.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataOption = None,
    channels: Annotated[
        str | None,
        typer.Option(
            help="Channels, separated by commas; also agg_trades, tickers_24h, candles_1m.",
            show_default=default("collect.channels"),
        ),
    ] = None,
    slot: SlotOption = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Collect only these of the markets, in a slot of their own: 0/3, 1/3 and 2/3"
            " divide them among three processes, by a hash of their names.",
            metavar="NUMBER/COUNT",
            show_default=False,
        ),
    ] = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record an exchange's streams, maintain its order books, and list every gap.

    Ctrl-C or SIGTERM stops it; when started again, it continues where it stopped. With a symbols
    file, SIGHUP reloads the file: new markets are added, removed ones are dropped, and all others
    continue without interruption.

    Example: penstock collect binance btc_usdt eth_usdt --data-dir ~/market-data
    """
    part = None if shard is None else _shard(shard, slot)
    typed = symbols_or_named(context, symbols) if symbols_file is None else tuple(symbols or ())
    markets = SymbolSelection(typed, symbols_file)
    markets.names()
    options = {"collect.data_dir": data_dir, "collect.channels": split(channels)}
    settings = read_settings(context, options, exchange).settings
    give_back_large_pieces()
    with last_words_logged(), measured(settings, unless_drawn(log_facts)) as listener:
        asked = _Asked(exchange, slot, part)
        collecting = _collect(settings, asked, markets, seconds, listener)
        status = run_process(collecting, settings.collect.event_loop)
    write(stopped_words(settings.collect.data_dir))
    if as_json and status is not None:
        say(status)


class _Asked(NamedTuple):
    """What to collect, and where to."""

    exchange: str
    slot: str | None
    shard: MarketShard | None


def _shard(text: str, slot: str | None) -> MarketShard:
    """Parse the option; it names the slot, too.

    Raises:
        ConfigError: there is no such shard, or a slot is named besides.
    """
    if slot is not None:
        problem = f"a shard has a slot of its own: leave out --slot {slot}, or --shard {text}"
        raise ConfigError("--slot", problem=problem, origin="the command line")
    return MarketShard.parse(text)


async def _collect(
    settings: Settings,
    asked: _Asked,
    markets: SymbolSelection,
    seconds: float | None,
    listener: Listener,
) -> CollectorStatus | None:
    stop, hangup, clock = asyncio.Event(), asyncio.Event(), SystemClock()
    stop_on_signals(stop, hangup if markets.file is not None else None)
    opening = open_collector(settings, asked.exchange, clock, listener, asked.slot, asked.shard)
    async with opened(opening, stop) as collector:
        if collector is None:
            return None
        rereading = asyncio.create_task(_reread_symbols(collector, markets, hangup, listener))
        reporter = collector.reporter
        view = View(
            lambda viewport: draw_collector(
                reporter.latest, viewport, state=state_of(reporter, stop)
            ),
            lambda: describe_collector(reporter.latest),
            stopped_words(settings.collect.data_dir),
        )
        try:
            await run_shown(collector.run(markets.names(), stop), stop, seconds, clock, view)
        finally:
            rereading.cancel()
    return reporter.latest


def state_of(reporter: Reporter, stop: asyncio.Event) -> str:
    """Return the state to show while a process is stopping; otherwise an empty string."""
    ended = reporter.latest is not None and reporter.latest.state in ("stopped", "failed")
    return "stopping …" if stop.is_set() and not ended else ""


async def _reread_symbols(
    collector: Collector, markets: SymbolSelection, requested: asyncio.Event, emit: Listener
) -> None:
    """On each event, collect the markets now in the file; on an error, report it and continue."""
    if markets.file is None:
        return
    listings = collector.listings
    while await requested.wait():
        requested.clear()
        refused = ""
        try:
            await collector.replace(markets.names())
        except PenstockError as error:
            refused = str(error)
        except Exception as error:
            # Whatever the error, collecting continues, and so does waiting for signals.
            refused = repr(error)
        emit(SymbolsReread(exchange=collector.exchange.name, refused=refused))
        if refused:
            await _either(requested, listings.has_grown)
            if listings.has_grown.is_set():
                requested.set()  # unknown markets may be listed now
        listings.has_grown.clear()


async def _either(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
