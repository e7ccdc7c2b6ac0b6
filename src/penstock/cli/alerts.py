"""``penstock alerts``: what is wrong in the fleet, and what was in the last days."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.app.monitoring import send_test, stored_alerts
from penstock.cli.context import read_settings
from penstock.cli.fitting import Column, Row, Viewport, table
from penstock.cli.instants import instant
from penstock.cli.options import DataOption, JsonOption, say
from penstock.clock import SystemClock
from penstock.stats.alerts import Alert

_COLUMNS = (
    Column("state", 0, left=True),
    Column("severity", 3, left=True),
    Column("rule", 1, left=True),
    Column("subject", 2, left=True),
    Column("since", 4, left=True),
    Column("times", 5),
)


def alerts(
    context: typer.Context,
    all_: Annotated[
        bool, typer.Option("--all", help="Show also those resolved in the last seven days.")
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", help="Post a test message to the webhook instead.")
    ] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the alerts of all processes that share the state store.

    They are evaluated by a keeper or a server, and posted to alerts.webhook if that is set. Exits 1
    if an alert fires, or if the webhook did not accept the test message.

    Example: penstock alerts --all --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    clock = SystemClock()
    if test:
        problem = asyncio.run(send_test(settings, clock))
        if as_json:
            say({"accepted": not problem, "problem": problem})
        else:
            typer.echo(problem or "The webhook accepted a test message.", err=bool(problem))
        raise typer.Exit(1 if problem else 0)
    found = asyncio.run(stored_alerts(settings, clock))
    firing = [each for each in found if each.state == "firing"]
    shown = found if all_ else firing
    if as_json:
        for each in shown:
            say(each)
    elif shown:
        _draw(shown)
    else:
        typer.echo("No alert fires.")
    raise typer.Exit(1 if firing else 0)


def _draw(shown: list[Alert]) -> None:
    console = Console()
    columns = [*_COLUMNS, Column("", 6, left=True)]
    rows = [
        Row([each.state, each.severity, each.rule, each.subject, instant(each.since_ms),
             f"{each.times:,}", each.message])
        for each in shown
    ]  # fmt: skip
    # Without a terminal nothing is cut: the message may be longer than any width.
    lines = table(
        columns, rows, (), Viewport(console.width if console.is_terminal else 10_000, None)
    )
    console.print(*lines, sep="\n", soft_wrap=not console.is_terminal)
    if console.is_terminal:
        for each in shown:
            console.print(Text(f"{each.rule} {each.subject}: {each.message}"))
