"""Forks Python programs from a process that has penstock imported: see ``forked.py``.

It is a process of its own, or a fork of a worker of the tests, which has imported it all already. A
request is a JSON document of the interpreter's arguments, the folder and the environment, with
the three standard streams as file descriptors. The answer is the process id. The program's parent
ends at once, so that the program becomes a child of whoever asked.
"""

import atexit
import contextlib
import faulthandler
import fcntl
import functools
import gc
import importlib
import json
import logging
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import termios
import threading
import warnings
from pathlib import Path
from typing import Any, NoReturn

LONGEST = 1 << 20
USUAL_THRESHOLDS = gc.get_threshold()
LATE = ("typer.rich_utils", "rich.markdown")
"""What the first command imports."""


@functools.cache
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
    with contextlib.suppress(ImportError):
        importlib.import_module("penstock.api.application").routes()
    gc.freeze()  # looking at it would copy its pages in every fork


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


def fork_server() -> None:
    """Let this process fork programs from a copy of it as it is now, which ends with it."""
    from tests.forked import use_server  # noqa: PLC0415

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if (server := os.fork()) == 0:
        os.setsid()  # Ctrl-C is for the command alone
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        forget_files(theirs.fileno())
        serve(theirs)
        os._exit(0)
    theirs.close()
    atexit.register(os.waitpid, server, 0)
    atexit.register(ours.close)
    use_server(ours)


def forget_files(kept: int) -> None:
    """Close what others would wait for until this process ends."""
    faulthandler.disable()
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def fork_own_commands() -> None:
    """Let this process fork the commands that it starts itself."""
    from tests.forked import Forked  # noqa: PLC0415

    fork_server()
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
) -> NoReturn:
    """Be a program from now on, as the interpreter is with these arguments."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    begin()
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
    try:
        run(words)
    except SystemExit as end:
        leave(end)
    except BaseException as error:
        sys.excepthook(*sys.exc_info())
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        leave(SystemExit(1))
    leave(SystemExit())


def run(words: list[str]) -> None:
    """Run what the interpreter's arguments name."""
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


def begin() -> None:
    """Forget what a process did before it was forked to be a program."""
    atexit._clear()
    gc.set_threshold(*USUAL_THRESHOLDS)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    logging.getLogger().handlers.clear()
    usual = [each for each in warnings.filters if each[0] in ("default", "ignore")]
    warnings.filters[:] = usual  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", buffering=1, errors="backslashreplace", closefd=False
    )


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
        become(**json.loads(request), streams=streams)
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
        import_everything()
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
