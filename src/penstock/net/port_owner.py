"""Finds the program that listens on a port, as far as the operating system reports it.

Only Linux does, in ``/proc``, and only for processes of the same user. Elsewhere the result is
None.
"""

from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"


def port_owner(port: int, proc: Path = Path("/proc")) -> str | None:
    """The program that listens on a TCP port, such as ``python3 (pid 4711)``; None if unknown."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not sockets:
        return None
    for process in sorted(_processes(proc), key=lambda path: int(path.name)):
        if sockets.intersection(_open_files(process)):
            return f"{_command(process)} (pid {process.name})"
    return None


def _listening_inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (proc / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            # sl local remote state queues timer retransmits uid timeout inode
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _processes(proc: Path) -> list[Path]:
    try:
        return [path for path in proc.iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _open_files(process: Path) -> Iterator[str]:
    try:
        for link in (process / "fd").iterdir():
            yield str(link.readlink())
    except OSError:  # ended meanwhile, or of another user
        return


def _command(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a program"
