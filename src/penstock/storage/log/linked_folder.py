"""A slot's folder as its readers open it."""

from collections.abc import Callable
from pathlib import Path

from penstock.errors import LogDamaged, StorageError
from penstock.storage.log.checks import check_tables
from penstock.storage.log.manifest import read_manifest

_ROCKSDICTS = "rocksdict-config.json"
_CHANGES = 20
"""How often a list of tables may change while it is read."""


class LinkedFolder:
    """A folder of a reader, with links to the files of a slot's folder.

    rocksdict writes a file of its own into every folder that it opens, also for reading. So readers
    never open the slot's folder itself, which may belong to another user.
    """

    def __init__(self, slot: Path, folder: Path) -> None:
        self._slot, self.folder = slot, folder
        self._linked: set[str] = set()
        self._inode = slot.stat().st_ino
        self._checked: tuple[str, int] | None = None
        """The result of ``listed`` when all tables were last found to be open."""
        folder.mkdir(exist_ok=True)

    @property
    def outdated(self) -> bool:
        """Whether the slot's folder was replaced by a repair."""
        return self._slot.stat().st_ino != self._inode

    def listed(self) -> tuple[str, int]:
        """The name and size of the MANIFEST; they change when the slot's tables change."""
        manifest = (self._slot / "CURRENT").read_text().strip()
        return manifest, (self._slot / manifest).stat().st_size

    def catch_up(self, read: Callable[[], None], opened: Callable[[], set[int]]) -> None:
        """Have RocksDB read what the owner has written; ``opened`` returns the tables it then has.

        RocksDB reads the list of tables first, then opens them, and reads the write-ahead log last.
        A table that is made meanwhile may have no link yet, and the part of the write-ahead log
        that it replaces may be gone: its records would be found in neither. So the list must not
        change.

        Raises:
            LogDamaged: a table cannot be opened.
            StorageError: tables are made faster than they are read.
        """
        for _ in range(_CHANGES):
            listed = self.listed()
            self.refresh()
            read()
            if self._check(listed, opened):
                return
        problem = f"its tables have changed {_CHANGES} times while they were read"
        raise StorageError(str(self._slot), problem, "Try again.")

    def _check(self, listed: tuple[str, int], opened: Callable[[], set[int]]) -> bool:
        """Check that all listed tables were opened: RocksDB skips some silently.

        Returns False if that is not known, because a running owner has changed them.

        Raises:
            LogDamaged: one was not.
        """
        if listed == self._checked:
            return self.listed() == listed
        check_tables(self._slot)
        missing = sorted(read_manifest(self._slot).tables.keys() - opened())
        if self.listed() != listed:
            return False
        if missing:
            # RocksDB returns to a state before the damaged one existed, so others are missing too.
            names = ", ".join(f"{number:06}.sst" for number in missing)
            problem = f"one of {names} cannot be opened"
            raise LogDamaged(self._slot.name, str(self._slot), problem)
        self._checked = listed
        return True

    def refresh(self) -> None:
        """Link new files and remove links to deleted ones; files that are open stay open."""
        there = {file.name for file in self._slot.iterdir()} - {_ROCKSDICTS}
        for name in self._linked - there:
            (self.folder / name).unlink(missing_ok=True)
        for name in there - self._linked:
            (self.folder / name).symlink_to(self._slot / name)
        self._linked = there
