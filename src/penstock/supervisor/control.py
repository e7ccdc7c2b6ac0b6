"""The socket by which commands reach a supervisor: one JSON line each way.

It is a file in the data folder that only its owner may use.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from penstock.errors import NoSupervisor, PenstockError
from penstock.publish.socket_files import short_endpoint
from penstock.runtime.status import ChildStatus
from penstock.supervisor.supervisor import Supervisor

_FILE = "up.sock"
_ASK_S = 5.0
"""Seconds that a client may take to send its request."""
_SHOW_S, _ACT_S = 10.0, 600.0
"""Seconds that a supervisor may take to answer: it waits until processes have stopped."""
Action = Literal["restart", "start", "stop", "show"]


class Request(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client wants."""

    action: Action
    names: list[str]
    """Processes or kinds; empty to show all."""


class Answer(Struct, frozen=True):
    """What became of it."""

    error: str = ""
    processes: list[ChildStatus] = []


@asynccontextmanager
async def controlled(supervisor: Supervisor, folder: Path) -> AsyncIterator[None]:
    """Accept commands for a supervisor, which holds the lock of the folder.

    Raises:
        ConfigError: the path is too long for a socket.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whatever a client sends or fails to send, only its own connection ends.
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_ASK_S):
                line = await reader.readuntil(b"\n")
            writer.write(msgspec.json.encode(await _obey(supervisor, line)) + b"\n")
            await writer.drain()
        writer.close()

    path = folder / _FILE
    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(answer, sock=_bound(path))
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def _obey(supervisor: Supervisor, line: bytes) -> Answer:
    try:
        request = msgspec.json.decode(line, type=Request)
        names = supervisor.find(request.names)
    except (msgspec.DecodeError, PenstockError) as error:
        return Answer(error=str(error))
    if request.action != "show":
        act = {"restart": supervisor.restart, "start": supervisor.start, "stop": supervisor.stop}
        await act[request.action](names)
    children = supervisor.children()
    return Answer(processes=[each for each in children if each.name in names or not names])


def _bound(path: Path) -> socket.socket:
    """A socket at this path that only the owner may use."""
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        bound.bind(_short(path))
    except BaseException:
        bound.close()
        raise
    finally:
        os.umask(before)
    return bound


def _short(path: Path) -> str:
    return short_endpoint(f"ipc://{path}").removeprefix("ipc://")


async def send_to_supervisor(folder: Path, action: Action, names: Sequence[str]) -> Answer:
    """Send a command to the supervisor of a data folder; return its answer.

    Raises:
        NoSupervisor: none answers.
        ConfigError: the path is too long for a socket.
    """
    if not (folder / _FILE).exists():
        raise NoSupervisor(str(folder))
    if action != "show":
        await send_to_supervisor(folder, "show", [])  # one that hangs is noticed soon
    limit_s = _SHOW_S if action == "show" else _ACT_S
    try:
        async with asyncio.timeout(limit_s):
            return await _ask(folder / _FILE, Request(action, list(names)))
    except TimeoutError as error:
        problem = f"it does not answer within {limit_s:g} s"
        raise NoSupervisor(str(folder), problem) from error
    except (OSError, msgspec.DecodeError) as error:
        problem = getattr(error, "strerror", None) or "it ended meanwhile"
        raise NoSupervisor(str(folder), problem) from error


async def _ask(path: Path, request: Request) -> Answer:
    reader, writer = await asyncio.open_unix_connection(_short(path))
    try:
        writer.write(msgspec.json.encode(request) + b"\n")
        await writer.drain()
        answer = await reader.read()  # not a line, whose length would be limited
        return msgspec.json.decode(answer, type=Answer)
    finally:
        writer.close()
