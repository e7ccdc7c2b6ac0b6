"""Keeps the log lines of one process in its data folder, as JSON lines in ``logs/NAME.jsonl``.

Lines are formatted like those on stderr, with the same masks. They are written by a thread, so that
a slow disk does not stop the event loop. A full disk costs lines, and nothing else.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from penstock.errors import PenstockError
from penstock.telemetry.facts import Level
from penstock.telemetry.logs import OWN, json_formatter
from penstock.telemetry.rotated_file import RotatedFile

FOLDER, SUFFIX = "logs", ".jsonl"
_MOST_WAITING = 4_000_000
"""Bytes that wait for the disk; lines beyond are dropped and counted."""
_BATCH = 64_000
_LONGEST = 32_000
"""Characters of a line; of a longer one the start is kept, as text."""
_NAME_S = 0.2
"""How often to check whether the process has got its name."""
_CLOSE_S = 1.0
"""How long the last lines may take."""


class LogFile(logging.Handler):
    """Queues lines, and writes them in a thread of its own, which starts with the first."""

    def __init__(
        self,
        folder: Path,
        name: Callable[[], str],
        most_bytes: int,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``folder`` is the data folder; ``name`` returns the process's name, "" before it has one.

        ``failed`` is called in the thread, with the reason, when lines cannot be written; once,
        until they can.
        """
        super().__init__()
        self.setFormatter(json_formatter())
        self._folder, self._name, self._most_bytes = folder / FOLDER, name, most_bytes
        self._failed, self._is_failing = failed, False
        self._lines: deque[bytes] = deque()
        self._waiting = self._dropped = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._file: RotatedFile | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line. See ``logging.Handler``."""
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._closing:
                return
            if self._waiting + len(line) > _MOST_WAITING:
                self._dropped += 1
                return
            self._lines.append(line)
            self._waiting += len(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log file", daemon=True)
                self._thread.start()
            self._changed.notify()

    def note_end(self, error: Exception) -> None:
        """Keep why the process ends. On stderr it is written later, when this file is closed."""
        if isinstance(error, PenstockError):
            self.handle(_record(logging.ERROR, "stopped", error=str(error)))
        else:
            trace = (type(error), error, error.__traceback__)
            self.handle(_record(logging.CRITICAL, "crashed", exc_info=trace))

    def close(self) -> None:
        """Write what waits, for a short time. See ``logging.Handler``."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        text = self.format(record)
        if len(text) > _LONGEST:
            fields = {"length": len(text), "start": text[: _LONGEST // 8]}
            text = self.format(_record(record.levelno, "LineTooLong", **fields))
        return text.encode() + b"\n"

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._closing or (self._lines and self._name())):
                    self._changed.wait(_NAME_S if self._lines else None)
                lines, self._lines, self._waiting = self._lines, deque(), 0
                dropped, self._dropped = self._dropped, 0
                is_last = self._closing
            if self._name():
                self._write(lines, dropped)
            if is_last:
                if self._file is not None:
                    self._file.close()
                return

    def _write(self, lines: deque[bytes], dropped: int) -> None:
        """Write lines, and how many were dropped before them."""
        if self._file is None:
            path = self._folder / (quote(self._name(), safe="") + SUFFIX)
            self._file = RotatedFile(path, self._most_bytes)
        left = deque(_batches(lines))
        try:
            while left:
                self._file.append(left[0])
                left.popleft()
            if dropped:
                self._file.append(self._line(_record(logging.WARNING, "LinesLost", count=dropped)))
            self._is_failing = False
        except OSError as error:
            with self._changed:
                self._dropped += dropped + sum(batch.count(b"\n") for batch in left)
            if not self._is_failing:
                self._is_failing = True
                self._failed(str(error))


def _record(level: int, event: str, **fields: object) -> logging.LogRecord:
    named = {"name": OWN, "levelno": level, "levelname": logging.getLevelName(level)}
    return logging.makeLogRecord({**named, "msg": event, **fields})


def _batches(lines: Iterable[bytes]) -> Iterator[bytes]:
    batch, size = list[bytes](), 0
    for line in lines:
        if size + len(line) > _BATCH and batch:
            yield b"".join(batch)
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield b"".join(batch)


@contextmanager
def logs_kept(file: LogFile, level: Level) -> Iterator[None]:
    """Write log lines from this level on to a file too."""
    root, own = logging.getLogger(), logging.getLogger(OWN)
    levels = root.level, own.level
    file.setLevel(level.upper())
    own.setLevel(min(own.level, file.level))
    root.setLevel(max(logging.WARNING, min(root.level, file.level)))
    root.addHandler(file)
    try:
        yield
    finally:
        root.removeHandler(file)
        root.setLevel(levels[0])
        own.setLevel(levels[1])
        file.close()
