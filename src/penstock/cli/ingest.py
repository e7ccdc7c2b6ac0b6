"""``penstock ingest``: fetches the trades or candles of some products, and ends."""

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
import typer

from penstock.app.ingest import OpenIngest, open_ingest
from penstock.app.metrics import measured
from penstock.cli.context import Sources, read_settings
from penstock.cli.ingest_view import (
    describe_ingest,
    draw_ingest,
    name_of,
    summary,
    summary_lines,
)
from penstock.cli.instants import instant
from penstock.cli.options import DataOption, ExchangeArgument, JsonOption, default, note, say
from penstock.cli.painter import write
from penstock.cli.plan_view import plan_lines
from penstock.cli.running import View, last_words_logged, run_process, run_shown, unless_drawn
from penstock.cli.typed import instant_ns
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.errors import BadRequest, ExchangeError, ExchangeUnreachable, UnfinishedJob
from penstock.ingest.ingestion import Ingestion
from penstock.ingest.products import IngestRange, IngestRequest, Product
from penstock.jobs.model import Job
from penstock.runtime.stopping import opened, stop_on_signals
from penstock.signals import INTERRUPTED
from penstock.telemetry import Listener, log_facts

_LINE_S = 30.0
_MS_NS = 1_000_000


def ingest(
    context: typer.Context,
    exchange: ExchangeArgument,
    symbols: Annotated[
        list[str],
        typer.Argument(help="Products as the exchange writes them, BTC-USD, or unified, BTC/USD."),
    ],
    since: Annotated[
        str | None,
        typer.Option("--from", help="From this time on: 2024-01-01.", show_default="the first"),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", help="Up to this time.", show_default="now, when it first runs"),
    ] = None,
    from_id: Annotated[
        int | None, typer.Option(min=0, help="From the trade with this id on.", show_default=False)
    ] = None,
    to_id: Annotated[
        int | None, typer.Option(min=0, help="Up to the trade with this id.", show_default=False)
    ] = None,
    timeframe: Annotated[
        list[str] | None,
        typer.Option(help="Candles of this length instead of trades; may be repeated."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Products to fetch at a time.",
            show_default=default("ingest.workers"),
        ),
    ] = None,
    chunk_concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="auto|N",
            help="Pages of one product to request at a time; auto: as many as the limits allow.",
            show_default=default("ingest.chunk_concurrency"),
        ),
    ] = None,
    files: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|URL",
            help="Read the files that the exchange publishes from there, where they have all"
            " of a day.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the plan; create and fetch nothing.")
    ] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch all trades, or candles, of some products in a range, as fast as the limits allow.

    The plan is shown first: pages, rows and time. There is one job for each product. Ctrl-C or
    SIGTERM stops it and prints the command that continues. The same command continues where it was
    stopped or killed; what was fetched is not fetched again.

    Exits 0 if all is fetched, 1 if a product failed, 130 if it was stopped before the end.

    Example: penstock ingest coinbase BTC-USD ETH-USD --from 2024-01-01 --to 2024-02-01
    """
    given: dict[str, Any] = {
        "--from": since,
        "--to": until,
        "--from-id": from_id,
        "--to-id": to_id,
        "--timeframe": timeframe,
        "--workers": workers,
        "--chunk-concurrency": chunk_concurrency,
        "--files": files,
        "--data-dir": data_dir,
    }
    is_number = chunk_concurrency is not None and chunk_concurrency.isdecimal()
    options = {
        "collect.data_dir": data_dir,
        "ingest.workers": workers,
        "ingest.files": files,
        "ingest.chunk_concurrency": int(chunk_concurrency or 0) if is_number else chunk_concurrency,
    }
    settings = read_settings(context, options, exchange).settings
    request = IngestRequest(
        exchange, symbols, _range(since, until, from_id, to_id), tuple(timeframe or ())
    )
    if request.timeframes and (from_id is not None or to_id is not None):
        raise typer.BadParameter("candles have no ids: use --from and --to")
    commands = _Commands(context.obj, data_dir)
    again = commands.ingest(exchange, symbols, given)
    how = _How(commands, is_dry=dry_run, as_json=as_json)
    with last_words_logged(retried=False), measured(settings, unless_drawn(log_facts)) as listener:
        ingestion = run_process(_ingest(settings, request, how, listener))
    if dry_run:
        return
    is_over = ingestion is not None and ingestion.is_finished
    failed = ingestion is not None and any(
        job.state != "success" for job in ingestion.jobs.values()
    )
    if ingestion is not None:
        _show(ingestion, again if failed else None, as_json=as_json)
    if failed or ingestion is None:
        write(f"{'Failed' if is_over else 'Stopped'}. Continue with: {again}\n")
        raise typer.Exit(1 if is_over else INTERRUPTED)


class _How(NamedTuple):
    commands: "_Commands"
    is_dry: bool
    as_json: bool


async def _ingest(
    settings: Settings, request: IngestRequest, how: _How, listener: Listener
) -> Ingestion | None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    async with opened(_begun(settings, request, how, clock, listener), stop) as ingestion:
        if ingestion is None:
            return None
        view = View(
            lambda viewport: draw_ingest(ingestion, viewport),
            lambda: describe_ingest(ingestion),
            line_s=_LINE_S,
        )
        await run_shown(ingestion.run(stop), stop, None, clock, view)
    return ingestion


@asynccontextmanager
async def _begun(
    settings: Settings, request: IngestRequest, how: _How, clock: Clock, listener: Listener
) -> AsyncIterator[Ingestion | None]:
    """Show the plan, and create the jobs; None if that is not wanted."""
    async with open_ingest(settings, request, clock, listener) as found:
        _check_ranges(found, how.commands)
        await found.check_locks()
        await _show_plan(found, how)
        yield None if how.is_dry else await found.begin()


async def _show_plan(found: OpenIngest, how: _How) -> None:
    try:
        plans = await found.plan()
    except (ExchangeError, ExchangeUnreachable) as error:
        if how.is_dry or isinstance(error, BadRequest):
            raise
        # The jobs wait until it is available.
        note(f"penstock: there is no plan: {error}")
        return
    if how.as_json and how.is_dry:
        say(plans)
    elif plans.plans and not how.as_json:
        for line in plan_lines(plans):
            typer.echo(line)


def _show(ingestion: Ingestion, resume: str | None, *, as_json: bool) -> None:
    if as_json:
        say({**summary(ingestion), "resume": resume})
        return
    for line in summary_lines(ingestion):
        typer.echo(line)


def _range(
    since: str | None, until: str | None, from_id: int | None, to_id: int | None
) -> IngestRange:
    for time, number, end in ((since, from_id, "--from"), (until, to_id, "--to")):
        if time is not None and number is not None:
            raise typer.BadParameter(f"{end}-id is given too: leave one out", param_hint=end)
    return IngestRange(
        since_ms=_instant_ms(since, "--from"),
        until_ms=_instant_ms(until, "--to"),
        from_id=from_id,
        to_id=to_id,
    )


def _instant_ms(text: str | None, option: str) -> int | None:
    at_ns = instant_ns(text, option)
    return None if at_ns is None else at_ns // _MS_NS


def _check_ranges(found: OpenIngest, commands: "_Commands") -> None:
    """Check that no product has an unfinished job for another range.

    Raises:
        UnfinishedJob: one has.
    """
    for product in found.products:
        if product.other is not None:
            raise commands.unfinished(product, product.other)


class _Commands:
    """Commands for a user to type, on the same settings and data folder."""

    def __init__(self, sources: Sources, data_dir: str | None) -> None:
        self._base = ["penstock"]
        if sources.file is not None:
            self._base += ["--config", str(sources.file)]
        self._data_dir = data_dir

    def ingest(self, exchange: str, symbols: list[str], options: dict[str, Any]) -> str:
        words = [*self._base, "ingest", exchange, *symbols]
        for name, value in options.items():
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    words += [name, str(each)]
        return shlex.join(words)

    def unfinished(self, product: Product, job: Job) -> UnfinishedJob:
        asked = job.asked or msgspec.to_builtins(job.target)
        ends = {"--from": asked.get("since_ms"), "--to": asked.get("until_ms")}
        options: dict[str, Any] = {
            **{name: None if at_ms is None else _iso(at_ms) for name, at_ms in ends.items()},
            "--from-id": asked.get("from_id"),
            "--to-id": asked.get("to_id"),
            "--timeframe": job.timeframe,
            "--data-dir": self._data_dir,
        }
        resume = self.ingest(job.exchange_id, [product.native], options)
        delete = [*self._base, "jobs", "rm", job.id]
        delete += [] if self._data_dir is None else ["--data-dir", self._data_dir]
        return UnfinishedJob(
            f"{name_of(product)} of {job.exchange_id}",
            job.id,
            f"{_range_words(asked)}; {_position(job)}",
            resume,
            shlex.join(delete),
        )


def _iso(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds")


def _range_words(asked: dict[str, Any]) -> str:
    ends = []
    for word, number, at_ms, without in (
        ("from", asked.get("from_id"), asked.get("since_ms"), "the first"),
        ("to", asked.get("to_id"), asked.get("until_ms"), "the newest at its start"),
    ):
        end = f"id {number}" if number is not None else instant(at_ms) or without
        ends.append(f"{word} {end}")
    return " ".join(ends)


def _position(job: Job) -> str:
    at = getattr(job.cursor, "last_id", None)
    where = f", at id {at}" if at is not None else ""
    if job.timeframe is not None and job.progress.pages:
        where = f", at {instant(job.cursor.since_ms)}"
    return f"{job.progress.rows:,} rows so far{where}"
