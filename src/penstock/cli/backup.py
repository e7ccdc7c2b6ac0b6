"""``penstock backup``: backups of the data folder."""

import typer

from penstock.cli.backup_sync import sync

backup = typer.Typer(help="Make, check, restore and copy backups.", no_args_is_help=True)
backup.command()(sync)
