"""A disk whose power can be cut: ext4 in a file, mounted by the loop device. Needs root.

The cut is ext4's own: from then on nothing reaches the disk, and every file answers with an error.
What was not synced is lost, unless the kernel had happened to write it. The next mount replays the
journal, as after a real one.
"""

import fcntl
import gc
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

_EXT4_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_FLUSH = 2
_SIZE = 2 * 1024**3
_UNMOUNT_S = 30.0


def why_not() -> str:
    """Why there can be no such disk here; "" if there can."""
    if os.geteuid() != 0:
        return "cutting the power of a disk needs root: it mounts ext4 in a loop file"
    missing = [name for name in ("mkfs.ext4", "mount", "umount") if shutil.which(name) is None]
    if missing:
        return f"cutting the power of a disk needs {', '.join(missing)}"
    if not Path("/dev/loop-control").exists():
        return "cutting the power of a disk needs the loop device, which is not there"
    return ""


class Disk:
    """One disk; ``folder`` is where it is mounted."""

    def __init__(self, below: Path) -> None:
        self._image, self.folder = below / "disk", below / "mounted"
        self.folder.mkdir()
        with self._image.open("wb") as file:
            file.truncate(_SIZE)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def cut(self) -> None:
        """From now on nothing reaches the disk."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, _EXT4_IOC_SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
        finally:
            os.close(folder)

    def unmount(self) -> None:
        """Give it back, as soon as those who had files open are gone."""
        deadline = time.monotonic() + _UNMOUNT_S
        while True:
            done = subprocess.run(
                ["umount", str(self.folder)], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return
            gc.collect()  # a reader of this process may be waiting for it
            assert time.monotonic() < deadline, done.stderr
            time.sleep(0.05)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
