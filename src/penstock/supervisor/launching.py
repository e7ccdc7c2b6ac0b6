"""Starts processes and passes their output on."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.supervisor import tied
from penstock.supervisor.model import ChildPlan
from penstock.supervisor.output import Output, TaggedLines

_LAST_LINES_S = 0.25
"""Seconds to wait for the last lines of a process that has ended."""


class Launched:
    """A process that was started."""

    def __init__(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        self.pid = transport.get_pid()

    def terminate(self) -> None:
        """Send SIGTERM."""
        with suppress(ProcessLookupError):
            self._transport.terminate()

    def kill(self) -> None:
        """Send SIGKILL to it and to what it started."""
        if self._transport.get_returncode() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


class Launcher:
    """Starts commands, each in a session of its own, so that Ctrl-C does not reach them."""

    def __init__(
        self,
        program: Sequence[str],
        environment: Mapping[str, str],
        output: Output,
        *,
        as_json: bool,
    ) -> None:
        """``program`` is what every command begins with, the path of an executable first."""
        self._program, self._environment = tuple(program), dict(environment)
        self._output, self._as_json = output, as_json
        self._lines: dict[str, TaggedLines] = {}

    def lines_of(self, name: str) -> TaggedLines:
        """The output of a process, over all its restarts."""
        if name not in self._lines:
            self._lines[name] = TaggedLines(name, self._output, as_json=self._as_json)
        return self._lines[name]

    async def start(self, plan: ChildPlan, exited: Callable[[int, str], None]) -> Launched:
        """Start a process; ``exited`` receives its exit code, and its last error if it told one.

        The code is negative for a signal.

        Raises:
            OSError: it cannot be started.
        """
        command = (*self._program, *plan.words)
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Protocol(self.lines_of(plan.name), exited),
            sys.executable, "-I", "-S", str(Path(tied.__file__)), str(os.getpid()), *command,
            env={**self._environment, **plan.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        return Launched(transport)


class _Protocol(asyncio.SubprocessProtocol):
    """Takes a process's output, and reports its end.

    It has ended when the kernel says so: what it started may hold its pipe for longer.
    """

    def __init__(self, lines: TaggedLines, exited: Callable[[int, str], None]) -> None:
        self._lines, self._exited = lines, exited
        self._transport: Any = None
        self._has_ended = self._is_reported = self._is_closed = False
        lines.error = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 (asyncio's name)
        self._lines.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self._lines.end()
        self._is_closed = True
        if self._has_ended:
            self._report_end()

    def process_exited(self) -> None:
        self._has_ended = True
        if self._is_closed:
            self._report_end()
        else:
            asyncio.get_running_loop().call_later(_LAST_LINES_S, self._report_end)

    def _report_end(self) -> None:
        if not self._is_reported:
            self._is_reported = True
            code = self._transport.get_returncode()
            self._transport.close()
            self._exited(code, self._lines.error)
