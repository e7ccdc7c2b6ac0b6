"""``penstock up``: runs and supervises the processes that the settings name."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.context import Sources, read_settings
from penstock.cli.options import DataOption, JsonOption, SecondsOption, say
from penstock.cli.running import last_words_logged, run_process
from penstock.clock import SystemClock
from penstock.config import Settings, environment_name, named_symbols
from penstock.runtime.process import Process
from penstock.runtime.service_manager import VARIABLES
from penstock.runtime.status import SeenProcess, read_processes
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.supervisor.control import controlled
from penstock.supervisor.launching import Launcher
from penstock.supervisor.lock import only_supervisor
from penstock.supervisor.model import ChildPlan
from penstock.supervisor.output import Output, OwnLines
from penstock.supervisor.plan import plan_children, rules_of
from penstock.supervisor.supervisor import Supervisor
from penstock.telemetry import log_facts, logs_json


def up(
    context: typer.Context,
    data_dir: DataOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the processes, and start nothing.")
    ] = False,
    seconds: SecondsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run all processes that the section [up] of the settings names, and restart those that fail.

    Their logs are written to stderr with the name of each process. Ctrl-C or SIGTERM stops them:
    what produces records first, what others read from last. `penstock status` shows them;
    `penstock restart NAME` restarts one. Exits 1 if one was given up, and 2 if the settings are
    wrong or another supervisor runs on the data folder.

    Example: penstock --config penstock.toml up --data-dir ~/market-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    sources: Sources = context.obj
    plans = plan_children(settings, named_symbols(sources.environment))
    base = ["--config", str(sources.file.absolute())] if sources.file else []
    if dry_run:
        _print_plans(plans, as_json)
        return
    with last_words_logged(), only_supervisor(Path(settings.collect.data_dir)):
        own, output = sys.stderr, Output(sys.stderr.fileno())
        sys.stderr = OwnLines(output, own)
        try:
            environment = _environment(sources.environment, settings)
            program = [sys.executable, "-m", "penstock", *base]
            launcher = Launcher(program, environment, output, as_json=logs_json())
            supervisor = run_process(_up(settings, plans, launcher, seconds))
        finally:
            sys.stderr = own
            output.close()
    children = supervisor.children()
    if as_json:
        say({"processes": children})
    if supervisor.has_given_up:
        raise typer.Exit(1)


def _print_plans(plans: Sequence[ChildPlan], as_json: bool) -> None:
    for plan in plans:
        words = ["penstock", *plan.words]
        if as_json:
            say({"name": plan.name, "command": words, "environment": plan.environment})
        else:
            typer.echo(f"{plan.name}: {' '.join(words)}")


def _environment(environment: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The variables of all processes."""
    kept = {name: value for name, value in environment.items() if name not in VARIABLES}
    return {
        **kept,
        environment_name("collect.data_dir"): settings.collect.data_dir,
        environment_name("logging.format"): "json" if logs_json() else "human",
        "PYTHONUNBUFFERED": "1",
    }


async def _up(
    settings: Settings, plans: Sequence[ChildPlan], launcher: Launcher, seconds: float | None
) -> Supervisor:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    async with Process("up", settings, clock, log_facts) as process:

        async def statuses() -> list[SeenProcess] | None:
            return None if process.store is None else await read_processes(process.store)

        supervisor = Supervisor(plans, rules_of(settings), launcher, statuses, clock, log_facts)
        async with controlled(supervisor, process.folder):
            process.name = "up"
            process.open_state_later()
            process.running(supervisor.report)
            deadline = asyncio.create_task(stop_after(seconds, stop, clock))
            try:
                await supervisor.run(stop)
            finally:
                deadline.cancel()
    return supervisor
