"""Settings of operating penstock: backups and disk space."""

from typing import Literal

from msgspec import Struct

from penstock.config.ranges import Count, Seconds


class Backup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Backups of the data folder (``penstock backup``, and the keeper)."""

    folder: str = ""
    """Where backups are stored. Empty: none are made. Another disk than that of the data is
    better."""
    every: Seconds = 10_800.0
    """Seconds between two backups that the keeper makes."""
    keep: Count = 7
    """How many backups stay: the latest of each day, and at most so many."""
    format: Literal["gz", "zst"] = "gz"
    """How archives are compressed: ``gz``, or ``zst``, which takes less time and needs the extra
    ``lake``."""
    rehearse: bool = True
    """Whether each backup is restored into a temporary folder and checked. That takes as much space
    as the data."""
    checkpoint_timeout: Seconds = 60.0
    """Seconds within which the processes that write the log must have copied their slots."""
    remote: str = ""
    """A remote of rclone and a folder on it, such as ``s3:bucket/penstock``, or a folder of this
    machine: the backups are copied there, and back if they are lost here. Empty: they are not. Its
    secrets belong into rclone's own configuration or variables (docs/backup-remote.md)."""
    rclone: str = "rclone"
    """The program that copies to the remote."""
    remote_timeout: Seconds = 300.0
    """Seconds without progress after which rclone is killed."""
