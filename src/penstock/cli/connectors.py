"""``penstock connectors``: manages connectors, one per exchange, and shows limits and usage."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from penstock.api.views import breaker_view, connector_view
from penstock.cli.admin import with_admin
from penstock.cli.instants import instant
from penstock.cli.options import DataOption, ExchangeArgument, JsonOption, note, say
from penstock.connectors import Connector, ConnectorManager, LimitState
from penstock.errors import UnknownInterval
from penstock.ingest.admin import FleetAdmin
from penstock.market.interval import Interval
from penstock.resilience.breaker import Breaker
from penstock.throttle.gate import Limit

connectors = typer.Typer(
    help="Manage connectors: one per exchange, with its limits, shared by all processes.",
    no_args_is_help=True,
)

# The end of a stop is given by two clocks, which may differ by this much.
_DOUBT_MS = 60_000
_Change = Callable[[ConnectorManager, str], Awaitable[Connector]]


@connectors.command("list")
def list_(
    context: typer.Context,
    status: Annotated[
        Literal["active", "paused", "deleted"] | None, typer.Option(help="Show only this status.")
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List connectors: their limits, the current usage, and the number of jobs.

    Example: penstock connectors list --status paused
    """

    async def find(admin: FleetAdmin) -> list[Connector]:
        return await admin.connectors.find(status, limit=1000)

    found = with_admin(context, data_dir, find, read_only=True)
    for connector in found if as_json else ():
        say(connector_view(connector))
    if not as_json:
        _draw(found)


@connectors.command()
def add(
    context: typer.Context,
    exchange: ExchangeArgument,
    notes: Annotated[str | None, typer.Option(help="Free text for operators.")] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="Maximum weight per period: 3000/1m. May be repeated."),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an exchange's connector; an existing one is not changed.

    Example: penstock connectors add binance --limit 3000/1m
    """
    limits = [_limit(text) for text in limit] if limit else None

    async def ensure(admin: FleetAdmin) -> Connector:
        ensured = await admin.connectors.ensure_connector(exchange, limits, notes)
        if not ensured.created:
            note(f"{exchange} already has a connector; it was not changed.")
        return ensured.connector

    _show(with_admin(context, data_dir, ensure), as_json)


@connectors.command()
def show(
    context: typer.Context,
    exchange: ExchangeArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one connector: every limit and its current usage.

    With an API key for the exchange, the limits are those of the key.

    Example: penstock connectors show binance --json
    """

    async def read(admin: FleetAdmin) -> Connector:
        return await admin.connectors.get(exchange)

    _show(with_admin(context, data_dir, read, read_only=True, exchange=exchange), as_json)


@connectors.command()
def pause(
    context: typer.Context,
    exchange: ExchangeArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop all processes from sending requests to an exchange.

    Example: penstock connectors pause binance
    """
    _show(_changed(context, exchange, data_dir, ConnectorManager.pause_connector), as_json)


@connectors.command()
def resume(
    context: typer.Context,
    exchange: ExchangeArgument,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Allow all processes to send requests to an exchange again, within its limits.

    Example: penstock connectors resume binance
    """
    _show(_changed(context, exchange, data_dir, ConnectorManager.resume_connector), as_json)


@connectors.command()
def unblock(
    context: typer.Context,
    exchange: ExchangeArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lift a stop that the exchange ordered, before its end; asks for confirmation.

    Example: penstock connectors unblock binance
    """

    async def read(admin: FleetAdmin) -> Connector:
        return await admin.connectors.get(exchange)

    found = with_admin(context, data_dir, read, read_only=True)
    if found.blocked_until is None:
        note(f"{exchange} has not ordered a stop.")
        _show(found, as_json)
        return
    until_ms = found.blocked_until
    if not yes:
        note(_stop_words(found))
        note("If the exchange enforces it, requests before its end may extend it.")
        typer.confirm("Lift the stop now?", abort=True, err=True)

    async def lift(admin: FleetAdmin) -> Connector:
        return await admin.unblock(exchange, until_ms)

    freed = with_admin(context, data_dir, lift)
    if freed.blocked_until is not None:
        note("The exchange ordered another stop meanwhile. It was not lifted: run unblock again.")
    _show(freed, as_json)


@connectors.command()
def breaker(
    context: typer.Context,
    exchange: ExchangeArgument,
    order: Annotated[
        Literal["open", "closed", "auto"] | None,
        typer.Argument(help="Keep it open or closed, or make it automatic again."),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an exchange's circuit breaker, which stops requests while they fail, or force it.

    Example: penstock connectors breaker binance open
    """

    async def do(admin: FleetAdmin) -> Breaker:
        if order is None:
            return await admin.connectors.breaker(exchange)
        force = None if order == "auto" else order
        return await admin.connectors.force_breaker(exchange, force)

    found = with_admin(context, data_dir, do, read_only=order is None)
    if as_json:
        say(breaker_view(exchange, found))
    else:
        _draw_breaker(exchange, found)


def _draw_breaker(exchange: str, found: Breaker) -> None:
    state = f"forced {found.forced}" if found.forced else found.phase.replace("_", "-")
    typer.echo(f"{exchange}: {state}")
    if found.phase == "open" and not found.forced:
        typer.echo(f"{found.reason}\nThe next request is sent at {instant(found.retry_at_ms)}.")
    for each in found.transitions:
        typer.echo(f"{instant(each.at_ms)}  {each.to.replace('_', '-')}  {each.reason}".rstrip())


@connectors.command("rm")
def remove(context: typer.Context, exchange: ExchangeArgument, data_dir: DataOption = None) -> None:
    """Delete a connector that has no jobs; the usage of its limits is kept.

    Example: penstock connectors rm binance
    """

    async def delete(admin: FleetAdmin) -> None:
        await admin.connectors.delete(exchange)

    with_admin(context, data_dir, delete)


def _changed(
    context: typer.Context, exchange: str, data_dir: str | None, change: _Change
) -> Connector:
    async def do(admin: FleetAdmin) -> Connector:
        return await change(admin.connectors, exchange)

    return with_admin(context, data_dir, do)


def _limit(text: str) -> Limit:
    amount, _, period = text.partition("/")
    try:
        period_ms = Interval.parse(period).fixed_ms
    except UnknownInterval:
        period_ms = None
    if not amount.isdecimal() or not int(amount) or period_ms is None:
        raise typer.BadParameter(f"{text!r} is not a limit such as 3000/1m or 10/1s")
    return Limit(int(amount), period_ms)


def _show(connector: Connector, as_json: bool) -> None:
    if as_json:
        say(connector_view(connector))
        return
    _draw([connector])
    if connector.notes:
        typer.echo(f"notes: {connector.notes}")
    if connector.blocked_until:
        typer.echo(_stop_words(connector))


def _stop_words(connector: Connector) -> str:
    """The end of the stop, and the response that caused it."""
    name, until, stop = connector.exchange_id, connector.blocked_until, connector.blocked_by
    said = f"{name} ordered a stop: nothing is sent before {instant(until)}."
    lift = f"Lift it earlier with: penstock connectors unblock {name}"
    if stop is None:
        return f"{said} {lift}"
    said += f" It answered {stop.path} with {stop.status} at {instant(stop.said_at)}"
    said += f": {stop.words!r}." if stop.words else "."
    if until is not None and stop.asked_until > until + _DOUBT_MS:
        asked = instant(stop.asked_until)
        said += f" It asked for a stop until {asked}, longer than requests.longest_stop allows."
    return f"{said} {lift}"


def _draw(found: Sequence[Connector]) -> None:
    console = Console()
    if not found:
        console.print("There are no connectors. Add one with: penstock connectors add EXCHANGE")
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("exchange", no_wrap=True)
    for name in ("status", "limit", "used", "resets", "saturated", "jobs"):
        table.add_column(name, overflow="fold")
    for connector in found:
        first = [connector.exchange_id, connector.status]
        active, all_ = connector.active_jobs_count, connector.jobs_count
        last = [f"{connector.saturation_count:,} ×", f"{active} active of {all_}"]
        for limit in connector.limits:
            table.add_row(*first, *_limit_cells(limit), *last)
            first, last = ["", ""], ["", ""]
    console.print(table)


def _limit_cells(limit: LimitState) -> list[str]:
    words = [limit.unit, limit.category, f"per {limit.period_ms / 1000:g} s"]
    most = limit.amount
    if limit.kind == "paced":  # usage counts against the burst
        most = max(1, limit.burst)
        words.insert(0, f"{limit.amount:,}")
        words.append(f"burst {most:,}")
    used = f"{limit.used:,} of {most:,}"
    return [" ".join(filter(None, words)), used, instant(limit.reset_at)[11:]]
