"""Forks Python programs from a process that has penstock imported: see ``forked.py``.

A request is a JSON document of the interpreter's arguments, the folder and the environment, with
the three standard streams as file descriptors. The answer is the process id. The program's parent
ends at once, so that the program becomes a child of whoever asked.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any, NoReturn

LONGEST = 1 << 20


LATE = ("typer._adapters", "typer.rich_utils", "rich.markdown")
"""What the first command imports."""


def import_everything() -> None:
    """Import every module that does not need a library of its own kind."""
    import penstock  # noqa: PLC0415

    for late in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(late)
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if "__main__" not in module.name and "ccxt" not in module.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def read_libraries(words: list[str]) -> None:
    """Read what a simulator's markets share, before it starts: it is kept."""
    from penstock.simulator import registry  # noqa: PLC0415
    from penstock.simulator.market.market import library_of  # noqa: PLC0415

    exchange = next((word for word in words if word in registry.names()), registry.names()[0])
    catalogue = registry.catalogue(exchange)
    listings = catalogue.all()
    if "--symbols" in words and (named := words[words.index("--symbols") + 1]) != "all":
        with contextlib.suppress(Exception):  # which the simulator will tell
            listings = catalogue.find(named.split(","))
    for listing in listings:
        library_of(listing)
    gc.freeze()


def fork_own_commands() -> None:
    """Let this process fork the commands that it starts itself, from a copy of it as it is now."""
    from tests.forked import Forked, use_server  # noqa: PLC0415

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        os.setsid()  # Ctrl-C is for the command alone
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        serve(theirs)
        os._exit(0)
    theirs.close()
    use_server(ours)
    execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def execute_or_fork(process: Any, args: Any, *given: Any) -> None:
        if list(args[:3]) == [sys.executable, "-m", "penstock"]:
            Forked._execute_child(process, args[1:], *given)
        else:
            execute(process, args, *given)

    subprocess.Popen._execute_child = execute_or_fork  # type: ignore[attr-defined]


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
        # Only with a controlling terminal is there a foreground; another session may have it.
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [path for path in paths if path and path not in sys.path]
    if words[:3] == ["-m", "penstock", "demo"]:
        fork_own_commands()
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


def leave(end: SystemExit) -> NoReturn:
    """End as the interpreter does, but leave memory alone: every page of it would be copied."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def fork(connection: socket.socket, request: bytes, streams: list[int]) -> None:
    """Fork twice: once for a parent that ends at once, and then the program."""
    parent = os.fork()
    if parent == 0:
        program = os.fork()
        if program:
            connection.send(str(program).encode())
            os._exit(0)
        connection.close()
        try:
            become(**json.loads(request), streams=streams)
        except SystemExit as end:
            leave(end)
        leave(SystemExit())
    os.waitpid(parent, 0)
    # The program is a child of whoever asked by now.
    connection.send(b"ready")
    for stream in streams:
        os.close(stream)


def serve(connection: socket.socket) -> None:
    """Fork what is asked for, until nobody is left to ask."""
    while True:
        request, streams, _, _ = socket.recv_fds(connection, LONGEST, 3)
        if not request:
            return
        words = json.loads(request)["words"]
        if words[:3] == ["-m", "penstock", "sim"]:
            read_libraries(words)
        fork(connection, request, streams)


def main() -> None:
    gc.disable()
    import_everything()
    sys.path[0] = str(Path(__file__).parents[1])
    from tests.libraries import read_libraries_from_files  # noqa: PLC0415

    read_libraries_from_files()
    gc.freeze()
    gc.enable()
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
