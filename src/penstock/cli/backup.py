"""``penstock backup``: backups of the data folder."""

import asyncio
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.backup.facts import BackupMade
from penstock.backup.folder import Rehearsal, ahead_of, find_backup, list_backups, read_rehearsal
from penstock.backup.manifest import Manifest
from penstock.backup.priority import give_way
from penstock.backup.reading import check_archive
from penstock.backup.restore import gets_new_id
from penstock.backup.restore import restore as restore_archive
from penstock.backup.run import Backed, backup_folder, make_backup
from penstock.cli.backup_sync import sync
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, note, say
from penstock.cli.running import View, show_until, unless_drawn
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.errors import BadBackup
from penstock.telemetry import Fact, log_facts
from penstock.telemetry.printable import printable

backup = typer.Typer(help="Make, check, restore and copy backups.", no_args_is_help=True)
backup.command()(sync)

FolderOption = Annotated[
    str | None,
    typer.Option("--folder", help="Folder of backups.", show_default="backup.folder"),
]
NameArgument = Annotated[
    str, typer.Argument(help="A backup's name or path; 'latest' is the newest.")
]


@backup.command()
def run(
    context: typer.Context,
    folder: FolderOption = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="gz or zst.", show_default="backup.format"),
    ] = None,
    rehearse: Annotated[
        bool | None,
        typer.Option(
            "--rehearse/--no-rehearse",
            help="Restore it into a temporary folder and check the copy.",
            show_default="backup.rehearse",
        ),
    ] = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a backup now, while collectors and keepers run.

    It has the log, the state if that is in SQLite, and the lake if that is in a folder, at one
    consistent point. It runs at low priority. Afterwards the retention is applied. Exit code: 0 if
    all is well, 1 if the rehearsal found something wrong, 2 if no backup could be made.

    Example: penstock backup run --data-dir ~/market-data --folder /mnt/backups
    """
    given = {
        "collect.data_dir": data_dir,
        "backup.folder": folder,
        "backup.format": format_,
        "backup.rehearse": rehearse,
    }
    settings = read_settings(context, given).settings
    give_way()
    complete: list[str] = []
    try:
        made = asyncio.run(_run(settings, complete))
    except asyncio.CancelledError:
        unchecked = "was made, and was not checked by restoring it"
        words = f"{complete[0]} {unchecked}" if complete else "no backup was made"
        note(f"penstock: stopped; {words}.")
        raise typer.Exit(1) from None
    found = made.rehearsal
    if as_json:
        say(
            {
                "name": made.written.path.name,
                "folder": str(made.written.path.parent),
                "size_bytes": made.written.size,
                "content_bytes": made.written.content,
                "files": len(made.manifest.files),
                "sha256": made.written.digest,
                "seconds": made.seconds,
                "parts": made.manifest.parts,
                "verified": None if found is None else found.verified,
                "findings": [] if found is None else found.findings,
                "not_checked": [] if found is None else found.not_checked,
                "deleted": made.deleted,
            }
        )
    else:
        _print_made(made)
    raise typer.Exit(0 if found is None or found.verified else 1)


async def _run(settings: Settings, complete: list[str]) -> Backed:
    """Make a backup; its name is added to ``complete`` as soon as it is on the disk."""

    def listen(fact: Fact) -> None:
        if isinstance(fact, BackupMade):
            complete.append(fact.name)
        log(fact)

    log = unless_drawn(log_facts)
    clock, task = SystemClock(), asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    over, course = asyncio.Event(), _Course(clock)
    view = View(lambda _: Text(course.describe()), course.describe)
    shown = asyncio.create_task(show_until(over, clock, view))
    try:
        return await make_backup(settings, clock, listen, course.archived)
    finally:
        over.set()
        await shown


class _Course:
    """How far a backup has come."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock, self._began_ns = clock, 0
        self._done = self._total = 0

    def archived(self, done: int, total: int) -> None:
        self._began_ns = self._began_ns or self._clock.monotonic_ns()
        self._done, self._total = done, total

    def describe(self) -> str:
        if not self._total:
            return "copying the log, the state and the lake"
        if self._done == self._total:
            return f"{self._total / 1e6:,.1f} MB are archived; checking"
        seconds = (self._clock.monotonic_ns() - self._began_ns) / 1e9
        rate = self._done / max(seconds, 0.001)
        left = (self._total - self._done) / max(rate, 1)
        return (
            f"archived {self._done / 1e6:,.1f} of {self._total / 1e6:,.1f} MB"
            f" at {rate / 1e6:,.1f} MB/s; {left:,.0f} s left"
        )


def _print_made(made: Backed) -> None:
    written = made.written
    typer.echo(
        f"{written.path}: {written.size / 1e6:,.1f} MB, {len(made.manifest.files):,} files of"
        f" {written.content / 1e6:,.1f} MB, in {made.seconds:,.1f} s"
    )
    for name, part in made.manifest.parts.items():
        if not part.included:
            note(f"penstock: not in the backup: {name}. {part.note}")
    if made.rehearsal is not None:
        _print_rehearsal(made.rehearsal)
    for name in made.deleted:
        typer.echo(f"{name}: deleted, as backup.keep orders")


def _print_rehearsal(found: Rehearsal) -> None:
    for finding in found.findings:
        typer.echo(printable(finding))
    compared = ", ".join(f"{count:,} {what}" for what, count in found.compared.items())
    result = "nothing is wrong" if found.verified else "it is not usable as it is"
    typer.echo(
        f"Restored and compared {found.files:,} files, {compared or 'no records'}: {result}."
    )


@backup.command("list")
def list_(context: typer.Context, folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """List the backups of a folder, and whether each was restored and checked.

    Example: penstock backup list --folder /mnt/backups
    """
    path = backup_folder(read_settings(context, {"backup.folder": folder}).settings)
    found = list_backups(path)
    if as_json:
        for each in found:
            rehearsal = read_rehearsal(path / each.name)
            say(
                {
                    "name": each.name,
                    "at": each.at.isoformat(),
                    "size_bytes": each.size,
                    "verified": each.verified,
                    "rehearsal": rehearsal,
                }
            )
        return
    if not found:
        note(f"penstock: there are no backups in {path}. Make one: penstock backup run")
        return
    table = Table("backup", "MB", "verified", box=None)
    for each in found:
        table.add_row(each.name, f"{each.size / 1e6:,.1f}", "yes" if each.verified else "no")
    Console(soft_wrap=True).print(table)


@backup.command()
def verify(
    context: typer.Context,
    name: NameArgument = "latest",
    folder: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read a whole backup, and compare it with its digest and its manifest. Nothing is written.

    Exit code: 0 if it is as it was written, 1 if not.

    Example: penstock backup verify latest --folder /mnt/backups
    """
    path = _find(context, name, folder)
    try:
        found = check_archive(path)
    except BadBackup as error:
        if as_json:
            say({"name": path.name, "intact": False, "problem": error.problem})
        else:
            typer.echo(str(error))
        raise typer.Exit(1) from error
    if as_json:
        say({"name": path.name, "intact": True, **_facts(found)})
    else:
        typer.echo(f"{path}: {len(found.files):,} files, {found.size / 1e6:,.1f} MB: intact.")


@backup.command()
def restore(
    context: typer.Context,
    name: NameArgument = "latest",
    to: Annotated[
        Path, typer.Option(help="Folder that is new or empty.", show_default=False)
    ] = ...,  # type: ignore[assignment]
    folder: FolderOption = None,
    as_json: JsonOption = False,
) -> None:
    """Restore a backup as a data folder.

    The backup is checked first, and written to a new folder that takes its place once it is
    complete. A folder that is not empty is refused.

    Example: penstock backup restore latest --to ~/restored --folder /mnt/backups
    """
    found = restore_archive(_find(context, name, folder), to)
    if as_json:
        say({"folder": str(to.resolve()), **_facts(found)})
        return
    typer.echo(f"{to.resolve()}: {len(found.files):,} files, {found.size / 1e6:,.1f} MB.")
    for part, each in found.parts.items():
        if not each.included:
            note(f"penstock: not in the backup: {part}. {each.note}")
    if gets_new_id(found):
        note(
            "penstock: the lake may be newer than this backup, so the restored log has a new id."
            " Give it a folder of backups of its own: backup.folder."
        )
    typer.echo(f"Check it with: penstock verify --data-dir {to}")


def _find(context: typer.Context, name: str, folder: str | None) -> Path:
    settings = read_settings(context, {"backup.folder": folder}).settings
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    if "/" in name:
        return find_backup(Path(), name, now)
    found = find_backup(backup_folder(settings), name, now)
    if name == "latest":
        for each in ahead_of(backup_folder(settings), now):
            taken = (
                "is dated in the future, and there is no other"
                if each == found.name
                else ("is dated in the future and was left out")
            )
            note(f"penstock: {each} {taken}: a clock was wrong, or is now. To use it, name it.")
    return found


def _facts(found: Manifest) -> dict[str, object]:
    facts = asdict(found)
    facts["size_bytes"], facts["files"] = found.size, len(found.files)
    return facts
