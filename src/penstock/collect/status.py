"""A collector's status: what it says of itself, in a file beside its data.

The file is replaced whole, so that a reader never sees half of it. It also remembers which ids were
seen, so that a collector that is started again knows what its predecessor missed.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from penstock.errors import NotOurRecord, StorageError
from penstock.files import make_folder, overwrite_file, sync_folder

FOLDER = "status"
_BLOCK = 16 * 1024
_own: "dict[Path, CollectorStatus]" = {}


State = Literal["starting", "running", "stopped", "failed"]
"""``failed``: it ended by an error, which ``trouble`` names."""


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
    """``stopped`` once nothing keeps it in step any more: its collector ended."""
    reason: str
    update_id: int
    resyncs: int
    bid: str | None = None
    ask: str | None = None
    known_bid: str | None = None
    """The last bid down to which the book is known; None if it is to its end."""
    known_ask: str | None = None
    audits: int = 0
    """How often it was compared with the exchange's."""
    drift: int | None = None
    """Levels that differed the last time."""
    audited_at_ms: int | None = None
    was_synced: bool = False
    """Of one that is stopped: whether it was synced until then."""


class LimitStatus(Struct, frozen=True, kw_only=True):
    """One limit of the exchange, and how much of it the whole fleet has used."""

    unit: Literal["weight", "request"]
    """Whether a request counts with its cost, or as one."""
    category: str = ""
    """Which requests it counts; empty counts all, and ``pair/*`` those of each pair apart."""
    kind: Literal["window", "bucket"]
    used: int
    """In the present window; or of a bucket, what has not come back yet."""
    amount: int
    """The most that can be used: in one window, or at once where it is a bucket."""
    rate: int
    """So much comes back per period: a window's whole amount, a bucket's little by little."""
    period_ms: int


class IdsStatus(Struct, frozen=True, kw_only=True):
    """The ids of one stream: runs that were seen, and what is missing between and after them."""

    channel: str
    symbol: str
    seen: list[tuple[int, int]]
    missing: list[tuple[int, int]]


class ConnectionStatus(Struct, frozen=True, kw_only=True):
    """One connection."""

    number: int
    state: str
    is_primary: bool = field(name="leads")
    up_s: int | None = None
    """Seconds since it was opened; None if it is not open."""
    heard_s: float | None = None
    """Seconds since the newest frame."""
    asked: int = 0
    """Streams it is to bring."""
    pending: int = 0
    """Streams of those that the exchange has not answered for yet."""


class ShardStatus(Struct, frozen=True, kw_only=True):
    """Streams that are carried together, and the connections that carry them."""

    state: str
    members: list[ConnectionStatus] = field(name="legs")
    reconnects: dict[str, int] = {}
    rotations: dict[str, int] = {}
    """How often one connection took over from another, by reason."""
    given_up: dict[str, int] = {}
    """How often that was tried in vain, by reason."""
    waiting: int = 0
    """Events received and not recorded yet."""
    dropped: int = 0
    """Copies of events that another connection had brought."""


class StreamCount(Struct, frozen=True, kw_only=True):
    """How often something happened to one stream."""

    channel: str
    symbol: str
    count: int


class GapCount(Struct, frozen=True, kw_only=True):
    """How often something of a channel went missing, or may have, for one cause."""

    channel: str
    cause: str
    count: int


class FetchStatus(Struct, frozen=True, kw_only=True):
    """One thing that is fetched again and again."""

    what: str
    symbol: str
    """Empty where it is about the whole exchange."""
    fetches: int
    records: int
    errors: int
    errors_in_a_row: int
    last_ms: int | None
    """When it was last had."""
    next_ms: int
    reason: str = ""
    """Why it cannot be had just now."""


class CollectorStatus(Struct, frozen=True, kw_only=True):
    """Everything a collector, or a fetcher, says of itself."""

    exchange: str
    slot: str
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
    """Holes in ids since the start; where ids do not tell, what may have been missed."""
    stalled: list[str] = field(name="mute", default_factory=list)
    """Streams that are silent though their markets move."""
    fetches: list[FetchStatus] = []
    """What a fetcher fetches; a collector has none."""
    limits: list[LimitStatus] = []
    """The exchange's limits on requests, in the order it tells them."""
    bus_published: int = 0
    bus_dropped: int = 0
    """Messages that the bus did not take; the log has them."""
    trouble: str = ""
    """What keeps it from working, in words."""
    troubles: dict[str, str] = {}
    """The same by kind: starting, asking, log, last_look, failed."""
    unrecorded: int = 0
    """Events that wait because the log cannot be written, besides those in ``shards``."""
    memory_bytes: int | None = None
    """What the process has in memory; None where the system does not tell."""
    shards: list[ShardStatus] = []
    numbered: int | None = None
    """Broadcast numbers the slot had given when the log was last synced. None: an older version."""
    synced_ms: int | None = None
    """What was recorded before then survives a power cut; so does all that ``ids`` calls seen."""
    pending: list[str] = []
    """Streams that were asked for and not answered for yet, by the exchange's names."""


def with_books_stopped(status: CollectorStatus) -> CollectorStatus:
    """The status of a process that ended: nothing keeps its books in step with the exchange."""
    books = [
        replace(book, state="stopped", was_synced=book.state == "synced")
        if book.state != "stopped"
        else book
        for book in status.books
    ]
    return replace(status, books=books)


def write_status(folder: Path, status: CollectorStatus) -> None:
    """Replace the status of a slot.

    The file it replaces is kept and written the next time: its blocks are there already, so that a
    status can be written while the disk is full.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    target = folder / FOLDER / f"{status.slot}.json"
    _own[target] = status
    make_folder(target.parent)
    fresh, old = target.with_suffix(".new"), target.with_suffix(".old")
    encoded = msgspec.json.encode(status)
    # Blanks at the end, so that the next one, if it is a bit longer, needs no more room.
    encoded += b" " * (-len(encoded) % _BLOCK)
    overwrite_file(fresh, encoded)
    old.unlink(missing_ok=True)
    with suppress(OSError):  # there is none yet, or the file system cannot do it
        old.hardlink_to(target)
    fresh.replace(target)
    # Before what was the target is written again: a power cut must not bring its name back.
    sync_folder(target.parent)
    with suppress(FileNotFoundError):
        old.replace(fresh)


def own_statuses(folder: Path) -> list[CollectorStatus]:
    """What this process last said of itself, whether or not that could be written."""
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
    """What a file holds that may be replaced meanwhile, and then written anew under another name.

    Raises:
        OSError: it cannot be read.
    """
    while True:
        with file.open("rb") as opened:
            found = opened.read()
            if os.fstat(opened.fileno()).st_ino == file.stat().st_ino:
                return found


def read_all(folder: Path) -> list[CollectorStatus]:
    """The status of every slot there is, by name.

    Raises:
        NotOurRecord: a file is damaged, or of another version.
        StorageError: one cannot be read.
    """
    slots = sorted(file.stem for file in (folder / FOLDER).glob("*.json"))
    return [status for slot in slots if (status := read_status(folder, slot)) is not None]
