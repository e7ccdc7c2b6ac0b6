"""Settings of operation: what runs and how it is supervised, backups, disk space."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.ranges import Count, Seconds, Whole


class UpExchange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``penstock up`` runs for one exchange, where it differs from ``[up]``.

    NAME is the exchange's name; it need not be in ``up.exchanges`` too.
    """

    symbols: tuple[str, ...] = ()
    """Markets; empty: those of ``up.symbols``."""
    channels: tuple[str, ...] = ()
    """Channels to stream; empty: those of ``collect.channels``."""
    collect: bool | None = None
    """Whether to run ``penstock collect``; default: as in ``[up]``."""
    fetch: bool | None = None
    """Whether to run ``penstock fetch``; default: as in ``[up]``."""
    tickers: bool | None = None
    """Whether to run ``penstock tickers``; default: as in ``[up]``."""
    shards: Annotated[int, Meta(ge=1, le=100)] = 1
    """Collectors among which the markets are divided, by a hash of their names."""


class Up(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The processes that ``penstock up`` runs and restarts."""

    exchanges: tuple[str, ...] = ()
    """Exchanges to collect from, besides those that have a table ``[up.per_exchange.NAME]``."""
    symbols: tuple[str, ...] = ()
    """Markets to collect on each exchange. Empty: those in the variable ``SYMBOLS``."""
    per_exchange: dict[str, UpExchange] = {}
    """What differs for one exchange: tables ``[up.per_exchange.NAME]``, below."""
    collect: bool = True
    """Whether to run ``penstock collect`` for each exchange."""
    fetch: bool = True
    """Whether to run ``penstock fetch`` for each exchange."""
    tickers: bool = True
    """Whether to run ``penstock tickers`` for each exchange, with its markets."""
    shared_tickers: Whole = 0
    """Ticker daemons that divide the list of ``penstock symbols`` among all machines."""
    work: Whole = 1
    """Workers."""
    keep: bool = True
    """Whether to run ``penstock keep``."""
    serve: bool = True
    """Whether to run ``penstock serve``."""
    bus: bool = True
    """Whether to run ``penstock bus``."""
    first_delay: Seconds = 0.5
    """Seconds before a process that ended is started again; doubled after each failure."""
    longest_delay: Seconds = 60.0
    """Maximum of that delay in seconds."""
    restart_limit: Count = 10
    """Failures in a row after which a process is given up, until ``penstock restart``."""
    stable_after: Seconds = 60.0
    """Seconds that a process has to run for its earlier failures to be forgotten."""
    stop_timeout: Seconds = 60.0
    """Seconds that a process may take to stop before it is killed."""
    start_timeout: Seconds = 180.0
    """Seconds that a process may take to write its first status before it is restarted."""
    hung_after: Seconds = 60.0
    """Seconds without a new status after which a process counts as hung and is restarted."""
    no_data_after: Seconds = 600.0
    """Seconds without data after which a collector, fetcher or ticker daemon is restarted, if it
    is not the exchange that is silent (docs/operations.md). Doubled after each such restart."""


class Disk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens when a disk is almost full."""

    min_free: tuple[str, ...] = ("5%", "2GB")
    """Free space below which jobs stop, so that live collection can use the rest: sizes such as
    ``500MB`` or shares of the disk, of which the smallest applies. ``0``: jobs never stop."""


class Logs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Log lines that each process keeps in the data folder, for ``penstock logs`` and the console.

    They are kept besides those on stderr (``[logging]``).
    """

    keep_mb: Annotated[float, Meta(ge=0, le=10_000)] = 10.0
    """Megabytes that one process keeps at most; the oldest lines are removed. 0: none are kept."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Nothing below this level is kept."""
    keep_days: Count = 14
    """Days after its last line for which ``penstock gc`` leaves the file of a process."""


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
