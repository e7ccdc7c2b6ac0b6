"""``penstock doctor``: checks this machine, the settings, the stores and the exchanges."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.cli.context import read_settings
from penstock.cli.options import EXCHANGES, DataOption, JsonOption, say
from penstock.clock import SystemClock
from penstock.doctor import Finding, Level, Subject, examine, worst
from penstock.exchanges import registry
from penstock.telemetry.printable import printable

_MARKS: dict[Level, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "problem": ("✗", "red"),
}


def doctor(
    context: typer.Context,
    exchanges: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Exchanges to check: {EXCHANGES}.",
            show_default="those of the settings and of penstock connectors list",
        ),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check this machine, its disks and clock, the stores, the ports and the exchanges.

    Every line is fine (✓), may become a problem (!), or does not work (✗), with what to do about
    it. Nothing is changed; one cheap request is sent to each exchange. Exits 0 if all is well, 1
    with a warning, 2 with a problem.

    Example: penstock doctor binance kraken --data-dir ~/market-data
    """
    for name in exchanges or ():
        registry.load(name)
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    subject = Subject(settings, SystemClock(), tuple(dict.fromkeys(exchanges or ())))
    findings = asyncio.run(examine(subject))
    if as_json:
        for each in findings:
            say(each)
    else:
        _draw(findings)
    raise typer.Exit(worst(findings))


def _draw(findings: Sequence[Finding]) -> None:
    console = Console()
    width = max(len(each.check) for each in findings)
    for each in findings:
        mark, colour = _MARKS[each.level]
        line = Text.assemble((mark, colour), f" {each.check:{width}}  {printable(each.words)}")
        console.print(line, soft_wrap=True)
        if each.remedy:
            remedy = f"{'':{width + 4}}{printable(each.remedy)}"
            console.print(Text(remedy, style="dim"), soft_wrap=True)
