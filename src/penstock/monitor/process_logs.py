"""The log lines that the processes of a data folder kept, the newest of all of them first.

Files are read from their ends, block by block, and only as far as needed: a page of the newest
lines takes as long with 100 MB of logs as with one. A line that is not complete is left out.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from heapq import merge
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from penstock.errors import StorageError
from penstock.monitor.log_tails import HEAD, Tail, open_tails
from penstock.telemetry.log_file import FOLDER
from penstock.telemetry.printable import printable_json

Level = Literal["debug", "info", "warning", "error"]
_LEVELS = {b"debug": 0, b"info": 1, b"warning": 2, b"error": 3, b"critical": 3}
_NAMES: tuple[Level, ...] = ("debug", "info", "warning", "error")
MOST_SCANNED = 32_000_000
"""Bytes that are read for one page; if they hold too few lines, the next page continues there."""
_TOKEN = re.compile(r"([0-9T:.-]{19,29}) ([0-9]{1,9}) (.{1,300})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LogLine(Struct, frozen=True, kw_only=True):
    """One log line. Its texts are what others sent, too: show them as text."""

    at_ms: int
    level: Level
    process: str
    event: str
    fields: dict[str, Any]


class LogPage(Struct, frozen=True, kw_only=True):
    """Some lines, the newest first."""

    items: list[LogLine]
    next: str | None
    """For ``after``: where the next page begins; null if this is the last."""


class LogQuery(Struct, frozen=True, kw_only=True):
    """Which lines to read."""

    level: Level = "debug"
    """Only lines of this level and above."""
    process: str | None = None
    """Only lines of this process."""
    text: str | None = None
    """Only lines with this text anywhere; the case of the letters a to z is ignored."""
    after: str | None = None
    """``next`` of the page before."""
    limit: int = 200


class LogFilter:
    """The lines to show, chosen by their bytes: most need not be decoded."""

    def __init__(self, query: LogQuery) -> None:
        self._process, self._least = query.process, _NAMES.index(query.level)
        # As it is written within a line.
        text = printable_json(msgspec.json.encode(query.text or "").decode())[1:-1]
        self._text = text.encode().lower()

    def read(self, process: str, line: bytes) -> LogLine | None:
        """A line; None if it is not to be shown, or damaged."""
        head = HEAD.match(line)
        level = _LEVELS.get(head[2], -1) if head is not None else -1
        if level < self._least or self._process not in (None, process):
            return None
        if self._text and self._text not in line.lower():
            return None
        return _decoded(process, level, line)


def _decoded(process: str, level: int, line: bytes) -> LogLine | None:
    try:
        fields = _decode(line)
        at = datetime.fromisoformat(str(fields.pop("ts")))
        at_ms = (at - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError, RecursionError):  # msgspec's errors are such, too
        return None
    fields.pop("level", None)
    event = str(fields.pop("event", ""))
    return LogLine(at_ms=at_ms, level=_NAMES[level], process=process, event=event, fields=fields)


class _Position(NamedTuple):
    """The last line that was read."""

    ts: bytes
    process: str
    lines: int
    """How many lines of this process with this time were read."""


class _Found(NamedTuple):
    ts: bytes
    process: str
    line: bytes


def read_logs(folder: Path, query: LogQuery) -> LogPage:
    """Read a page of the lines in a data folder. It blocks: call it in a thread.

    Raises:
        ValueError: ``after`` is not the ``next`` of a page.
        StorageError: a file cannot be read.
    """
    after = None if query.after is None else _position(query.after)
    try:
        with ExitStack() as stack:
            return _page(open_tails(folder, stack, query.process), query, after)
    except OSError as error:
        raise unreadable(folder, error) from error


def unreadable(folder: Path, error: OSError) -> StorageError:
    """The error for log files that cannot be read."""
    return StorageError(error.filename or str(folder / FOLDER), error.strerror or str(error))


def _page(tails: Sequence[Tail], query: LogQuery, after: _Position | None) -> LogPage:
    items: list[LogLine] = []
    last, more, wanted = after, False, LogFilter(query)
    for found in merge(*(_lines(tail, after) for tail in tails), key=_key, reverse=True):
        if len(items) >= query.limit or (last is not after and _scanned(tails) > MOST_SCANNED):
            more = True
            break
        last = _after(last, found)
        if (line := wanted.read(found.process, found.line)) is not None:
            items.append(line)
    return LogPage(items=items, next=_token(last) if more and last is not None else None)


def _key(found: _Found) -> tuple[bytes, str]:
    return found.ts, found.process


def _scanned(tails: Sequence[Tail]) -> int:
    return sum(tail.scanned for tail in tails)


def _lines(tail: Tail, after: _Position | None) -> Iterator[_Found]:
    """The lines of one process after a position, the newest first.

    A line has at most the time of the line after it: clocks may be set back.
    """
    name, latest, skipped = tail.process, b"~", 0
    for line in tail.lines(None if after is None else after.ts):
        if (head := HEAD.match(line)) is None:
            continue
        latest = min(latest, head[1])
        if after is not None:
            if (latest, name) > (after.ts, after.process):
                continue
            if (latest, name) == (after.ts, after.process) and skipped < after.lines:
                skipped += 1
                continue
        yield _Found(latest, name, line)


def _after(last: _Position | None, found: _Found) -> _Position:
    lines = 1
    if last is not None and (last.ts, last.process) == (found.ts, found.process):
        lines = last.lines + 1
    return _Position(found.ts, found.process, lines)


def _token(position: _Position) -> str:
    return f"{position.ts.decode()} {position.lines} {position.process}"


def _position(token: str) -> _Position:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise ValueError("it is not the `next` of a page")
    return _Position(match[1].encode(), match[3], int(match[2]))
