"""Python programs as processes that need no second to start: penstock's commands above all.

A command imports for about a second. Here it is forked from a server that has everything imported
(of a worker of the tests: a copy of the worker), and is a child of this process like any other.
Linux only; elsewhere it is started as usual.
"""

import atexit
import ctypes
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_SET_CHILD_SUBREAPER = 36
"""Of ``prctl``: orphans among one's descendants become one's children."""


class Forked(subprocess.Popen[str]):
    """``Forked(["-m", "penstock", "status"], …)``; everything else is as with ``Popen``."""

    # Popen calls it with the ends of its pipes, and finds the child by its process id.
    def _execute_child(self, args: Any, *given: Any) -> None:
        _, _, _, _, cwd, env, _, _, _, stdin, _, _, stdout, _, stderr, *rest = given
        inherited = (stdin, stdout, stderr)
        streams = [number if at == -1 else at for number, at in enumerate(inherited)]
        request = {
            "words": [str(word) for word in args],
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "new_session": rest[-2],
        }
        self.pid = _fork(json.dumps(request).encode(), streams)
        self._child_created = True
        self._close_pipe_fds(*given[9:15])  # type: ignore[attr-defined]


def python(*words: str, forked: bool = True, **options: Any) -> subprocess.Popen[str]:
    """A Python program as a process: ``-c CODE …``, ``-m MODULE …`` or ``SCRIPT …``.

    Options as of ``Popen``. One that is forked has the server's command line in /proc.
    """
    if not forked or sys.platform != "linux" or options.get("preexec_fn"):
        return subprocess.Popen([sys.executable, *words], text=True, **options)
    return Forked(words, text=True, **options)


def command(words: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """A penstock command as a process, likewise."""
    return python("-m", "penstock", *words, **options)


def _fork(request: bytes, streams: list[int]) -> int:
    server = _server()
    _adopt_orphans(True)
    try:
        socket.send_fds(server, [request], streams)
        pid, ready = server.recv(32), server.recv(32)
    finally:
        # A process that loses its parent later on is none of ours.
        _adopt_orphans(False)
    assert ready == b"ready"
    return int(pid)


def _adopt_orphans(adopt: bool) -> None:
    assert ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0) == 0


def use_server(connection: socket.socket) -> None:
    """Fork from another server, of which this process is the parent."""
    global _server  # noqa: PLW0603
    _server = functools.cache(lambda: connection)


@functools.cache
def _server() -> socket.socket:
    """A connection to the server of this process, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        script = str(Path(__file__).with_name("fork_server.py"))
        server = subprocess.Popen(
            [sys.executable, script, str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
        )  # fmt: skip
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours
