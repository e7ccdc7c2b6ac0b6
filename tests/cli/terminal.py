"""A terminal: a command in a pty of a given size, with job control, and the screen it makes."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyte
from tests.forked import Forked
from tests.waiting import PATIENCE_S

CTRL_C = "\x03"


class Terminal:
    """What a person sees of a command, and what they can type at it."""

    def __init__(self, process: subprocess.Popen[Any], pty_: int, width: int, height: int):
        self.process, self._pty = process, pty_
        self.screen = pyte.HistoryScreen(width, height, history=10_000, ratio=1)
        self.raw = b""
        """Everything that was written."""
        self._stream = pyte.ByteStream(self.screen)

    @property
    def lines(self) -> list[str]:
        """The screen, without blanks at the ends of lines."""
        return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        """The screen as one text, lines without anything at the end left out."""
        return "\n".join(self.lines).rstrip()

    @property
    def everything(self) -> str:
        """The screen, and above it what has scrolled out of it."""
        gone = [
            "".join(line[column].data for column in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        return "\n".join([*gone, self.text])

    def type(self, keys: str) -> None:
        os.write(self._pty, keys.encode())

    def read(self, seconds: float = 0.1) -> bool:
        """Take in what was written; False once nobody can write any more."""
        if not select.select([self._pty], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self._pty, 65_536)
        except OSError:  # every process that had the terminal is gone
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def until(self, true: Callable[[], bool]) -> None:
        """Read until something is to be seen."""
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, self.everything
            assert self.read() or true(), self.everything

    def until_shown(self, *words: str) -> None:
        self.until(lambda: all(each in self.text for each in words))

    def ended(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.read():
            assert time.monotonic() < deadline, self.everything
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def terminal(
    command: Sequence[str],
    *,
    size: tuple[int, int],
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Terminal]:
    """A command in a terminal of its own: killed in the end, with all of its session."""
    width, height = size
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    unset = {"COLUMNS", "LINES", "NO_COLOR", "TERM"}
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    options: dict[str, Any] = {
        "cwd": folder,
        "env": {**inherited, "TERM": "xterm-256color", **(environment or {})},
        "stdin": theirs,
        "stdout": theirs,
        "stderr": theirs,
        # A session leader whose controlling terminal this is: only so is there a foreground.
        "start_new_session": True,
    }
    process: subprocess.Popen[Any]
    if command[0] == sys.executable and sys.platform == "linux":
        process = Forked(command[1:], **options)
    else:
        options["preexec_fn"] = lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        process = subprocess.Popen(command, **options)
    os.close(theirs)
    try:
        yield Terminal(process, ours, width, height)
    finally:
        _kill_session(process.pid)
        process.wait()
        os.close(ours)


def _kill_session(leader: int) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == leader:
                    os.kill(int(entry.name), signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
