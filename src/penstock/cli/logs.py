"""``penstock logs``: log lines of the processes of a data folder."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from penstock.cli.context import read_settings
from penstock.cli.instants import day_and_time
from penstock.cli.options import DataOption, JsonOption, SecondsOption, note, say
from penstock.clock import SystemClock, wait_for
from penstock.monitor.log_follower import LogFollower
from penstock.monitor.process_logs import Level, LogFilter, LogLine, LogQuery, read_logs
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.telemetry.printable import printable

_FOLLOW_S = 0.25


def logs(
    context: typer.Context,
    process: Annotated[
        str | None, typer.Option(help="Only lines of this process.", show_default=False)
    ] = None,
    level: Annotated[Level, typer.Option(help="Only lines of this level and above.")] = "debug",
    text: Annotated[
        str | None, typer.Option(help="Only lines with this text.", show_default=False)
    ] = None,
    lines: Annotated[int, typer.Option(min=0, max=10_000, help="How many, the newest.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new lines as they are written.")
    ] = False,
    seconds: SecondsOption = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the newest log lines of all processes of a data folder, in order of time.

    Each process keeps its latest lines there (logs.keep_mb, logs.level), besides those on stderr.
    Processes of other machines keep theirs on those machines. Exit code 2 if they cannot be read.

    Example: penstock logs --level warning --process collect-binance --follow
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    query = LogQuery(level=level, process=process, text=text, limit=lines)
    # Before the newest lines are read: what is written meanwhile is printed twice, not lost.
    follower = LogFollower(folder, LogFilter(query)) if follow else None
    found = _newest(folder, query)
    _print(found, as_json)
    if follower is not None:
        asyncio.run(_follow(follower, seconds, as_json))
    elif not found:
        note(f"No such line in {folder / 'logs'}. Processes keep them unless logs.keep_mb is 0.")


def _newest(folder: Path, query: LogQuery) -> list[LogLine]:
    """The newest lines, the oldest of them first."""
    found, after = list[LogLine](), None
    while len(found) < query.limit:
        more = msgspec.structs.replace(query, limit=query.limit - len(found), after=after)
        page = read_logs(folder, more)
        found += page.items
        if (after := page.next) is None:
            break
    return found[::-1]


async def _follow(follower: LogFollower, seconds: float | None, as_json: bool) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    while not stop.is_set():
        _print(follower.new_lines(), as_json)
        await wait_for(stop, clock, _FOLLOW_S)
    _print(follower.new_lines(), as_json)
    deadline.cancel()


def _print(lines: Iterable[LogLine], as_json: bool) -> None:
    for line in lines:
        if as_json:
            say(line)
        else:
            typer.echo(_words(line))


def _words(line: LogLine) -> str:
    fields = " ".join(f"{name}={_value(value)}" for name, value in line.fields.items())
    at = f"{day_and_time(line.at_ms // 1000)}.{line.at_ms % 1000:03}"
    return printable(f"{at} {line.level:7} {line.process} {line.event} {fields}".rstrip())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
