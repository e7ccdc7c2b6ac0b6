"""Passes on the lines that processes write, each with the name of its process.

Never blocks and holds a bounded number of bytes: lines that cannot be written in time are dropped
and counted, for each process alone.
"""

import os
import threading
from collections import Counter, deque
from contextlib import suppress
from select import select
from typing import TextIO

import msgspec

from penstock.telemetry.printable import printable, printable_json

_PENDING = 256 * 1024
"""Maximum bytes of one process that wait to be written."""
_LONGEST = 32 * 1024
"""A longer line is cut."""
_AT_ONCE = 64 * 1024
_LONGEST_ERROR = 300


class Output:
    """Writes to a file descriptor in a thread of its own, which may be blocked for ever."""

    def __init__(self, descriptor: int, pending: int = _PENDING) -> None:
        self._descriptor, self._most = descriptor, pending
        self._changed = threading.Condition()
        self._queue: deque[tuple[str, bytes]] = deque()
        self._pending: Counter[str] = Counter()
        """Bytes in the queue, by source."""
        self._closed = False
        self._thread = threading.Thread(target=self._write_all, name="output", daemon=True)
        self._thread.start()

    def put(self, source: str, line: bytes) -> bool:
        """Write a line later; return False if it is dropped, because too many wait."""
        with self._changed:
            if self._closed or self._pending[source] + len(line) > self._most:
                return False
            self._pending[source] += len(line)
            self._queue.append((source, line))
            self._changed.notify()
        return True

    def close(self, within_s: float = 1.0) -> None:
        """Write what waits, but not for longer than this."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(within_s)

    def _write_all(self) -> None:
        while lines := self._take():
            with suppress(OSError):  # nobody reads any more
                left = memoryview(b"".join(line for _, line in lines))
                while left:
                    try:
                        left = left[os.write(self._descriptor, left) :]
                    except BlockingIOError:  # another program with the same terminal set O_NONBLOCK
                        select((), (self._descriptor,), ())
            with self._changed:
                for source, line in lines:
                    self._pending[source] -= len(line)

    def _take(self) -> list[tuple[str, bytes]]:
        """The next lines; they count as pending until they are written. Empty at the end."""
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            taken: list[tuple[str, bytes]] = []
            size = 0
            while self._queue and size < _AT_ONCE:
                taken.append(self._queue.popleft())
                size += len(taken[-1][1])
            return taken


class OwnLines:
    """The standard error of the supervisor itself, through the same output."""

    def __init__(self, output: Output, original: TextIO) -> None:
        self._output, self._original = output, original
        self.closed = False

    def write(self, text: str) -> int:
        """Write later, or drop it."""
        self._output.put("", text.encode(errors="replace"))
        return len(text)

    def flush(self) -> None:
        """Nothing is held here."""

    def isatty(self) -> bool:
        return self._original.isatty()

    def fileno(self) -> int:
        return self._original.fileno()


class _Stopped(msgspec.Struct):
    error: str = ""


class TaggedLines:
    """Splits what one process writes into lines, and puts its name on each."""

    def __init__(self, name: str, output: Output, *, as_json: bool) -> None:
        self._name, self._output, self._as_json = name, output, as_json
        self._field = b'{"process":' + msgspec.json.encode(name) + b","
        self._rest = b""
        self._is_cut = False
        self.dropped = 0
        """Lines that were dropped so far."""
        self.error = ""
        """The error by which the process said that it ends."""

    def feed(self, data: bytes) -> None:
        """Take what the process wrote."""
        *lines, rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._is_cut:
                self._put(line)
            self._is_cut = False
        if len(rest) > _LONGEST and not self._is_cut:
            self._put(rest)
            self._is_cut = True
        self._rest = b"" if self._is_cut else rest

    def end(self) -> None:
        """Take the end of the output."""
        if self._rest:
            self.feed(b"\n")

    def _put(self, line: bytes) -> None:
        line = line.rstrip()
        self._note_error(line)
        if line and not self._output.put(self._name, self._tagged(line) + b"\n"):
            self.dropped += 1

    def _note_error(self, line: bytes) -> None:
        """Remember the error by which a command ends, as ``penstock`` writes it."""
        if line.startswith(b"penstock: "):
            self.error = line[:_LONGEST_ERROR].decode(errors="replace").removeprefix("penstock: ")
        elif line.startswith(b"{") and b'"event":"stopped"' in line:
            with suppress(msgspec.DecodeError):
                self.error = msgspec.json.decode(line, type=_Stopped).error[:_LONGEST_ERROR]

    def _tagged(self, line: bytes) -> bytes:
        if not self._as_json:
            text = line[:_LONGEST].decode(errors="replace")
            return f"{self._name} | {printable(text)}".encode()
        if line.startswith(b'{"') and line.endswith(b"}") and len(line) <= _LONGEST:
            return self._field + line[1:]
        text = line[:_LONGEST].decode(errors="replace")
        wrapped = {"process": self._name, "level": "info", "event": "output", "text": text}
        return printable_json(msgspec.json.encode(wrapped).decode()).encode()
