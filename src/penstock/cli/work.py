"""``penstock work``: runs due jobs until it is stopped."""

import asyncio
from typing import Annotated

import typer

from penstock.app.metrics import measured
from penstock.app.worker import open_worker
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, SecondsOption, SlotOption, default, say
from penstock.cli.painter import write
from penstock.cli.running import (
    View,
    last_words_logged,
    run_process,
    run_shown,
    stopped_words,
    unless_drawn,
)
from penstock.cli.worker_view import describe_worker, draw_worker
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.jobs.worker import Worker
from penstock.runtime.stopping import opened, stop_on_signals
from penstock.telemetry import Listener, log_facts


def work(
    context: typer.Context,
    data_dir: DataOption = None,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Jobs to run at once.", show_default=default("jobs.concurrency")),
    ] = None,
    slot: SlotOption = None,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the jobs that are due: candles, trades and market listings, within the rate limits.

    Any number of workers share the jobs of one store. Ctrl-C or SIGTERM stops this worker. It saves
    the position of its jobs, and other workers, or a restarted one, continue from there.

    Example: penstock work --concurrency 4 --data-dir ~/market-data
    """
    options = {"collect.data_dir": data_dir, "jobs.concurrency": concurrency}
    settings = read_settings(context, options).settings
    with last_words_logged(), measured(settings, unless_drawn(log_facts)) as listener:
        worker = run_process(_work(settings, slot, seconds, listener))
    write(stopped_words(settings.collect.data_dir))
    if as_json and worker is not None:
        say({"worker": worker.name, "turns": worker.ended})


async def _work(
    settings: Settings, slot: str | None, seconds: float | None, listener: Listener
) -> Worker | None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    async with opened(open_worker(settings, clock, listener, slot), stop) as worker:
        if worker is None:
            return None
        view = View(
            lambda viewport: draw_worker(worker, viewport),
            lambda: describe_worker(worker),
            stopped_words(settings.collect.data_dir),
        )
        await run_shown(worker.run(stop), stop, seconds, clock, view)
    return worker
