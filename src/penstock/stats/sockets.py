"""Serves the metrics of a process on a socket in its data folder, for ``penstock serve`` to join.

The socket is a file, so its permissions control access, and processes in containers that share the
folder reach each other. Whoever connects receives the text, and the connection is closed. Nothing
of it can stop the process: without the socket, its metrics are missing.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from penstock.errors import PenstockError
from penstock.publish.socket_files import short_endpoint

_FOLDER = "metrics"
_SUFFIX = ".sock"
_LOOK_S = 0.5
"""Interval at which a process looks into its data folder, which it may still have to create."""
_SEND_S = 2.0
"""Time in which a client has to read."""
_AGAIN_S = 0.1
_MOST_BYTES = 64 * 1024 * 1024
_WAITING = 16


def socket_file(folder: Path, host: str, pid: int) -> Path:
    """The socket of a process; a process id is unique on a machine or in a container."""
    name = "".join(each if each.isalnum() or each in "-." else "_" for each in host)
    return folder / _FOLDER / f"{name[:60]}-{pid}{_SUFFIX}"


@contextmanager
def served_on(file: Path, text: Callable[[], bytes]) -> Iterator[None]:
    """Serve a text in a thread until the block is left, once there is something in the data folder.

    A command that is refused leaves an empty folder empty.
    """
    ended = Event()
    Thread(target=_serve, args=(file, text, ended), name="penstock-metrics", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        with suppress(OSError, PenstockError), socket.socket(socket.AF_UNIX) as waking:
            # The thread waits for a client: this is the last one.
            waking.connect(_short(file))
        with suppress(OSError):
            file.unlink(missing_ok=True)


async def read_from(file: Path, timeout_s: float) -> bytes:
    """The text that a process serves.

    Raises:
        OSError: it does not serve any, does not answer in time, or sends too much.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(_short(file))
            try:
                found = bytearray()
                while part := await reader.read(1 << 18):
                    found += part
                    if len(found) > _MOST_BYTES:
                        raise OSError(f"{file}: more than {_MOST_BYTES} bytes")
            finally:
                writer.close()
    except PenstockError as error:
        raise OSError(str(error)) from error
    if not found.endswith(b"\n"):
        raise OSError(f"{file}: the process ended meanwhile")
    return bytes(found)


def _short(file: Path) -> str:
    return short_endpoint(f"ipc://{file}").removeprefix("ipc://")


def _serve(file: Path, text: Callable[[], bytes], ended: Event) -> None:
    while not _is_used(file.parent.parent):
        if ended.wait(_LOOK_S):
            return
    with suppress(OSError, PenstockError), socket.socket(socket.AF_UNIX) as listening:
        _listen(listening, file)
        while not ended.is_set():
            try:
                client = listening.accept()[0]
            except OSError:  # too many descriptors are open, for instance
                ended.wait(_AGAIN_S)
                continue
            with client, suppress(Exception):
                client.settimeout(_SEND_S)
                if not ended.is_set():
                    client.sendall(text())


def _is_used(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:
        return False


def _listen(listening: socket.socket, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    _remove_dead(file.parent)
    # It gets its name once it listens: nobody takes it for a dead one meanwhile.
    fresh = file.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    listening.bind(_short(fresh))
    fresh.chmod(0o660 if file.parent.stat().st_mode & 0o020 else 0o600)
    listening.listen(_WAITING)
    fresh.rename(file)


def _remove_dead(folder: Path) -> None:
    """Remove the sockets of processes that were killed."""
    for file in list(folder.iterdir()):
        if file.suffix != _SUFFIX:
            continue
        with socket.socket(socket.AF_UNIX) as probe, suppress(OSError, PenstockError):
            probe.settimeout(_SEND_S)
            try:
                probe.connect(_short(file))
            except ConnectionRefusedError:
                file.unlink(missing_ok=True)
