"""``penstock jobs``: manages jobs and shows their progress."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import typer

from penstock.api.views import job_view, lock_view
from penstock.cli.admin import with_admin
from penstock.cli.instants import instant
from penstock.cli.job_view import draw_jobs
from penstock.cli.options import DataOption, ExchangeArgument, JsonOption, say
from penstock.ingest import registry
from penstock.ingest.admin import FleetAdmin
from penstock.jobs.model import Job, NewJob, Schedule, State
from penstock.jobs.product_locks import ProductLock, held_locks, release_lock
from penstock.jobs.service import JobService
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

jobs = typer.Typer(
    help="Manage jobs: what is fetched, how often, and the progress.", no_args_is_help=True
)

JobArgument = Annotated[str, typer.Argument(help="Id of the job.")]
_Change = Callable[[JobService, str], Awaitable[Job]]
_ENDED_SHOWN_MS = 3_600_000
"""How long a finished job stays in the list."""


@jobs.command("list")
def list_(
    context: typer.Context,
    exchange: Annotated[str | None, typer.Option(help="Show only this exchange.")] = None,
    kind: Annotated[
        str | None, typer.Option("--type", help="Show only this type, such as ohlcv_backfill.")
    ] = None,
    symbol: Annotated[str | None, typer.Option(help="Show only this market.")] = None,
    timeframe: Annotated[str | None, typer.Option(help="Show only this candle length.")] = None,
    status: Annotated[
        Literal["active", "paused", "deleted"] | None, typer.Option(help="Show only this status.")
    ] = None,
    state: Annotated[State | None, typer.Option(help="Only in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of jobs.")] = 100,
    all_: Annotated[
        bool, typer.Option("--all", help="Include all finished jobs, of any age.")
    ] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs, oldest first: state, rows, rate, time left.

    Shows all active, paused and failed jobs, and those finished within the last hour. --all shows
    all finished jobs too; --state success shows only finished ones.

    Example: penstock jobs list --type ohlcv_backfill --state success
    """
    unified = Symbol.parse(symbol).unified if symbol else None
    asked = {"exchange_id": exchange, "type": kind, "symbol": unified, "timeframe": timeframe}

    async def find(admin: FleetAdmin) -> list[Job]:
        found = await admin.job_service.find(**asked, status=status, state=state, limit=limit)
        if status is not None or state is not None or len(found) >= limit:
            return found
        since_ms = 0 if all_ else await admin.job_service.store.now_ms() - _ENDED_SHOWN_MS
        done = await admin.job_service.ended(since_ms, limit - len(found), **asked)
        return sorted([*found, *done], key=lambda job: job.id)

    found = with_admin(context, data_dir, find, read_only=True)
    if as_json:
        for job in found:
            say(job_view(job))
        return
    draw_jobs(found, registry.kinds())
    if len(found) >= limit:
        typer.echo(f"{limit} are shown, and there may be more: --limit", err=True)


@jobs.command()
def add(
    context: typer.Context,
    exchange: ExchangeArgument,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="ohlcv_incremental, ohlcv_backfill, trades_backfill, gap_backfill, trade_scan or"
            " markets_refresh.",
        ),
    ],
    symbol: Annotated[
        str | None, typer.Argument(help="Market: btc_usdt, BTC/USDT or BTC-USDT.")
    ] = None,
    timeframe: Annotated[str | None, typer.Argument(help="Candle length: 1m, 1h, 1d.")] = None,
    every: Annotated[str | None, typer.Option(help="How often it runs: 30s, 15m, 12h.")] = None,
    priority: Annotated[int | None, typer.Option(help="0 to 100; lower runs first.")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on: 2024-01-01.")] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time.")] = None,
    cursor: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Cursor of a job that does not advance in time, such as the ids of a gap.",
        ),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a job that is due at once; creates the exchange's connector if there is none.

    Example: penstock jobs add binance ohlcv_backfill btc_usdt 1h --since 2024-01-01

    Example: penstock jobs add binance trade_scan btc_usdt

    Example: penstock jobs add binance gap_backfill btc_usdt --cursor '{"first_id":5,"last_id":9}'
    """
    new = NewJob(
        exchange_id=exchange,
        type=kind,
        symbol=symbol,
        timeframe=timeframe,
        schedule=Schedule(interval_ms=_interval_ms(every)) if every else None,
        priority=priority,
        cursor=_cursor(cursor, since_ms=_instant(since), until_ms=_instant(until)),
    )

    async def create(admin: FleetAdmin) -> Job:
        return await admin.add(new)

    _show(with_admin(context, data_dir, create), as_json)


@jobs.command()
def show(
    context: typer.Context,
    job_id: JobArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one job: its progress, its rate, and its latest events.

    Example: penstock jobs show 019a8b3c5d7e9f00a1b2c3d4
    """

    async def get(admin: FleetAdmin) -> Job:
        return await admin.job_service.get(job_id)

    job = with_admin(context, data_dir, get, read_only=True)
    _show(job, as_json)
    for event in () if as_json else job.events:
        words = ": ".join(
            filter(None, (" ".join(filter(None, (event.by, event.what))), event.detail))
        )
        typer.echo(f"{instant(event.at)}  {words}")


@jobs.command()
def pause(
    context: typer.Context,
    job_id: JobArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause a job; a worker that is running it stops after the current page.

    Example: penstock jobs pause 019a8b3c5d7e9f00a1b2c3d4
    """
    _show(_changed(context, job_id, data_dir, JobService.pause), as_json)


@jobs.command()
def resume(
    context: typer.Context,
    job_id: JobArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resume a paused or failed job from its saved position.

    Example: penstock jobs resume 019a8b3c5d7e9f00a1b2c3d4
    """
    _show(_changed(context, job_id, data_dir, JobService.resume), as_json)


@jobs.command()
def run(
    context: typer.Context,
    job_id: JobArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job now, before all others.

    Example: penstock jobs run 019a8b3c5d7e9f00a1b2c3d4
    """
    _show(_changed(context, job_id, data_dir, JobService.run), as_json)


@jobs.command("rm")
def remove(context: typer.Context, job_id: JobArgument, data_dir: DataOption = None) -> None:
    """Delete a job; the records that it fetched are kept.

    Example: penstock jobs rm 019a8b3c5d7e9f00a1b2c3d4
    """
    _changed(context, job_id, data_dir, JobService.delete)


@jobs.command()
def locks(context: typer.Context, data_dir: DataOption = None, as_json: JsonOption = False) -> None:
    """List the markets that job runs have locked: who, since when and until when.

    Example: penstock jobs locks
    """

    async def find(admin: FleetAdmin) -> list[ProductLock]:
        return await held_locks(admin.job_service.store)

    for lock in with_admin(context, data_dir, find, read_only=True):
        _say_lock(lock, as_json)


@jobs.command()
def unlock(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Key of the lock, as locks lists it.")],
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Release the lock of a market; if its holder still runs, it stops, and its job is retried.

    Example: penstock jobs unlock product:coinbase:BTC-USD
    """

    async def release(admin: FleetAdmin) -> ProductLock:
        return await release_lock(admin.job_service.store, key)

    _say_lock(with_admin(context, data_dir, release), as_json)


def _say_lock(lock: ProductLock, as_json: bool) -> None:
    if as_json:
        say(lock_view(lock))
        return
    times = f"since {instant(lock.since)}, until {instant(lock.until)} unless renewed"
    typer.echo(f"{lock.id}  {lock.holder}  job {lock.job_id}, {times}")


def _changed(context: typer.Context, job_id: str, data_dir: str | None, change: _Change) -> Job:
    async def do(admin: FleetAdmin) -> Job:
        return await change(admin.job_service, job_id)

    return with_admin(context, data_dir, do)


def _cursor(text: str | None, **times: int | None) -> dict[str, Any] | None:
    given = {name: at_ms for name, at_ms in times.items() if at_ms is not None}
    try:
        decoded = msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"--cursor is not a JSON object: {error}") from None
    return {**decoded, **given} or None


def _instant(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time such as 2024-01-01T12:00") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _interval_ms(text: str) -> int:
    length_ms = Interval.parse(text).fixed_ms
    if length_ms is None:
        raise typer.BadParameter(f"{text!r} has no fixed length; say days: 30d")
    return length_ms


def _show(job: Job, as_json: bool) -> None:
    if as_json:
        say(job_view(job))
        return
    draw_jobs([job], registry.kinds())
    if job.stats.last_error and job.state != "failed":
        typer.echo(f"last error: {job.stats.last_error}")
