"""``penstock backup sync``: copies backups to their remote, and back if they are lost here."""

from typing import Annotated

import msgspec
import typer

from penstock.app.remote import open_sync, rclone_secrets
from penstock.backup.remote import SyncReport
from penstock.cli.context import Sources, read_settings
from penstock.cli.options import JsonOption, say
from penstock.cli.painter import write
from penstock.cli.running import run_process
from penstock.clock import SystemClock
from penstock.telemetry import log_facts


def sync(
    context: typer.Context,
    remote: Annotated[
        str | None,
        typer.Option(help="A remote of rclone and a folder on it.", show_default="backup.remote"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy backups to the remote, fetch those that are missing here, apply the retention to both.

    Only whole backups are copied, and each copy is compared with its digest. What the retention
    does not keep is deleted on both sides, never the last verified copy. Exit code: 0 if all is
    well, 1 if something could not be copied or is damaged, 2 if nothing could be done.

    Example: penstock backup sync --remote s3:bucket/penstock --dry-run
    """
    settings = read_settings(context, {"backup.remote": remote}).settings
    sources: Sources = context.obj
    secrets = rclone_secrets(sources.environment)
    syncing = open_sync(settings, SystemClock(), log_facts, secrets)
    report = run_process(syncing.run(dry_run=dry_run))
    if as_json:
        say({**msgspec.structs.asdict(report), "dry_run": dry_run})
    else:
        _print(report, dry_run=dry_run)
    if report.problems:
        raise typer.Exit(1)


def _print(report: SyncReport, *, dry_run: bool) -> None:
    for words, names in (
        ("to the remote", report.pushed),
        ("from the remote", report.pulled),
        ("deleted here", report.deleted),
        ("deleted on the remote", report.deleted_remote),
    ):
        for name in names:
            typer.echo(f"{name}  {'would be ' if dry_run else ''}{words}")
    typer.echo(
        f"{report.remote}: {len(report.verified):,} backups verified,"
        f" {report.size_bytes / 1e6:,.1f} MB {'to copy' if dry_run else 'copied'}"
    )
    write("".join(f"penstock: {problem}\n" for problem in report.problems))
