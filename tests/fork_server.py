"""Forks Python programs from a process that has penstock imported: see ``forked.py``.

A request is a JSON document of the interpreter's arguments, the folder and the environment, with
the three standard streams as file descriptors. The answer is the process id. The program's parent
ends at once, so that the program becomes a child of whoever asked.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import termios

LONGEST = 1 << 20


def import_everything() -> None:
    """Import every module that does not need a library of its own kind."""
    import penstock  # noqa: PLC0415

    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if "__main__" not in module.name and "ccxt" not in module.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def build_libraries() -> None:
    """Build the libraries of every simulated market: they are kept, and take seconds to build."""
    from penstock.simulator import registry  # noqa: PLC0415
    from penstock.simulator.market.market import library_of  # noqa: PLC0415

    for name in registry.names():
        for listing in registry.catalogue(name).all():
            library_of(listing)
    gc.freeze()


def become(
    words: list[str],
    folder: str,
    environment: dict[str, str],
    new_session: bool,
    streams: list[int],
) -> None:
    """Run a program in this process, as the interpreter does with these arguments."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if new_session:
        os.setsid()
        if os.isatty(0):  # Only with a controlling terminal is there a foreground.
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    match words:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(code, {"__name__": "__main__"})
        case [script, *_]:
            sys.argv = words
            runpy.run_path(script, run_name="__main__")


def fork(connection: socket.socket, request: bytes, streams: list[int]) -> bool:
    """Fork twice; whether this is the program, and is over."""
    parent = os.fork()
    if parent == 0:
        program = os.fork()
        if program:
            connection.send(str(program).encode())
            os._exit(0)
        connection.close()
        become(**json.loads(request), streams=streams)
        return True
    os.waitpid(parent, 0)
    # The program is a child of whoever asked by now.
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
        if b'"sim"' in request:
            build_libraries()
        if not request or fork(connection, request, streams):
            return


if __name__ == "__main__":
    main()
