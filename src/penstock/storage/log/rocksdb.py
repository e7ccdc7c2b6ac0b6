"""A log on disk: one RocksDB per slot.

RocksDB lets one process write and any number read as secondaries, which follow its files. Its own
lock decides who owns a slot and dies with its holder; the owner's name beside it is only there to
be told. Its write-ahead log reaches the kernel with every batch, so ``kill -9`` loses nothing that
was acknowledged, and a batch cut short is dropped whole when the slot is opened again.
"""

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import repeat, takewhile
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from penstock.errors import ConfigError, SlotInUse, StorageError, StorageFull
from penstock.files import make_folder, replace_file
from penstock.storage.log import is_slot_name
from penstock.storage.log.pairs import PairBatch, Pairs
from penstock.storage.log.reader import MergedReader
from penstock.storage.log.writer import SlotWriter

_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
# The lock is another's, or this process has the slot open already. A lock file that cannot be made,
# on a full disk for instance, is something else.
_LOCKED = ("Resource temporarily unavailable", "lock hold by current process")
_READERS_CACHE = 32 * 1024 * 1024
_LEVELS = 7
"""Of tables, as RocksDB has them."""
# A secondary that opens while its owner replaces files may find one gone; the next look is right.
_LOOKS = 5
_ROCKSDICTS = "rocksdict-config.json"


def open_url(rest: str) -> "RocksLog":
    """The log in a folder: ``rocksdb:FOLDER``."""
    if not rest:
        raise ConfigError("rocksdb:", problem="names no folder: rocksdb:FOLDER.", origin="log URL")
    return RocksLog(Path(rest))


class RocksLog:
    """The slots below FOLDER/log."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "log"

    def writer(self, slot: str) -> SlotWriter:
        if not is_slot_name(slot):
            raise ConfigError(
                slot, problem="a slot's name is letters, digits, - and _.", origin="log slot"
            )
        return SlotWriter(slot, partial(_own, self._folder, slot))

    def reader(self) -> MergedReader:
        return MergedReader(_Secondaries(self._folder))


class _Owner(Struct):
    pid: int
    command: str


def _own(folder: Path, slot: str) -> Pairs:
    path, owner = folder / slot, folder / f"{slot}.owner"
    try:
        make_folder(path)
    except OSError as error:
        raise _as_storage_error(str(path), error) from error
    with _failures_named(str(path)):
        try:
            db = Rdict(str(path), _owners_options())
        except Exception as error:
            if any(sign in str(error) for sign in _LOCKED):
                raise SlotInUse(slot, _holder(owner)) from error
            raise
    # Written only once the lock is held, so it never names a process that was refused. A full disk
    # must not stop the slot from opening: without it a refusal is only less helpful.
    with suppress(OSError):
        replace_file(owner, msgspec.json.encode(_Owner(os.getpid(), shlex.join(sys.orig_argv))))
    return _RocksPairs(path, db, owner)


def _holder(owner: Path) -> str:
    try:
        found = msgspec.json.decode(owner.read_bytes(), type=_Owner)
    except (OSError, msgspec.DecodeError):
        return "another process"
    if found.pid == os.getpid():
        return f"this very process ({found.pid})"
    return f"process {found.pid} ({found.command})"


def _options(cache_bytes: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    # Fast while it is young, small once it is old.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    table = BlockBasedOptions()
    table.set_block_size(16 * 1024)
    table.set_block_cache(Cache(cache_bytes))
    # What tells where to look in a table as well: otherwise it takes memory for every open table.
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    # One more buffer than usual: a flush that takes long does not stop the writer.
    options.set_max_write_buffer_number(4)
    # RocksDB's own diary, a few megabytes at most.
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 * 1024 * 1024)
    # A secondary keeps reading files its owner has deleted, as long as it never closes them.
    options.set_max_open_files(-1)
    return options


def _owners_options() -> Options:
    # An owner reads next to nothing: where a record that came late belongs.
    options = _options(cache_bytes=4 * 1024 * 1024)
    # What is not yet in tables is in memory: little of it, so that an owner's memory stays level.
    options.set_write_buffer_size(16 * 1024 * 1024)
    # Nor need tables that pile up over months all be open.
    options.set_max_open_files(64)
    # All streams grow at once, so that to merge new tables with old ones is to write all of it
    # anew: done seldom, and compressed only then, it takes a third less time in the long run.
    options.set_level_zero_file_num_compaction_trigger(16)
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    young, older = DBCompressionType.none(), DBCompressionType.lz4()
    options.set_compression_per_level([young, *repeat(older, _LEVELS - 1)])
    return options


class _RocksPairs:
    """One RocksDB, ours to write or another's to follow."""

    def __init__(self, path: Path, db: Rdict, owner: Path | None) -> None:
        self._path, self._db, self._owner = path, db, owner
        self._flushed, self._synced = WriteOptions(), WriteOptions()
        self._synced.sync = True

    def get(self, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._db.get(key))
        except Exception as error:
            raise _as_storage_error(str(self._path), error) from error

    def batch(self) -> PairBatch:
        return cast("PairBatch", WriteBatch(raw_mode=True))

    def write(self, batch: PairBatch, *, sync: bool) -> None:
        # Not through _failures_named, which would cost a small batch a tenth of its time.
        try:
            self._db.write(batch, self._synced if sync else self._flushed)  # type: ignore[arg-type]
        except Exception as error:
            raise _as_storage_error(str(self._path), error) from error

    def sync(self) -> None:
        with _failures_named(str(self._path)):
            self._db.flush_wal(True)

    def scan(
        self, begin: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # rocksdict 0.3.29 takes a lower bound for an upper one, so only the upper one is used.
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        start = end if reverse else begin
        with _failures_named(str(self._path)):
            found = cast(
                "Iterator[tuple[bytes, bytes]]",
                self._db.items(backwards=reverse, from_key=start, read_opt=bounds),
            )
            yield from takewhile(lambda pair: pair[0] >= begin, found) if reverse else found

    def keys_within(self, intervals: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        # One iterator for all: to make one takes longer than to find a key with it.
        with _failures_named(str(self._path)):
            found = self._db.iter(ReadOptions())
            for begin, end in intervals:
                # Where the last interval left it there may be nothing in between.
                if not found.valid() or found.key() < begin:
                    found.seek(begin)
                while found.valid() and (key := cast("bytes", found.key())) < end:
                    yield key
                    found.next()

    def catch_up(self) -> None:
        if self._owner is None:
            with _failures_named(str(self._path)):
                self._db.try_catch_up_with_primary()

    def size_bytes(self) -> int:
        total = 0
        for file in self._path.iterdir():
            with suppress(FileNotFoundError):
                total += file.stat().st_blocks * 512
        return total

    def checkpoint(self, path: str) -> None:
        # One made by a secondary lacks what is not yet in table files, and says nothing.
        assert self._owner is not None, "only the owner of a slot can copy it"
        with _failures_named(path):
            Checkpoint(self._db).create_checkpoint(path)

    def close(self) -> None:
        # Before the lock is given back: afterwards it may name the next owner.
        if self._owner is not None:
            with suppress(OSError):
                self._owner.unlink(missing_ok=True)
        with _failures_named(str(self._path)):
            self._db.close()


class _View:
    """A slot's folder as a reader sees it: links to its files, in a folder of the reader's own.

    rocksdict writes a file of its own into the folder that it opens, whatever it opens it for. So
    readers never open the slot's folder itself: it may be another user's.
    """

    def __init__(self, slot: Path, folder: Path) -> None:
        self._slot, self.folder = slot, folder
        self._linked: set[str] = set()
        folder.mkdir(exist_ok=True)

    def refresh(self) -> None:
        """Link what is new, and forget what is gone; what is open already stays open."""
        there = {file.name for file in self._slot.iterdir()} - {_ROCKSDICTS}
        for name in self._linked - there:
            (self.folder / name).unlink(missing_ok=True)
        for name in there - self._linked:
            (self.folder / name).symlink_to(self._slot / name)
        self._linked = there


class _Secondaries:
    """Every slot of a folder, followed from a temporary folder; nothing is written elsewhere."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        try:
            self._scratch = tempfile.TemporaryDirectory(prefix="penstock-reader-")
        except OSError as error:
            problem = f"readers need a temporary folder: {error}"
            raise StorageError(str(folder), problem, "Set TMPDIR to a writable folder.") from error
        self._opened: dict[str, tuple[_RocksPairs, _View]] = {}

    def current(self) -> dict[str, Pairs]:
        names = {marker.parent.name for marker in self._folder.glob("*/CURRENT")}
        for gone in self._opened.keys() - names:
            self._opened.pop(gone)[0].close()
        for name in names:
            self._follow(name)
        return {name: pairs for name, (pairs, _) in self._opened.items()}

    def _follow(self, name: str) -> None:
        for look in range(1, _LOOKS + 1):
            try:
                if name not in self._opened:
                    self._opened[name] = self._open(name)
                pairs, view = self._opened[name]
                with _failures_named(str(self._folder / name)):
                    view.refresh()
                pairs.catch_up()
            except StorageError:
                if name in self._opened:
                    self._opened.pop(name)[0].close()
                if look == _LOOKS:
                    raise
            else:
                return

    def _open(self, name: str) -> tuple["_RocksPairs", _View]:
        path, scratch = self._folder / name, Path(self._scratch.name, name)
        scratch.mkdir(exist_ok=True)
        with _failures_named(str(path)):
            # Apart for each time it is opened: links that another time made are not known here.
            view = _View(path, Path(tempfile.mkdtemp(prefix="view-", dir=scratch)))
            view.refresh()
            access = AccessType.secondary(str(scratch))
            db = Rdict(str(view.folder), _options(_READERS_CACHE), access_type=access)
            return _RocksPairs(path, db, None), view

    def close(self) -> None:
        while self._opened:
            self._opened.popitem()[1][0].close()
        self._scratch.cleanup()


@contextmanager
def _failures_named(where: str) -> Iterator[None]:
    # rocksdict raises bare Exception for everything RocksDB reports.
    try:
        yield
    except (SlotInUse, StorageError, GeneratorExit):
        raise
    except Exception as error:
        raise _as_storage_error(where, error) from error


def _as_storage_error(where: str, error: Exception) -> StorageError:
    if isinstance(error, DbClosedError):
        return StorageError(where, "was closed", "Open it again.")
    problem = " ".join(str(error).split())
    if any(sign in problem for sign in _FULL):
        return StorageFull(where, problem)
    return StorageError(where, problem)
