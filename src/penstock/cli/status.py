"""``penstock status``: shows processes, their records and problems."""

import os
import shlex
import sys
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from penstock.cli.collector_view import GONE, draw_collector
from penstock.cli.context import read_settings
from penstock.cli.fitting import Viewport
from penstock.cli.options import DataOption, JsonOption, say
from penstock.cli.slot_view import draw_slot, slot_facts
from penstock.clock import SystemClock
from penstock.collect.status import FOLDER, CollectorStatus, read_all, with_books_stopped
from penstock.storage.log import SlotStats, open_log

_FRESH_MS = 5_000
"""A status older than this was written by a process that has ended or hangs."""
_LEAST_LINES = 8
"""Minimum lines of each process on a terminal."""


def status(
    context: typer.Context, data_dir: DataOption = None, as_json: JsonOption = False
) -> None:
    """Show every collector and fetcher of a data folder, and what workers recorded there.

    Rows with problems come first. A terminal shows as many rows as fit and the number of the rest;
    other outputs show all. Exits 1 if a process should be running and is not, if one failed, or if
    the folder does not exist.

    Example: penstock status --data-dir ~/market-data --json
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    if not folder.is_dir():
        sys.stderr.write(_no_folder(folder) + "\n")
        raise typer.Exit(1)
    found = read_all(folder)
    gone = [each.slot for each in found if _is_gone(each)]
    found = [_as_it_is(each, is_gone=each.slot in gone) for each in found]
    workers = _without_status(folder, {each.slot for each in found})
    if as_json:
        for each in found:
            say({"gone": each.slot in gone, "status": each})
        for slot in workers:
            say(slot_facts(slot))
    elif found or workers:
        _draw(found, gone, workers)
    else:
        typer.echo(f"Nothing was ever collected in {folder}. Begin with: penstock collect")
    raise typer.Exit(1 if gone or any(each.state == "failed" for each in found) else 0)


def _draw(found: list[CollectorStatus], gone: list[str], workers: list[SlotStats]) -> None:
    console = Console()
    blocks = len(found) + len(workers)
    # Two lines are left for the shell, one above the first block and one below the last.
    share = max(_LEAST_LINES, (console.size.height - 2 - (blocks - 1)) // blocks)
    viewport = Viewport(console.width, share if console.is_terminal else None)
    drawn: list[RenderableType] = []
    for each in found:
        state = GONE if each.slot in gone else ""
        drawn += [Text(), draw_collector(each, viewport, state=state)]
    for slot in workers:
        drawn += [Text(), draw_slot(slot, viewport)]
    console.print(*drawn[1:], sep="\n")


def _as_it_is(status: CollectorStatus, *, is_gone: bool) -> CollectorStatus:
    ended = is_gone or status.state in ("stopped", "failed")
    return with_books_stopped(status) if ended else status


def _is_gone(status: CollectorStatus) -> bool:
    if status.state in ("stopped", "failed"):
        return False
    try:
        os.kill(status.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return SystemClock().now_ms() - status.at_ms > _FRESH_MS


def _without_status(folder: Path, known: set[str]) -> list[SlotStats]:
    """Return the slots of processes that write no status: workers."""
    if not (folder / "log").is_dir():
        return []
    with closing(open_log(f"rocksdb:{folder}").reader()) as log:
        return [slot for slot in log.stats() if slot.slot not in known and slot.streams]


def _no_folder(folder: Path) -> str:
    """The message that a folder does not exist, with folders of similar names."""
    parent = folder.parent
    there = [each for each in parent.iterdir() if _holds_data(each)] if parent.is_dir() else []
    names = [each.name for each in there]
    close = get_close_matches(folder.name, names, n=3) or sorted(names)[:3]
    if close:
        meant = ", ".join(shlex.quote(str(parent / name)) for name in close)
        advice = f"Data is in: {meant}. Name it with --data-dir."
    else:
        advice = "Name the folder with --data-dir, or begin with: penstock collect"
    return f"penstock: There is no folder {folder}. {advice}"


def _holds_data(folder: Path) -> bool:
    try:
        return (folder / FOLDER).is_dir() or (folder / "log").is_dir()
    except OSError:
        return False
