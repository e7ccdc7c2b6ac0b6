"""Forks penstock commands from a process that has everything imported: see ``forked.py``.

A request is a JSON document of program, arguments, folder and environment, with the three standard
streams as file descriptors. The answer is the process id. The command's parent ends at once, so
that the command becomes a child of whoever asked.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys

LONGEST = 1 << 20


def import_everything() -> None:
    """Import every module that does not need a library of its own kind."""
    import penstock  # noqa: PLC0415

    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if "__main__" not in module.name and "ccxt" not in module.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def become(
    program: str | None,
    words: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[int],
) -> None:
    """Run a command in this process: the script that is named, or penstock itself."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["penstock", *words]
    if program is None:
        runpy.run_module("penstock", run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")


def fork(connection: socket.socket, request: bytes, streams: list[int]) -> bool:
    """Fork twice; whether this is the command, and is over."""
    parent = os.fork()
    if parent == 0:
        command = os.fork()
        if command:
            connection.send(str(command).encode())
            os._exit(0)
        connection.close()
        become(**json.loads(request), streams=streams)
        return True
    os.waitpid(parent, 0)
    # The command is a child of whoever asked by now.
    connection.send(b"ready")
    for stream in streams:
        os.close(stream)
    return False


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    import_everything()
    gc.freeze()
    while True:
        request, streams, _, _ = socket.recv_fds(connection, LONGEST, 3)
        if not request or fork(connection, request, streams):
            return


if __name__ == "__main__":
    main()
