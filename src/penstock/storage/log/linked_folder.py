"""A slot's folder as its readers open it."""

from collections.abc import Callable
from pathlib import Path

from penstock.errors import LogDamaged
from penstock.storage.log.checks import check_tables
from penstock.storage.log.manifest import read_manifest

_ROCKSDICTS = "rocksdict-config.json"


class LinkedFolder:
    """A slot's folder as a reader sees it: links to its files, in a folder of the reader's own.

    rocksdict writes a file of its own into the folder that it opens, whatever it opens it for. So
    readers never open the slot's folder itself: it may be another user's.
    """

    def __init__(self, slot: Path, folder: Path) -> None:
        self._slot, self.folder = slot, folder
        self._linked: set[str] = set()
        self._inode = slot.stat().st_ino
        self._checked: tuple[str, int] | None = None
        """What was listed when all tables were last known to be open."""
        folder.mkdir(exist_ok=True)

    @property
    def outdated(self) -> bool:
        """Whether another folder took the place of the slot's: it was repaired."""
        return self._slot.stat().st_ino != self._inode

    def listed(self) -> tuple[str, int]:
        """Tells whether the slot may have other tables than before."""
        manifest = (self._slot / "CURRENT").read_text().strip()
        return manifest, (self._slot / manifest).stat().st_size

    def check(self, listed: tuple[str, int], opened: Callable[[], set[int]]) -> None:
        """Whether all tables that are listed were opened: RocksDB passes over some in silence.

        Raises:
            LogDamaged: one was not.
        """
        if listed == self._checked:
            return
        check_tables(self._slot)
        missing = sorted(read_manifest(self._slot).tables.keys() - opened())
        if self.listed() != listed:
            return  # its owner runs, and goes on
        if missing:
            # It goes back to a state before the damaged one was there, and so lacks others too.
            names = ", ".join(f"{number:06}.sst" for number in missing)
            problem = f"one of {names} cannot be opened"
            raise LogDamaged(self._slot.name, str(self._slot), problem)
        self._checked = listed

    def refresh(self) -> None:
        """Link what is new, and forget what is gone; what is open already stays open."""
        there = {file.name for file in self._slot.iterdir()} - {_ROCKSDICTS}
        for name in self._linked - there:
            (self.folder / name).unlink(missing_ok=True)
        for name in there - self._linked:
            (self.folder / name).symlink_to(self._slot / name)
        self._linked = there
