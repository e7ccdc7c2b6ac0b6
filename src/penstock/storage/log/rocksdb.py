"""A log on disk, with one RocksDB per slot.

RocksDB allows one process to write and any number to read as secondaries, which follow its files.
Its own lock decides which process owns a slot, and is released when that process ends; the file
with the owner's name is only used in error messages. Its write-ahead log is passed to the kernel
with every batch, so ``kill -9`` loses nothing that was acknowledged, and an incomplete batch is
dropped as a whole when the slot is opened again.
"""

import fcntl
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from rocksdict import AccessType, Checkpoint, Rdict, WriteBatch, WriteOptions

from penstock.errors import ConfigError, LogDamaged, SlotInUse, StorageError
from penstock.files import make_folder, replace_file
from penstock.storage.log import keys
from penstock.storage.log.checks import check_files
from penstock.storage.log.damage import finish_repair, place_text, slots_in
from penstock.storage.log.failures import as_storage_error, failures_named
from penstock.storage.log.key_values import Changes, KeyValues
from penstock.storage.log.linked_folder import LinkedFolder
from penstock.storage.log.reader import MergedReader
from penstock.storage.log.tuning import (
    owners_options,
    read_options,
    readers_cache,
    readers_options,
)
from penstock.storage.log.writer import SlotWriter

READER_PREFIX = "penstock-reader-"
"""Of the temporary folders of readers."""
# Another process has the lock, or this process has the slot open already. A lock file that cannot
# be created, on a full disk for instance, is a different error.
_LOCKED = ("Resource temporarily unavailable", "lock hold by current process")
# A secondary that opens while its owner replaces files may find one missing; a retry succeeds.
_LOOKS = 5
_FEW = 64
"""Records that are read with a slow iterator that reports damage, before a fast one that does not
is used."""


def open_url(rest: str) -> "RocksLog":
    """The log in a folder of this machine: ``rocksdb:FOLDER``.

    Raises:
        ConfigError: it names no folder, or one of another machine.
    """
    if not rest:
        raise _wrong_url("", "names no folder: rocksdb:FOLDER.")
    if elsewhere := _OTHER_MACHINE.match(rest):
        problem = (
            f"is a folder of another machine, {elsewhere['host'] or elsewhere['copied']}. A log is"
            " in a folder of this machine, rocksdb:FOLDER; processes on other machines have logs"
            " of their own."
        )
        raise _wrong_url(rest, problem)
    return RocksLog(Path(_LOCAL.sub("", rest)))


_OTHER_MACHINE = re.compile(r"//(?!localhost/|/)(?P<host>[^/]*)|(?P<copied>[^/:]+(?=:/))")
_LOCAL = re.compile(r"^//(localhost)?(?=/)")


def _wrong_url(rest: str, problem: str) -> ConfigError:
    return ConfigError(f"rocksdb:{rest}", problem=problem, origin="log URL")


class RocksLog:
    """The slots below FOLDER/log."""

    def __init__(self, root: Path) -> None:
        self.folder = root
        self._folder = root / "log"

    def writer(self, slot: str, *, briefly: bool = False) -> SlotWriter:
        if not keys.is_slot_name(slot):
            raise ConfigError(
                slot, problem="a slot's name is letters, digits, - and _.", origin="log slot"
            )
        return SlotWriter(slot, partial(_own, self._folder, slot, briefly))

    def reader(self) -> MergedReader:
        return MergedReader(_Secondaries(self._folder))


class _Owner(Struct):
    pid: int
    command: str
    briefly: bool = False

    def __str__(self) -> str:
        mine = self.pid == os.getpid()
        return f"this very process ({self.pid})" if mine else f"process {self.pid} ({self.command})"


def _own(folder: Path, slot: str, briefly: bool) -> KeyValues:
    path, owner = folder / slot, folder / f"{slot}.owner"
    try:
        finish_repair(path)
        make_folder(path)
    except OSError as error:
        raise as_storage_error(str(path), error) from error
    with failures_named(str(path)):
        check_files(path)
        try:
            db = Rdict(str(path), owners_options())
        except Exception as error:
            if any(sign in str(error) for sign in _LOCKED):
                raise _in_use(slot, owner) from error
            raise
    # Written only once the lock is held, so it never names a process that was refused. A full disk
    # must not stop the slot from opening: without it an error message only has less detail.
    with suppress(OSError):
        holder = _Owner(os.getpid(), shlex.join(sys.orig_argv), briefly)
        replace_file(owner, msgspec.json.encode(holder))
    return _RocksPairs(path, db, owner)


@contextmanager
def held(folder: Path, slot: str) -> Iterator[None]:
    """Lock a slot against other writers, without opening it.

    Raises:
        SlotInUse: another process owns it.
        StorageError: it cannot be locked.
    """
    try:
        with (folder / slot / "LOCK").open("ab") as lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise _in_use(slot, folder / f"{slot}.owner") from error
            yield
    except OSError as error:
        raise as_storage_error(str(folder / slot), error) from error


def open_alone(path: Path) -> KeyValues:
    """Open a RocksDB that no other process uses."""
    with failures_named(str(path)):
        return _RocksPairs(path, Rdict(str(path), owners_options()), None)


@contextmanager
def open_for_reading(folder: Path, slot: str) -> Iterator[KeyValues]:
    """Open one slot of a folder for reading."""
    secondaries = _Secondaries(folder)
    try:
        yield secondaries.follow(slot)
    finally:
        secondaries.close()


def _in_use(slot: str, owner: Path) -> SlotInUse:
    try:
        found = msgspec.json.decode(owner.read_bytes(), type=_Owner)
    except (OSError, msgspec.DecodeError):  # it has just taken the slot, or is releasing it
        return SlotInUse(slot, "another process", briefly=True)
    return SlotInUse(slot, str(found), briefly=found.briefly)


class _RocksPairs:
    """One RocksDB, opened as its owner or as a secondary."""

    def __init__(
        self, path: Path, db: Rdict, owner: Path | None, opened_as: Path | None = None
    ) -> None:
        self._path, self._db, self._owner = path, db, owner
        self._opened_as = opened_as or path
        """The folder in RocksDB's paths."""
        self._flushed, self._synced = WriteOptions(), WriteOptions()
        self._synced.sync = True

    def get(self, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._db.get(key))
        except Exception as error:
            raise self._named(error, key, None) from error

    def batch(self) -> Changes:
        return cast("Changes", WriteBatch(raw_mode=True))

    def write(self, batch: Changes, *, sync: bool) -> None:
        # Not through failures_named, which would take a tenth of the time of a small batch.
        try:
            self._db.write(batch, self._synced if sync else self._flushed)  # type: ignore[arg-type]
        except Exception as error:
            raise as_storage_error(str(self._path), error) from error

    def sync(self) -> None:
        with failures_named(str(self._path)):
            self._db.flush_wal(True)

    def scan(
        self, begin: bytes, end: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        # rocksdict 0.3.29 treats a lower bound as an upper one, so only the upper one is used.
        bounds = read_options()
        bounds.set_iterate_upper_bound(end)
        last: bytes | None = None
        try:
            while True:
                cursor = self._db.iter(bounds)
                step, seek = (
                    (cursor.prev, cursor.seek_for_prev) if reverse else (cursor.next, cursor.seek)
                )
                valid, key, value = cursor.valid, cursor.key, cursor.value
                seek(last or (end if reverse else begin))
                if last is not None and valid() and key() == last:
                    step()
                for _ in range(_FEW):
                    if not valid():
                        cursor.status()
                        return
                    last = key()
                    if last < begin:
                        return
                    yield last, value()
                    step()
                # Twice as fast, but it does not report whether it ended because of damage: the
                # next iteration does.
                found = cast(
                    "Iterator[tuple[bytes, bytes]]",
                    self._db.items(backwards=reverse, from_key=last, read_opt=bounds),
                )
                pair = next(found, (last, b""))
                for pair in takewhile(lambda pair: pair[0] >= begin, found) if reverse else found:
                    yield pair
                last = pair[0]
        except GeneratorExit:
            raise
        except Exception as error:
            raise self._named(error, begin, last) from error

    def values(self, begin: bytes, end: bytes) -> list[bytes]:
        bounds = read_options()
        bounds.set_iterate_upper_bound(end)
        # Ranges are read one after the other. (The types of rocksdict lack the argument.)
        bounds.fill_cache(False)  # type: ignore[call-arg]
        found: list[bytes] = []
        try:
            found = list(cast("Iterator[bytes]", self._db.values(from_key=begin, read_opt=bounds)))
            last = next(self.scan(begin, end, reverse=True), (b"", b""))[1]
        except Exception as error:
            raise self._named(error, begin, None) from error
        if (found[-1] if found else b"") == last:
            return found
        # It does not report whether it ended because of damage: a scan does.
        return [value for _, value in self.scan(begin, end)]

    def keys_within(self, intervals: Sequence[tuple[bytes, bytes]]) -> Iterator[bytes]:
        # One iterator for all: creating one takes longer than a seek.
        begin, last = b"", None
        try:
            found = self._db.iter(read_options())
            for begin, end in intervals:
                # No seek if there is nothing between the last interval and this one.
                if not found.valid() or found.key() < begin:
                    found.seek(begin)
                while found.valid() and (key := cast("bytes", found.key())) < end:
                    yield key
                    last = key
                    found.next()
                if not found.valid():
                    found.status()
        except GeneratorExit:
            raise
        except Exception as error:
            raise self._named(error, begin, last) from error

    def _named(self, error: Exception, begin: bytes, last: bytes | None) -> Exception:
        """The error to raise; for damage, with the stream and the key that was read."""
        if isinstance(error, StorageError):
            return error
        named = as_storage_error(str(self._path), error, self._opened_as)
        if not isinstance(named, LogDamaged):
            return named
        stream = ""
        with suppress(Exception):  # that may be damaged too
            value = cast("bytes | None", self._db.get(b"s" + begin[1:5]))
            stream = str(keys.read_stream(value)) if value else ""
        reading = place_text(begin, last, stream)
        return LogDamaged(named.slot, named.where, named.cause, reading)

    def catch_up(self) -> None:
        if self._owner is None:
            with failures_named(str(self._path)):
                self._db.try_catch_up_with_primary()

    def tables(self) -> set[int]:
        """The numbers of all open tables."""
        return {int(Path(file["name"]).stem) for file in self._db.live_files()}

    def size_bytes(self) -> int:
        total = 0
        for file in self._path.iterdir():
            with suppress(FileNotFoundError):
                total += file.stat().st_blocks * 512
        return total

    def compact(self) -> None:
        with failures_named(str(self._path)):
            self._db.compact_range(b"", keys.AFTER_ALL)

    def checkpoint(self, path: str) -> None:
        # One made by a secondary lacks what is not yet in table files, without an error.
        assert self._owner is not None, "only the owner of a slot can copy it"
        with failures_named(path):
            Checkpoint(self._db).create_checkpoint(path)

    def close(self) -> None:
        # Before the lock is released: afterwards the file may name the next owner.
        if self._owner is not None:
            with suppress(OSError):
                self._owner.unlink(missing_ok=True)
        with failures_named(str(self._path)):
            self._db.close()


class _Secondaries:
    """Secondaries of all slots of a folder; they write to a temporary folder only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        try:
            self._scratch = tempfile.TemporaryDirectory(prefix=READER_PREFIX)
        except OSError as error:
            problem = f"readers need a temporary folder: {error}"
            raise StorageError(str(folder), problem, "Set TMPDIR to a writable folder.") from error
        self._opened: dict[str, tuple[_RocksPairs, LinkedFolder]] = {}

    def current(self) -> dict[str, KeyValues]:
        return {name: self.follow(name) for name in self.names()}

    def names(self) -> set[str]:
        names = set(slots_in(self._folder))
        for gone in self._opened.keys() - names:
            self._opened.pop(gone)[0].close()
        return names

    def follow(self, name: str) -> KeyValues:
        """Return one of them, up to date."""
        for look in range(1, _LOOKS + 1):
            try:
                with failures_named(str(self._folder / name)):
                    if name in self._opened and self._opened[name][1].outdated:
                        self._opened.pop(name)[0].close()
                    if name not in self._opened:
                        self._opened[name] = self._open(name)
                    kv, view = self._opened[name]
                    view.catch_up(kv.catch_up, kv.tables)
            except StorageError:
                if name in self._opened:
                    self._opened.pop(name)[0].close()
                if look == _LOOKS:
                    raise
            else:
                return kv
        raise AssertionError("the last look returns or raises")

    def _open(self, name: str) -> tuple["_RocksPairs", LinkedFolder]:
        if not Path(self._scratch.name).exists():  # it was idle, and taken for a leftover
            self._scratch.cleanup()
            self._scratch = tempfile.TemporaryDirectory(prefix=READER_PREFIX)
        path, scratch = self._folder / name, Path(self._scratch.name, name)
        scratch.mkdir(exist_ok=True)
        with failures_named(str(path), scratch):
            check_files(path)
            # A new folder for each open: links of an earlier one are not tracked here.
            view = LinkedFolder(path, Path(tempfile.mkdtemp(prefix="view-", dir=scratch)))
            view.refresh()
            access = AccessType.secondary(str(scratch))
            options = readers_options(readers_cache(str(self._folder)))
            db = Rdict(str(view.folder), options, access_type=access)
            return _RocksPairs(path, db, None, view.folder), view

    def close(self) -> None:
        while self._opened:
            self._opened.popitem()[1][0].close()
        self._scratch.cleanup()
