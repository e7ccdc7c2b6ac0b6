"""Runs penstock commands as child processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from penstock.errors import PenstockError

T = TypeVar("T")

_STOP_S = 20.0
_LAST_WORDS = 2000


@asynccontextmanager
async def running(
    words: Sequence[str], environment: Mapping[str, str], stop_s: float = _STOP_S
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a penstock command as a process; at the end, send SIGTERM, and SIGKILL if needed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", *words,
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        # Ctrl-C reaches only the parent, which stops its children when it is done with them.
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), stop_s)
        except TimeoutError:
            process.kill()
            await process.wait()
        if process.returncode not in (0, 1):
            sys.stderr.write((await errors).decode(errors="replace")[-_LAST_WORDS:])


async def while_running(
    processes: Mapping[str, asyncio.subprocess.Process], doing: Coroutine[Any, Any, T]
) -> T:
    """Do something for which processes, given by name, have to run.

    Raises:
        PenstockError: one of them ended meanwhile.
    """
    work = asyncio.ensure_future(doing)
    ends = {asyncio.create_task(each.wait()): name for name, each in processes.items()}
    try:
        await asyncio.wait({work, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        name, code = next((name, end.result()) for end, name in ends.items() if end.done())
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise PenstockError(f"{name} ended early ({how}); its last output is above.")
    finally:
        for task in (work, *ends):
            task.cancel()
        await asyncio.gather(work, *ends, return_exceptions=True)
