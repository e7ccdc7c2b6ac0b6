"""``penstock status``: shows the processes of a fleet, their records and problems."""

import asyncio
import os
import shlex
import sys
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from penstock.cli.collector_view import GONE, draw_collector
from penstock.cli.context import read_settings
from penstock.cli.fitting import Viewport, wrapped
from penstock.cli.fleet_view import draw_fleet
from penstock.cli.options import DataOption, JsonOption, SecondsOption, note, say
from penstock.cli.running import View, in_foreground, run_shown
from penstock.cli.slot_view import draw_slot, slot_facts
from penstock.cli.supervised_view import draw_supervised
from penstock.clock import SystemClock, wait_for
from penstock.collect.status import FOLDER, CollectorStatus, read_all, with_books_stopped
from penstock.config import Settings
from penstock.errors import MissingExtra, NoSupervisor, StorageError
from penstock.publish.endpoints import find_log_id
from penstock.runtime.status import (
    SeenProcess,
    merged,
    read_configured_live,
    read_processes,
    slot_status_id,
)
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.runtime.stores import configured_log, open_state
from penstock.storage.log import EventLog, SlotStats
from penstock.supervisor.control import send_to_supervisor

_FRESH_MS = 5_000
"""A status older than this was written by a process that has ended or hangs."""
_EVERY_S = 1.0
_LEAST_LINES = 8
"""Minimum lines of each process on a terminal."""


def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and look every second.")] = False,
    seconds: SecondsOption = None,
    alive: Annotated[
        bool,
        typer.Option("--alive", help="Only check that the supervisor answers; read no store."),
    ] = False,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show all processes that share a state store: collectors, workers, servers, the bus.

    Collectors and fetchers of the data folder are shown in full, and what workers recorded there;
    processes of other folders and machines in a row each; a supervisor with its processes, how
    often each was restarted, and why. Rows with problems come first. A terminal
    shows as many rows as fit and the number of the rest; other outputs show all. With --watch a
    terminal is redrawn every second; elsewhere everything is printed again. Exits 1 if a
    process should be running and is not, if one failed or was given up, if a store does not
    answer, or if the folder does not exist. With --alive it exits 1 if the supervisor of the
    folder does not answer, whatever its processes and stores do: for liveness probes.

    Example: penstock status --data-dir ~/market-data --watch
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    folder = Path(settings.collect.data_dir)
    if alive:
        _check_alive(folder, as_json=as_json)
        return
    if not folder.is_dir() and not settings.state.url:
        sys.stderr.write(_no_folder(folder) + "\n")
        raise typer.Exit(1)
    if watch:
        asyncio.run(_watch(settings, seconds, as_json=as_json))
        return
    shown = asyncio.run(_look(settings))
    shown.show(as_json=as_json)
    raise typer.Exit(1 if shown.bad else 0)


def _check_alive(folder: Path, *, as_json: bool) -> None:
    problem = ""
    try:
        asyncio.run(send_to_supervisor(folder, "show", []))
    except NoSupervisor as error:
        problem = str(error)
    if as_json:
        say({"alive": not problem, "problem": problem})
    elif problem:
        note(f"penstock: {problem}")
    if problem:
        raise typer.Exit(1)


async def _look(settings: Settings) -> "_Shown":
    seen, problems = await _processes(settings)
    return await asyncio.to_thread(_shown, settings, seen, problems)


def _shown(settings: Settings, seen: list[SeenProcess], problems: list[str]) -> "_Shown":
    folder = Path(settings.collect.data_dir)
    found = read_all(folder)
    gone = [each.slot for each in found if _is_gone(each)]
    found = [_as_it_is(each, is_gone=each.slot in gone) for each in found]
    log = configured_log(settings)
    slots = _without_status(log, {each.slot for each in found})
    return _Shown(folder, found, gone, slots, seen, log, problems)


async def _watch(settings: Settings, seconds: float | None, *, as_json: bool) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    now = await _look(settings)
    draws = in_foreground() and not as_json

    async def follow() -> None:
        nonlocal now
        while True:
            if not draws:
                now.show(as_json=as_json)
                sys.stdout.flush()
            await wait_for(stop, clock, _EVERY_S)
            if stop.is_set():
                return
            now = await _look(settings)

    if draws:
        view = View(lambda viewport: now.drawn(viewport.width, viewport.height), lambda: "")
        await run_shown(follow(), stop, seconds, clock, view)
        return
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    await follow()
    deadline.cancel()


async def _processes(settings: Settings) -> tuple[list[SeenProcess], list[str]]:
    """All processes in the state store and in that of live values, and what cannot be read."""
    found: list[list[SeenProcess]] = []
    problems: list[str] = []
    try:
        async with open_state(settings, SystemClock(), read_only=True) as store:
            found.append(await read_processes(store))
    except StorageError as error:
        shared = (
            "with entries in the store of live values" if settings.live.url else "of this folder"
        )
        problems.append(f"penstock: only processes {shared} are shown: {error}")
    try:
        found.append(await read_configured_live(settings, settings.live.timeout))
    except (StorageError, MissingExtra) as error:
        problems.append(f"penstock: entries in the store of live values are not shown: {error}")
    return merged(*found), problems


def _has_failed(seen: SeenProcess) -> bool:
    given_up = any(child.state == "given up" for child in seen.status.children)
    return seen.gone or given_up or seen.status.state == "failed"


class _Shown:
    """What there is to show: each process once."""

    def __init__(
        self,
        folder: Path,
        found: list[CollectorStatus],
        gone: list[str],
        slots: list[SlotStats],
        seen: list[SeenProcess],
        log: EventLog,
        problems: list[str],
    ) -> None:
        self._folder, self._found, self._gone, self._slots = folder, found, gone, slots
        self._problems = problems
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

    @property
    def bad(self) -> bool:
        """Whether something should be otherwise."""
        failed = any(each.state == "failed" for each in self._found)
        return bool(self._problems or self._gone or failed or any(map(_has_failed, self.others)))

    def show(self, *, as_json: bool) -> None:
        """Print everything once."""
        for problem in self._problems:
            note(problem)
        if as_json:
            self.say_all()
        elif self.empty:
            typer.echo(self._nothing)
        else:
            console = Console()
            # Two lines are left for the shell.
            height = console.size.height - 2 if console.is_terminal else None
            console.print(self._blocks(console.width, height))

    @property
    def _nothing(self) -> str:
        return f"Nothing was ever collected in {self._folder}. Begin with: penstock collect"

    def drawn(self, width: int, height: int | None) -> RenderableType:
        """The view for a terminal of this size, with what cannot be read on top."""
        lines = [line for each in self._problems for line in wrapped(each, width, "red")]
        rest = None if height is None else height - len(lines)
        return Group(*lines, Text(self._nothing) if self.empty else self._blocks(width, rest))

    def _blocks(self, width: int, height: int | None) -> RenderableType:
        supervisors = [each for each in self.others if each.status.children and not each.gone]
        blocks = len(self._found) + len(self._slots) + bool(self.others) + len(supervisors)
        share = 0 if height is None else max(_LEAST_LINES, (height - (blocks - 1)) // blocks)
        viewport = Viewport(width, None if height is None else share)
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
        return Group(*drawn[1:])


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
