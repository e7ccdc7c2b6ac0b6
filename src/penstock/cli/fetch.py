"""``penstock fetch``: polls one exchange's REST API until it is stopped."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.app.fetcher import open_fetcher
from penstock.app.metrics import measured
from penstock.cli.collect import state_of
from penstock.cli.collector_view import draw_collector
from penstock.cli.context import read_settings, symbols_or_named
from penstock.cli.fetcher_view import describe_fetcher
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
from penstock.clock import SystemClock
from penstock.collect.status import CollectorStatus
from penstock.config import Settings
from penstock.runtime.stopping import opened, stop_on_signals
from penstock.telemetry import Listener, log_facts


def fetch(
    context: typer.Context,
    exchange: ExchangeArgument,
    symbols: MarketsArgument = None,
    what: Annotated[
        str | None,
        typer.Option(
            help="Any of trades,book,info,tickers, separated by commas.",
            show_default=default("fetch.what") or "everything the exchange offers",
        ),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two fetches of the same data.",
            show_default=default("fetch.every"),
        ),
    ] = None,
    data_dir: DataOption = None,
    slot: SlotOption = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Poll an exchange's REST API for trades, order books, tickers and market listings.

    Trades continue after the last one stored. Without a market, all tickers and the market listing
    are fetched. Ctrl-C or SIGTERM stops it. It does not affect a collector that runs meanwhile.

    Example: penstock fetch binance btc_usdt --what trades,book --every 10 --data-dir ~/market-data
    """
    options = {"collect.data_dir": data_dir, "fetch.what": split(what), "fetch.every": every}
    settings = read_settings(context, options, exchange).settings
    named = symbols_or_named(context, symbols)
    give_back_large_pieces()
    with last_words_logged(), measured(settings, unless_drawn(log_facts)) as listener:
        status = run_process(_fetch(settings, exchange, named, slot, seconds, listener))
    write(stopped_words(settings.collect.data_dir))
    if as_json and status is not None:
        say(status)


async def _fetch(
    settings: Settings,
    exchange: str,
    symbols: Sequence[str],
    slot: str | None,
    seconds: float | None,
    listener: Listener,
) -> CollectorStatus | None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    opening = open_fetcher(settings, exchange, symbols, clock, listener, slot)
    async with opened(opening, stop) as fetcher:
        if fetcher is None:
            return None
        reporter = fetcher.reporter
        view = View(
            lambda viewport: draw_collector(
                reporter.latest, viewport, state=state_of(reporter, stop)
            ),
            lambda: describe_fetcher(reporter.latest),
            stopped_words(settings.collect.data_dir),
        )
        await run_shown(fetcher.run(stop), stop, seconds, clock, view)
    return reporter.latest
