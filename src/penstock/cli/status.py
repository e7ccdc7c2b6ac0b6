"""``penstock status``: shows the processes of a fleet, their records and problems."""

import asyncio
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
from penstock.cli.fleet_view import draw_fleet
from penstock.cli.options import DataOption, JsonOption, say
from penstock.cli.slot_view import draw_slot, slot_facts
from penstock.cli.supervised_view import draw_supervised
from penstock.clock import SystemClock
from penstock.collect.status import FOLDER, CollectorStatus, read_all, with_books_stopped
from penstock.config import Settings
from penstock.errors import MissingExtra, StorageError
from penstock.live import ProcessCache, is_there, live_url
from penstock.publish.endpoints import find_log_id
from penstock.runtime.status import (
    SeenProcess,
    merged,
    read_live_processes,
    read_processes,
    slot_status_id,
)
from penstock.runtime.stores import configured_log, open_state
from penstock.storage.cache import open_live_store
from penstock.storage.log import EventLog, SlotStats

_FRESH_MS = 5_000
"""A status older than this was written by a process that has ended or hangs."""
_LEAST_LINES = 8
"""Minimum lines of each process on a terminal."""


def status(
    context: typer.Context, data_dir: DataOption = None, as_json: JsonOption = False
) -> None:
    """Show all processes that share a state store: collectors, workers, servers, the bus.

    Collectors and fetchers of the data folder are shown in full, and what workers recorded there;
    processes of other folders and machines in a row each; a supervisor with its processes, how
    often each was restarted, and why. Rows with problems come first. A terminal
    shows as many rows as fit and the number of the rest; other outputs show all. Exits 1 if a
    process should be running and is not, if one failed, if the store does not answer, or if
    the folder does not exist.

    Example: penstock status --data-dir ~/market-data --json
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    if not folder.is_dir() and not settings.state.url:
        sys.stderr.write(_no_folder(folder) + "\n")
        raise typer.Exit(1)
    found = read_all(folder)
    seen, complete = asyncio.run(_processes(settings))
    gone = [each.slot for each in found if _is_gone(each)]
    found = [_as_it_is(each, is_gone=each.slot in gone) for each in found]
    log = configured_log(settings)
    slots = _without_status(log, {each.slot for each in found})
    shown = _Shown(found, gone, slots, seen, log)
    if as_json:
        shown.say_all()
    elif not shown.empty:
        shown.draw()
    else:
        typer.echo(f"Nothing was ever collected in {folder}. Begin with: penstock collect")
    failed = any(each.state == "failed" for each in found) or any(map(_has_failed, shown.others))
    raise typer.Exit(1 if gone or failed or not complete else 0)


async def _processes(settings: Settings) -> tuple[list[SeenProcess], bool]:
    """All processes in the state store and in that of live values, and whether both were read."""
    live: list[SeenProcess] | None = None
    stored: list[SeenProcess] | None = None
    try:
        live = await _live_processes(settings)
    except (StorageError, MissingExtra) as error:
        sys.stderr.write(f"penstock: reports of processes may be older than shown: {error}\n")
    try:
        async with open_state(settings, SystemClock(), read_only=True) as store:
            stored = await read_processes(store)
    except StorageError as error:
        which = "processes of this folder" if not settings.live.url else "live values"
        sys.stderr.write(f"penstock: only {which} are shown: {error}\n")
    return merged(stored or [], live or []), live is not None and stored is not None


async def _live_processes(settings: Settings) -> list[SeenProcess]:
    url = live_url(settings)
    if not is_there(url):
        return []
    store = await open_live_store(url, timeout_s=settings.live.timeout)
    try:
        return await read_live_processes(ProcessCache(store))
    finally:
        await store.close()


def _has_failed(seen: SeenProcess) -> bool:
    return seen.gone or seen.status.state == "failed"


class _Shown:
    """What there is to show: each process once."""

    def __init__(
        self,
        found: list[CollectorStatus],
        gone: list[str],
        slots: list[SlotStats],
        seen: list[SeenProcess],
        log: EventLog,
    ) -> None:
        self._found, self._gone, self._slots = found, gone, slots
        self._log_id = (find_log_id(log.folder) if log.folder is not None else None) or 0
        own = {slot_status_id(self._log_id, each.slot) for each in found}
        self.others = [each for each in seen if each.id not in own]
        """Those without a status file in this folder."""

    @property
    def empty(self) -> bool:
        return not (self._found or self._slots or self.others)

    def say_all(self) -> None:
        """Print a JSON line for each process."""
        for each in self._found:
            say({"gone": each.slot in self._gone, "status": each})
        slots = {slot_status_id(self._log_id, each.slot): slot_facts(each) for each in self._slots}
        for seen in self.others:
            say({"gone": seen.gone, "process": seen.status, **slots.pop(seen.id, {})})
        for facts in slots.values():
            say(facts)

    def draw(self) -> None:
        console = Console()
        supervisors = [each for each in self.others if each.status.children and not each.gone]
        blocks = len(self._found) + len(self._slots) + bool(self.others) + len(supervisors)
        # Two lines are left for the shell, one above the first block and one below the last.
        share = max(_LEAST_LINES, (console.size.height - 2 - (blocks - 1)) // blocks)
        viewport = Viewport(console.width, share if console.is_terminal else None)
        drawn: list[RenderableType] = []
        for each in self._found:
            state = GONE if each.slot in self._gone else ""
            drawn += [Text(), draw_collector(each, viewport, state=state)]
        if self.others:
            drawn += [Text(), draw_fleet(self.others, viewport)]
        for supervisor in supervisors:
            drawn += [Text(), draw_supervised(supervisor, viewport)]
        for slot in self._slots:
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


def _without_status(log: EventLog, known: set[str]) -> list[SlotStats]:
    """Return the slots of processes that write no status file: workers."""
    if log.folder is None or not (log.folder / "log").is_dir():
        return []
    with closing(log.reader()) as reader:
        return [slot for slot in reader.stats() if slot.slot not in known and slot.streams]


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
