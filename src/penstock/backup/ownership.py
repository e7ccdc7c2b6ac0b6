"""Whose backups a folder has: those of one log, named by a small file in it.

Two logs in one folder would share its retention: of each day, the backups of only one would stay.
So a folder, or a folder on a remote, that has those of another log is refused. One without the
file, that of an older version, belongs to the first log that uses it.
"""

from pathlib import Path

from penstock.backup.remote_folder import Listing, RemoteFolder
from penstock.errors import ConfigError, RemoteError
from penstock.files import make_folder, replace_file

OWNER = "log.id"
"""The file with the log's id in hexadecimal digits."""
_MOST = 64


def claim_folder(folder: Path, log_id: int) -> None:
    """Check that a folder has backups of this log, or note that it has from now on.

    Raises:
        ConfigError: it has those of another log.
        OSError: it cannot be read or written.
    """
    found, own = _owner(folder), f"{log_id:x}"
    if found is None:
        replace_file(folder / OWNER, f"{own}\n".encode())
    elif found != own:
        raise ConfigError(
            "backup.folder",
            problem=f"{folder} has the backups of another log ({found}, this is {own}). Give each"
            f" data folder a folder of backups of its own. If that log is gone, and its backups may"
            f" be deleted in time, delete {folder / OWNER}.",
            origin="settings",
        )


async def claim_remote(
    folder: Path, remote: RemoteFolder, listing: Listing, staging: Path | None
) -> None:
    """Check that a remote folder has backups of the same log, or note that it has from now on.

    Without ``staging`` nothing is written. A folder that was lost takes over the remote's owner.

    Raises:
        RemoteError: it has those of another log, or cannot be read or written.
        OSError: the folder cannot be read or written.
    """
    here, there = _owner(folder), None
    if OWNER in listing.files:
        there = _text(await remote.read(OWNER, _MOST))
    if here is not None and there is not None and here != there:
        raise RemoteError(
            remote.remote,
            f"it has the backups of another log ({there}, that of {folder} is {here})",
            "Give each data folder a remote folder of its own. Nothing was copied or deleted."
            f" If that log is gone, and its backups may be deleted in time, delete {OWNER} there.",
        )
    if staging is None or here == there:
        return
    if here is None:
        make_folder(folder)
        replace_file(folder / OWNER, f"{there}\n".encode())
    else:
        (staging / OWNER).write_text(f"{here}\n")
        await remote.upload(staging / OWNER, OWNER)


def _owner(folder: Path) -> str | None:
    try:
        return _text((folder / OWNER).read_bytes()[:_MOST])
    except FileNotFoundError:
        return None


def _text(data: bytes) -> str | None:
    return data.decode("ascii", "replace").strip() or None
