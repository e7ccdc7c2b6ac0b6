"""Repairs a damaged slot: copies what is sound, and reports what is lost.

Sound tables are used as they are. From the others, and from the write-ahead log, everything that is
still readable is copied. The indexes by number and by time are rebuilt from the records. Broadcast
numbers are consecutive in each stream: missing numbers show what was lost, and the records with the
adjacent numbers show where.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from rocksdict import Rdict

from penstock.errors import LogDamaged, NotOurRecord
from penstock.market.events import Event
from penstock.storage.log import keys, received_at_ns
from penstock.storage.log.checks import bad_records, check_files
from penstock.storage.log.damage import (
    MANIFESTS,
    REPAIRED,
    TABLES,
    WALS,
    finish_repair,
)
from penstock.storage.log.key_values import KeyValues
from penstock.storage.log.keys import Stream
from penstock.storage.log.manifest import missing_tables, read_manifest
from penstock.storage.log.reindex import Reindexed, reindex
from penstock.storage.log.rocksdb import held, open_alone, open_for_reading
from penstock.storage.log.salvage import LoneTable, UnreadableKeys, link, repair_wal
from penstock.storage.log.tuning import owners_options
from penstock.storage.log.writer import SlotWriter

WORK = ".repairing"
_HOLE_BYTES = 64 * 1024
_LEAST_RECORD = 64
"""The least bytes of a record, for an upper bound of the number of lost records."""
_PACKED = 8
"""The assumed compression ratio of records."""


class DamagedFile(NamedTuple):
    """A damaged or missing file."""

    name: str
    problem: str


class Lost(NamedTuple):
    """A part of a stream that was lost, between two records that were not.

    None where there is no such record: then its extent is not known.
    """

    stream: Stream
    after: bytes | None
    before: bytes | None
    since_ns: int | None
    """When the record before it was received, and below, the one after it."""
    until_ns: int | None
    records: int | None
    """The number of lost records; None if not known."""


class DamageReport(Struct, kw_only=True):
    """The damage of a slot."""

    slot: str
    files: list[DamagedFile] = []
    records: int = 0
    """The number of records kept."""
    lost: list[Lost] = []

    @property
    def sound(self) -> bool:
        return not self.files


class Repair:
    """The repair of one locked slot. Nothing is changed until ``put_in_place``."""

    def __init__(self, folder: Path, slot: str, held_meanwhile: ExitStack) -> None:
        self._folder, self._slot, self._held = folder, slot, held_meanwhile
        self._path, self._work = folder / slot, folder / (slot + WORK)
        self._kv: KeyValues | None = None
        self.findings = DamageReport(slot=slot)

    def examine(self) -> DamageReport:
        """Read everything, and copy it if something is damaged.

        Raises:
            StorageError: it cannot be copied.
        """
        self.findings.files, self.findings.records = _damage(self._path)
        if not self.findings.sound:
            self._copy()
        return self.findings

    def _copy(self) -> None:
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir()
        for file in self._path.iterdir():
            if file.match(TABLES):
                link(file, self._work / file.name)
            elif file.match(WALS) or file.match(MANIFESTS) or file.name == "CURRENT":
                shutil.copy2(file, self._work / file.name)
        losses = _Losses()
        for wal in self._work.glob(WALS):
            damaged = repair_wal(wal)
            losses.unknown += damaged
            if damaged:
                self._report(wal.name, f"{damaged:,} bytes of its records are damaged")
        sizes = read_manifest(self._path).tables
        for name, problem in missing_tables(self._path).items():
            self._report(name, problem)
            losses.unknown += sizes[int(Path(name).stem)] * _PACKED
        Rdict.repair(str(self._work), owners_options())
        kv = self._kv = open_alone(self._work)
        numbers: dict[int, int] = {}
        for table in sorted(self._work.glob(f"lost/{TABLES}")):
            self._salvage(table, kv, numbers, losses)
        found = reindex(kv, numbers)
        self.findings.records = found.records
        self.findings.lost = _lost(found, losses)
        margin = losses.most_bytes // _LEAST_RECORD + 1
        for stream in (each.stream for each in self.findings.lost if each.before is None):
            found.skip_numbers(kv, stream, margin)  # lost records may have had some
        shutil.rmtree(self._work / "lost", ignore_errors=True)

    def _report(self, name: str, problem: str) -> None:
        files = self.findings.files
        if not any(file.name == name for file in files):
            files.append(DamagedFile(name, problem))

    def _salvage(
        self, table: Path, kv: KeyValues, numbers: dict[int, int], losses: "_Losses"
    ) -> None:
        alone = self._work / "alone"
        try:
            lone = LoneTable(table, alone)
        except Exception as error:  # rocksdict raises no other
            self._report(table.name, f"nothing of it can be read: {_short(error)}")
            losses.unknown += table.stat().st_size * _PACKED
        else:
            _add(lone.kv(), kv, numbers)
            lone.close()
            self._report(table.name, _short(lone.problem) or "RocksDB does not take it")
            losses.holes += lone.holes
        shutil.rmtree(alone)

    def mark(self, events: Sequence[Event]) -> None:
        """Record events that describe what was lost."""
        assert self._kv is not None, "there is nothing to put in its place"
        kv, self._kv = self._kv, None
        writer = SlotWriter(self._slot, lambda: kv)
        writer.append(events, "synced")
        writer.close()

    def put_in_place(self, at: datetime) -> Path:
        """Replace the slot with the repaired copy; return the new path of the damaged one."""
        self._close()
        aside = self._folder / f"{self._slot}.damaged-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        # The copy is locked too, until everything that was lost is reported.
        self._held.enter_context(held(self._folder, self._work.name))
        self._work.rename(self._path.with_name(self._slot + REPAIRED))
        self._path.rename(aside)
        finish_repair(self._path)
        return aside

    def _close(self) -> None:
        if self._kv is not None:
            self._kv.close()
            self._kv = None

    def abandon(self) -> None:
        """Delete the copy."""
        self._close()
        shutil.rmtree(self._work, ignore_errors=True)


@contextmanager
def repairing(folder: Path, slot: str) -> Iterator[Repair]:
    """Repair a slot of a folder, which is locked meanwhile.

    Raises:
        SlotInUse: another process owns it.
        StorageError: it cannot be locked.
    """
    finish_repair(folder / slot)
    with ExitStack() as stack:
        stack.enter_context(held(folder, slot))
        repair = Repair(folder, slot, stack)
        stack.callback(repair.abandon)
        yield repair


class _Losses:
    """What could not be read."""

    def __init__(self) -> None:
        self.holes: list[UnreadableKeys] = []
        self.unknown = 0
        """Bytes that may have held any part of any stream."""

    @property
    def most_bytes(self) -> int:
        return self.unknown + len(self.holes) * _HOLE_BYTES

    def may_reach(self, low: bytes, high: bytes | None) -> bool:
        """Whether something between these entries may be lost; None is no upper bound."""
        return any(hole.before > low and (high is None or hole.after < high) for hole in self.holes)


def _damage(path: Path) -> tuple[list[DamagedFile], int]:
    """The damaged files of a slot, found by reading all of it, and the number of records."""
    files: list[DamagedFile] = []
    records = 0
    for name, problem in bad_records(path).items():
        files.append(DamagedFile(name, problem))
    try:
        check_files(path)
        with open_for_reading(path.parent, path.name) as kv:
            for _, value in kv.scan(b"r", b"s"):
                received_at_ns(value[8:])
                records += 1
            for begin in (b"", b"s"):
                for _ in kv.scan(begin, b"r" if not begin else keys.AFTER_ALL):
                    pass
    except LogDamaged as error:
        name = _file_named(error.cause)
        if not any(file.name == name for file in files):
            files.append(DamagedFile(name, error.cause))
    except NotOurRecord as error:
        files.append(DamagedFile("records", str(error)))
    return files, records


def _file_named(problem: str) -> str:
    """The file that is named in a message of RocksDB."""
    words = problem.replace(":", " ").split()
    named = (word.strip(".,") for word in words)
    for word in () if "one of " in problem else named:
        if word.endswith((".sst", ".log")) or word.startswith(("MANIFEST-", "CURRENT")):
            return word
    return "files"


def _short(problem: object) -> str:
    """A message of RocksDB in one line and without folders."""
    words = " ".join(str(problem).split()).split(" The file ")[0]
    return " ".join(word.rsplit("/", 1)[-1] for word in words.split())


def _add(found: Iterator[tuple[bytes, bytes]], kv: KeyValues, numbers: dict[int, int]) -> None:
    """Add what was read from a damaged table to the other entries.

    ``numbers`` has the last known number of each stream; those in the table's index are added.
    """
    batch, waiting = kv.batch(), 0
    for entry, value in found:
        kind = entry[:1]
        if kind == b"n":
            with suppress(NotOurRecord):
                stream_id, known = int.from_bytes(entry[1:5], "big"), keys.read_batch(entry, value)
                last = max(known.first_number, known.last_number)
                numbers[stream_id] = max(last, numbers.get(stream_id, 0))
        elif kind != b"t":
            held_already = kv.get(entry)
            # Of a candle and its correction the later one counts: values begin with the number.
            if held_already is None or (kind == b"r" and value[:8] > held_already[:8]):
                batch.put(entry, value)
                waiting += 1
        if waiting >= 1000:
            kv.write(batch, sync=False)
            batch, waiting = kv.batch(), 0
    kv.write(batch, sync=True)


def _lost(found: Reindexed, losses: _Losses) -> list[Lost]:
    """The parts of streams that were lost because something could not be read."""
    lost: list[Lost] = []
    for stream in found.streams.values():
        for gap in stream.gaps():
            low = stream.entry(gap.after) if gap.after else keys.prefix(b"r", stream.id)
            high = stream.entry(gap.before)
            if losses.unknown or losses.may_reach(min(low, high), max(low, high)):
                lost.append(
                    Lost(stream.name, gap.after, gap.before, gap.since_ns, gap.until_ns, gap.size)
                )
    # Losses of unknown position are older than the latest record that follows a gap.
    over_ns = max((each.until_ns or 0 for each in lost), default=None)
    for stream in found.streams.values():
        may_be = losses.unknown and (over_ns is None or stream.last_ns < over_ns)
        past = keys.past(keys.prefix(b"r", stream.id))
        if may_be or losses.may_reach(stream.entry(stream.last_key), past):
            since_ns = stream.last_ns or None
            after = stream.last_key if since_ns else None
            lost.append(Lost(stream.name, after, None, since_ns, None, None))
    return sorted(lost, key=lambda each: (each.stream, each.after or b""))
