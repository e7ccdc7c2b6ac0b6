"""Settings of what is stored: log, lake, state and latest values."""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.ranges import Count, Seconds, Whole
from penstock.config.secret import Sensitive


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where records are stored."""

    log_url: str = "rocksdb:"
    """URL of the log: ``rocksdb:`` is in the data folder, ``rocksdb:FOLDER`` in another folder of
    this machine; ``memory:`` lasts as long as the process."""
    log_max_bytes: Whole = 0
    """Maximum size of the log on disk; 0: no limit. Above it, the keeper has sealed records deleted
    before they are ``keep.hot`` old, those of the last ten minutes excepted."""
    lake_url: Sensitive = ""
    """The lake: a folder, or a URL of an object store such as ``s3://bucket/lake``. Empty: the
    folder ``lake`` in the data folder."""
    lake_options: dict[str, Sensitive] = {}
    """Options of the object store, such as ``aws_endpoint_url`` and ``aws_region``. Variables such
    as ``AWS_ACCESS_KEY_ID`` apply too. Credentials are not read from the settings file."""
    lake_single_writer: bool = False
    """Whether only one process ever writes to the lake. Required for object stores without
    conditional put, which lose commits of several writers."""


class Keep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How records move from the log to the lake, and how long they are kept (``penstock keep``)."""

    seal_every: Seconds = 300.0
    """Seconds between two seals. Each writes a file per exchange and day for every channel."""
    settle: Annotated[float, Meta(ge=2)] = 30.0
    """Seconds after which a record may be sealed: by then it survives a power failure."""
    seal_rows: Count = 200_000
    """Maximum records in one seal; more are sealed in several. They are held in memory."""
    hot: Seconds = 172_800.0
    """Seconds for which the log keeps records that are sealed. Candles and gaps stay in the log."""
    compact_every: Seconds = 3600.0
    """Seconds between two checks for partitions to compact, rows to delete and files to remove."""
    retention: dict[str, str] = {}
    """How long the lake keeps a channel, by age or size: ``book_deltas=30d,tickers=20GB``. Without
    it, everything is kept."""
    vacuum_hours: Count = 168
    """Hours for which files stay that the latest version of a table no longer uses: readers that
    opened an older version may still read them."""


class State(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State shared by all processes: connectors, jobs and budgets."""

    url: Sensitive = ""
    """Where it is stored: ``sqlite:FILE``, ``postgresql://…`` or ``mongodb://…``. Empty: the file
    ``state.db`` in the data folder."""
    timeout: Seconds = 10.0
    """Seconds the store may take before it counts as unreachable."""


class Live(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The latest ticks, and the processes that run."""

    url: Sensitive = ""
    """Where they are stored: ``sqlite:FILE`` for one machine, ``redis://…`` or ``rediss://…`` for
    several. Empty: the file ``live.db`` in the data folder."""
    timeout: Seconds = 2.0
    """Seconds the store may take before it counts as unreachable."""
    tick_ttl: Seconds = 300.0
    """Seconds after which a tick is not served any more."""
    stale_after: Seconds = 60.0
    """Seconds after which a tick is marked as stale."""
