"""Folders on disks that become full or read-only, for whoever runs the tests.

Where file systems can be mounted, it is a small one of its own. Elsewhere files are limited in
size, and folders are made unwritable.
"""

import os
import resource
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

_SIZE = "4m"
_LARGEST_FILE = 4096
_UNWRITABLE = Path("/sys")
"""Not even root can create files there."""


class Disk(ABC):
    """A folder on a disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_replaced = False
        """Whether another folder is there while it is read-only."""

    @abstractmethod
    def full(self, spare: int = 0) -> AbstractContextManager[None]:
        """Leave no space but so many bytes for a while."""

    @abstractmethod
    def read_only(self) -> AbstractContextManager[None]:
        """Forbid writing for a while."""


class MountedDisk(Disk):
    """A file system in memory."""

    @contextmanager
    def full(self, spare: int = 0) -> Iterator[None]:
        """Fill it with another file."""
        filler = self.folder / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        os.truncate(filler, filler.stat().st_size - spare)
        try:
            yield
        finally:
            filler.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Mount it again."""
        _run("mount", "-o", "remount,ro", str(self.folder))
        try:
            yield
        finally:
            _run("mount", "-o", "remount,rw", str(self.folder))


class LimitedFolder(Disk):
    """A folder in which this process may not write."""

    @contextmanager
    def full(self, spare: int = 0) -> Iterator[None]:
        """Limit the size of files, wherever they are."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE + spare, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Remove the permissions; for root, who needs none, lead to another place."""
        if os.geteuid() == 0:
            aside = self.folder.with_name("aside")
            self.folder.rename(aside)
            self.folder.symlink_to(_UNWRITABLE)
            self.is_replaced = True
            try:
                yield
            finally:
                self.folder.unlink()
                aside.rename(self.folder)
            return
        folders = [self.folder, *(each for each in self.folder.rglob("*") if each.is_dir())]
        for each in folders:
            each.chmod(0o555)
        try:
            yield
        finally:
            for each in folders:
                each.chmod(0o755)


@contextmanager
def mounted(folder: Path) -> Iterator[Disk]:
    """A disk of its own, where that is possible."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "penstock-test", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        yield LimitedFolder(folder)
        return
    try:
        yield MountedDisk(folder)
    finally:
        _run("umount", "--lazy", str(folder))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
