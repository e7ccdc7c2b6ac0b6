"""The shell in which a page's examples run, and whose ``penstock`` needs no second to start.

This program is forked from a process that has everything imported (``forked.py``). Before it
becomes the shell it forks another of itself, from which the commands are forked in turn, so all of
them are in the shell's session. What the shell runs as ``penstock`` is ``example_command.py``.
"""

import marshal
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import NoReturn

from tests.fork_server import LONGEST, become, read_libraries

COMMAND = Path(__file__).with_name("example_command.py")


def serve(listener: socket.socket) -> NoReturn:
    """Run commands until the session is killed."""
    os.setpgid(0, 0)  # Ctrl-C is for the commands alone
    while True:
        connection, _ = listener.accept()
        request, streams, _, _ = socket.recv_fds(connection, LONGEST, 3)
        words, folder, environment = marshal.loads(request)
        if words[:1] == ["sim"]:
            read_libraries(words)
        if os.fork() == 0:
            listener.close()
            run(connection, ["-m", "penstock", *words], folder, environment, streams)
        connection.close()
        for stream in streams:
            os.close(stream)


def run(
    connection: socket.socket,
    words: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[int],
) -> NoReturn:
    """Run a command in a fork, and tell its process id and how it ended."""
    program = os.fork()
    if program == 0:
        connection.close()
        become(words, folder, environment, new_session=False, streams=streams)
    for stream in (*streams, 0, 1, 2):
        os.close(stream)
    connection.send(marshal.dumps(program))
    _, status = os.waitpid(program, 0)
    connection.send(marshal.dumps(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def main(script: str) -> None:
    name = f"penstock-examples-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{name}")
    listener.listen()
    if os.fork() == 0:
        serve(listener)
    words = shlex.join([sys.executable, "-IS", str(COMMAND), name])
    function = f'penstock() {{ {words} "$@"; }}\n'
    os.execvp("bash", ["bash", "-m", "-e", "-c", function + script])


if __name__ == "__main__":
    main(sys.argv[1])
