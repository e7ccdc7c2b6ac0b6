"""The status of a collector or fetcher, in a file beside its data.

The file is replaced as a whole, so that a reader never sees a part of it. It also stores which ids
were seen, so that a restarted collector can determine what its predecessor missed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from penstock.coverage.stored import GapCount, IdsStatus
from penstock.errors import NotOurRecord, StorageError
from penstock.files import make_folder, overwrite_file, sync_folder

FOLDER = "status"
_BLOCK = 16 * 1024
_own: "dict[Path, CollectorStatus]" = {}


State = Literal["starting", "running", "stopped", "failed"]
"""``failed``: it ended with an error, which is in ``trouble``."""


class StreamStatus(Struct, frozen=True, kw_only=True):
    """One stream."""

    channel: str
    symbol: str
    records: int
    """Recorded since the start."""
    per_second: float
    last_id: int | None = None
    last_price: str | None = None


class BookStatus(Struct, frozen=True, kw_only=True):
    """One book."""

    symbol: str
    state: Literal["syncing", "synced", "stale", "stopped"]
    """``stopped``: it is no longer updated, since its collector ended."""
    reason: str
    update_id: int
    resyncs: int
    bid: str | None = None
    ask: str | None = None
    known_bid: str | None = None
    """The last bid down to which the book is known; None if it is known completely."""
    known_ask: str | None = None
    audits: int = 0
    """How often it was compared with the exchange's book."""
    drift: int | None = None
    """Levels that differed at the last audit."""
    audited_at_ms: int | None = None
    was_synced: bool = False
    """For a stopped book: whether it was synced until then."""


class LimitStatus(Struct, frozen=True, kw_only=True):
    """One limit of the exchange, and its usage by all processes."""

    unit: Literal["weight", "request"]
    """Whether a request counts by its cost, or as one."""
    category: str = ""
    """The requests it counts; empty for all, ``pair/*`` for those of each pair separately."""
    kind: Literal["window", "bucket"]
    used: int
    """In the current window; of a bucket, what is not refilled yet."""
    amount: int
    """The most that can be used in one window; of a bucket, its capacity."""
    rate: int
    """The amount refilled per period: of a window at once, of a bucket gradually."""
    period_ms: int


class ConnectionStatus(Struct, frozen=True, kw_only=True):
    """One connection."""

    number: int
    state: str
    is_primary: bool = field(name="leads")
    up_s: int | None = None
    """Seconds since it was opened; None if it is not open."""
    heard_s: float | None = None
    """Seconds since the latest frame."""
    asked: int = 0
    """Streams subscribed to."""
    pending: int = 0
    """Streams of these that the exchange has not acknowledged yet."""


class ShardStatus(Struct, frozen=True, kw_only=True):
    """Streams that share connections, and those connections."""

    state: str
    members: list[ConnectionStatus] = field(name="legs")
    reconnects: dict[str, int] = {}
    rotations: dict[str, int] = {}
    """Completed rotations, by reason."""
    given_up: dict[str, int] = {}
    """Failed rotations, by reason."""
    waiting: int = 0
    """Events received and not recorded yet."""
    dropped: int = 0
    """Duplicates of events that another connection had delivered."""


class StreamCount(Struct, frozen=True, kw_only=True):
    """A count for one stream."""

    channel: str
    symbol: str
    count: int


class FetchStatus(Struct, frozen=True, kw_only=True):
    """One loop of a fetcher."""

    what: str
    symbol: str
    """Empty for the whole exchange."""
    fetches: int
    records: int
    errors: int
    errors_in_a_row: int
    last_ms: int | None
    """When it last succeeded."""
    next_ms: int
    reason: str = ""
    """Why it currently fails."""


class CollectorStatus(Struct, frozen=True, kw_only=True):
    """The status of a collector or fetcher."""

    exchange: str
    slot: str
    shard: str = ""
    """Which of the exchange's markets it collects, such as ``0/3``; empty for all."""
    pid: int
    started_ms: int
    at_ms: int
    state: State
    connection: str = ""
    streams: list[StreamStatus] = []
    books: list[BookStatus] = []
    ids: list[IdsStatus] = []
    reconnects: dict[str, int] = {}
    malformed: dict[str, int] = {}
    quarantine: list[str] = []
    refused: list[str] = []
    refusals: list[StreamCount] = []
    gaps: list[GapCount] = []
    """Gaps in ids since the start; without consecutive ids, possible gaps."""
    stalled: list[str] = field(name="mute", default_factory=list)
    """Streams that are silent though their markets change."""
    fetches: list[FetchStatus] = []
    """The loops of a fetcher; a collector has none."""
    limits: list[LimitStatus] = []
    """The exchange's rate limits, in its order."""
    bus_published: int = 0
    bus_dropped: int = 0
    """Messages that the bus dropped; the log has them."""
    trouble: str = ""
    """The current problems, as text."""
    troubles: dict[str, str] = {}
    """The same by kind: starting, asking, log, last_look, failed."""
    unrecorded: int = 0
    """Events that wait because the log cannot be written, besides those in ``shards``."""
    memory_bytes: int | None = None
    """Resident memory of the process; None where the system does not report it."""
    shards: list[ShardStatus] = []
    numbered: int | None = None
    """Record numbers the slot had assigned at the log's last sync. None: an older version."""
    synced_ms: int | None = None
    """Records from before this time survive a power cut, including all seen ids in ``ids``."""
    lag_ms: int | None = None
    """From the latest trade's time, by the exchange's clock, to its receipt. None: not known."""
    pending: list[str] = []
    """Streams that were requested and not acknowledged yet, by the exchange's names."""


def memory_bytes() -> int | None:
    """The memory that this process holds; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def with_books_stopped(status: CollectorStatus) -> CollectorStatus:
    """The status of a process that ended: its books are no longer updated."""
    books = [
        replace(book, state="stopped", was_synced=book.state == "synced")
        if book.state != "stopped"
        else book
        for book in status.books
    ]
    return replace(status, books=books)


def write_status(folder: Path, status: CollectorStatus) -> None:
    """Replace the status of a slot.

    The file it replaces is kept and overwritten the next time: its blocks are already allocated, so
    that a status can be written while the disk is full.

    Raises:
        OSError: it cannot be written; the old one is unchanged.
    """
    target = folder / FOLDER / f"{status.slot}.json"
    _own[target] = status
    make_folder(target.parent)
    fresh, old = target.with_suffix(".new"), target.with_suffix(".old")
    encoded = msgspec.json.encode(status)
    # Padded with blanks, so that a slightly longer one needs no more blocks.
    encoded += b" " * (-len(encoded) % _BLOCK)
    overwrite_file(fresh, encoded)
    old.unlink(missing_ok=True)
    with suppress(OSError):  # there is none yet, or no hard links are supported
        old.hardlink_to(target)
    fresh.replace(target)
    # Before the replaced file is overwritten: a power cut must not restore its name.
    sync_folder(target.parent)
    with suppress(FileNotFoundError):
        old.replace(fresh)


def own_statuses(folder: Path) -> list[CollectorStatus]:
    """The last statuses of this process, whether or not they could be written."""
    return [status for target, status in _own.items() if target.parent.parent == folder]


def read_status(folder: Path, slot: str) -> CollectorStatus | None:
    """The status of a slot; None if there is none.

    Raises:
        NotOurRecord: the file is damaged, or of another version.
        StorageError: it cannot be read.
    """
    file = folder / FOLDER / f"{slot}.json"
    try:
        return msgspec.json.decode(_read_whole(file), type=CollectorStatus)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(str(file), error.strerror or str(error)) from error
    except msgspec.DecodeError as error:
        raise NotOurRecord(f"{file} is not a status: {error}. Remove it.") from error


def _read_whole(file: Path) -> bytes:
    """Read a file that may be replaced meanwhile, and then overwritten under another name.

    Raises:
        OSError: it cannot be read.
    """
    while True:
        with file.open("rb") as opened:
            found = opened.read()
            if os.fstat(opened.fileno()).st_ino == file.stat().st_ino:
                return found


def read_all(folder: Path) -> list[CollectorStatus]:
    """The statuses of all slots, by name.

    Raises:
        NotOurRecord: a file is damaged, or of another version.
        StorageError: one cannot be read.
    """
    slots = sorted(file.stem for file in (folder / FOLDER).glob("*.json"))
    return [status for slot in slots if (status := read_status(folder, slot)) is not None]
