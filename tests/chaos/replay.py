"""A power cut without root: what a process asked of the disk, replayed up to some moment.

A model of a journaling file system. What a file held when it was last synced is there; of what was
written later there may be nothing, or a part. Names, too, are those of some moment between the last
sync of anything and the cut: they may be ahead of the data they name.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Literal, get_args

from tests.tracing import Call, descriptor, texts

Left = Literal["nothing unsynced", "names", "names and some data"]
"""What a cut leaves of what was not synced."""
LEFT: tuple[Left, ...] = get_args(Left)


class _File:
    """One file: what it holds, and what it is certain to hold after a cut."""

    def __init__(self, data: bytes = b"") -> None:
        self.data, self.synced = bytearray(data), data
        self.later: list[tuple[int, bytes | None]] = []
        """Writes since it was last synced: where, and what; None cuts it off there."""

    def write(self, at: int, data: bytes | None) -> None:
        self.later.append((at, data))
        _change(self.data, at, data)

    def sync(self, writes: int) -> None:
        """Its first so many writes are on the disk."""
        held = bytearray(self.synced)
        for at, data in self.later[:writes]:
            _change(held, at, data)
        self.synced, self.later = bytes(held), self.later[writes:]

    def left(self, writes: int) -> bytes:
        """What there is if so many of the later writes reached the disk."""
        held = bytearray(self.synced)
        for at, data in self.later[:writes]:
            _change(held, at, data)
        return bytes(held)


def _change(held: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del held[at:]
        held.extend(b"\0" * (at - len(held)))
    else:
        held.extend(b"\0" * (at - len(held)))
        held[at : at + len(data)] = data


class _Opened:
    def __init__(self, file: _File | None, *, appends: bool) -> None:
        self.file, self.appends, self.at = file, appends, 0
        self.syncing = 0


class ReplayedDisk:
    """The files below a folder, as calls change them."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._names = {
            str(file): _File(file.read_bytes())
            for file in folder.rglob("*")
            if file.is_file() and not file.is_symlink()
        }
        self._durable_names = dict(self._names)
        self._opened: dict[int, _Opened] = {}

    def concerns(self, call: Call) -> bool:
        """Whether a call changes anything here."""
        if call.name in ("openat", "close", "begins_to_sync", "mkdir", "mkdirat"):
            return False
        if call.name.startswith(("rename", "link", "unlink")):
            return any(text.decode().startswith(self._folder) for text in texts(call))
        return descriptor(call) in self._opened

    def apply(self, call: Call) -> None:
        """One call was made."""
        match call.name:
            case "openat":
                self._open(call)
            case "close":
                self._opened.pop(descriptor(call), None)
            case "begins_to_sync":
                if (opened := self._opened.get(descriptor(call))) and opened.file:
                    opened.syncing = len(opened.file.later)
            case "fsync" | "fdatasync":
                self._sync(descriptor(call))
            case "write" | "writev" | "pwrite64" | "ftruncate":
                self._write(call)
            case "mkdir" | "mkdirat":
                pass
            case _:
                self._rename(call)

    def _open(self, call: Call) -> None:
        path = texts(call)[0].decode()
        self._opened.pop(call.result, None)
        if not path.startswith(self._folder):
            return
        if Path(path).is_dir():
            self._opened[call.result] = _Opened(None, appends=False)
            return
        file = self._names.get(path)
        if file is None:
            file = self._names[path] = _File()
        elif "O_TRUNC" in call.words:
            file.write(0, None)
        self._opened[call.result] = _Opened(file, appends="O_APPEND" in call.words)

    def _sync(self, number: int) -> None:
        opened = self._opened.get(number)
        if opened is None:
            return
        if opened.file is not None:
            opened.file.sync(opened.syncing or len(opened.file.later))
            opened.syncing = 0
        self._durable_names = dict(self._names)  # one journal for all

    def _write(self, call: Call) -> None:
        opened = self._opened.get(descriptor(call))
        if opened is None or opened.file is None:
            return
        if call.name == "ftruncate":
            opened.file.write(int(call.words.rsplit(",", 1)[1]), None)
            return
        data = b"".join(texts(call))[: call.result]
        if call.name == "pwrite64":
            opened.file.write(int(call.words.rsplit(",", 1)[1]), data)
            return
        at = len(opened.file.data) if opened.appends else opened.at
        opened.file.write(at, data)
        opened.at = at + len(data)

    def _rename(self, call: Call) -> None:
        source, *target = (text.decode() for text in texts(call))
        file = self._names.get(source)
        if file is None:
            return
        if not call.name.startswith("link"):
            del self._names[source]
        for path in target:
            self._names[path] = file

    def leave(self, folder: Path, left: Left, chance: Random) -> None:
        """Write down what a cut at this moment leaves."""
        names = self._durable_names if left == "nothing unsynced" else self._names
        for path, file in names.items():
            if path.endswith("-shm"):
                continue  # memory that SQLite shares; made anew whenever nobody has it
            writes = chance.randint(0, len(file.later)) if left == "names and some data" else 0
            there = folder / Path(path).relative_to(self._folder)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(file.left(writes))


def cuts(
    before: ReplayedDisk, calls: Sequence[Call], below: Path, most: int, chance: Random
) -> Iterator[tuple[str, Path]]:
    """What is left by cuts at moments drawn from all there are: what each leaves, and where."""
    rehearsed, changes = deepcopy(before), list[int]()
    for number, call in enumerate(calls):
        if rehearsed.concerns(call):
            changes.append(number)
        rehearsed.apply(call)
    moments = set(chance.sample(changes, min(most, len(changes))))
    for number, call in enumerate(calls):
        before.apply(call)
        if number in moments:
            left = chance.choice(LEFT)
            folder = below / f"cut-{number}"
            folder.mkdir()
            before.leave(folder, left, chance)
            yield f"cut after change {changes.index(number)} of {len(changes)} ({left})", folder
