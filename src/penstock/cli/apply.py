"""``penstock apply``: creates connectors and jobs from a settings file."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.admin import with_admin
from penstock.cli.context import Sources, read_settings
from penstock.cli.options import DataOption, JsonOption, say
from penstock.errors import ConfigError
from penstock.ingest.admin import FleetAdmin
from penstock.ingest.apply import carry_out, prepare
from penstock.ingest.plan import PlannedChange, PlanStep, shown

_SIGNS = {"create": "+", "edit": "~", "pause": "-", "resume": "+"}


def apply(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(help="File to apply. Default: the settings file.")
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Show the changes without making them.")] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make connectors and jobs match the [connectors.NAME] tables of a file.

    Applying the same file again changes nothing. Connectors and jobs that are no longer in the file
    are paused, never deleted; those created by hand are not touched.

    Example: penstock apply penstock.toml --dry-run
    """
    sources: Sources = context.obj
    file = file or sources.file
    if file is None:
        problem = "it does not exist. Name the file: penstock apply FILE."
        raise ConfigError("penstock.toml", problem=problem, origin="this folder")
    context.obj = Sources(sources.environment, file)
    plans = read_settings(context, {}).settings.connectors

    async def do(admin: FleetAdmin) -> list[PlanStep]:
        steps = await prepare(plans, admin, str(file))
        for step in steps:
            if not dry_run:
                await carry_out(step, admin)
            _print_change(shown(step), as_json)
        return steps

    steps = with_admin(context, data_dir, do)
    if not as_json:
        typer.echo(_ending(len(steps), dry_run))


def _print_change(change: PlannedChange, as_json: bool) -> None:
    if as_json:
        say(change)
        return
    market = " ".join(filter(None, (change.type, change.symbol, change.timeframe)))
    words = " ".join(filter(None, (change.what, change.exchange_id, market)))
    detail = f"  ({change.detail})" if change.detail else ""
    typer.echo(f"{_SIGNS[change.action]} {change.action} {words}{detail}")


def _ending(count: int, dry_run: bool) -> str:
    if not count:
        return "Nothing to change: connectors and jobs match the file."
    return f"Changes to make: {count}. None was made." if dry_run else f"Changes made: {count}."
