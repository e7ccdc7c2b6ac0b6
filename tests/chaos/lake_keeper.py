"""Keepers that die at a named point: ``python -m tests.chaos.lake_keeper``.

It has everything imported, and forks a keeper for every line it reads: a JSON document of folder,
point and how often that point is passed before the keeper kills itself. The answer is how the
keeper ended. An empty point lets it finish; ``any`` kills it after so many milliseconds.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.app.keeper import open_keeper
from penstock.clock import SystemClock
from penstock.config import Collect, Keep, Settings
from penstock.keep import keeper
from penstock.storage.lake import delta
from penstock.storage.log.writer import SlotWriter

KEEP = Keep(settle=2, seal_rows=25, hot=7200, retention={"tickers": "7d"}, vacuum_hours=1)

POINTS: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "append": (delta, "write_deltalake", lambda *_, **given: given["mode"] == "append"),
    "verify": (delta.DeltaLake, "equal", lambda *_: True),
    "note": (keeper, "merge_seals", lambda *_: True),
    "trim": (SlotWriter, "delete_below", lambda *_, **__: True),
    "free": (SlotWriter, "compact", lambda *_: True),
    "rewrite": (delta, "write_deltalake", lambda *_, **given: given["mode"] == "overwrite"),
    "retain": (delta.DeltaLake, "delete", lambda *_: True),
    "vacuum": (delta.DeltaLake, "vacuum", lambda *_: True),
    "coverage": (delta.DeltaLake, "merge_coverage", lambda *_: True),
}
"""The calls that write: where each is looked up, and which calls count."""
NAMES = [f"{when} {name}" for name in POINTS for when in ("before", "after")]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str, count: int) -> None:
    """Have this process kill itself when it passes a point for the ``count``-th time."""
    if point == "any":
        threading.Timer(count / 1000, die).start()
        return
    when, _, name = point.partition(" ")
    owner, attribute, counts = POINTS[name]
    original, left = getattr(owner, attribute), count

    def dying(*args: Any, **given: Any) -> Any:
        nonlocal left
        left -= counts(*args, **given)
        if left == 0 and when == "before":
            die()
        result = original(*args, **given)
        if left == 0 and when == "after":
            if asyncio.iscoroutine(result):
                return _then_die(result)
            die()
        return result

    setattr(owner, attribute, dying)


async def _then_die(work: Any) -> None:
    await work
    die()


async def keep(folder: str) -> None:
    settings = Settings(keep=KEEP, collect=Collect(data_dir=folder))
    async with open_keeper(settings, SystemClock()) as found:
        await found.run_once()
        if found.problems:
            sys.stderr.write(f"{found.problems}\n")
            os._exit(3)


def main() -> None:
    for line in sys.stdin:
        folder, point, count = json.loads(line)
        child = os.fork()
        if child == 0:
            if point:
                die_at(point, count)
            errors = os.open(Path(folder) / "errors", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(errors, 2)
            try:
                asyncio.run(keep(folder))
            except BaseException as error:
                sys.stderr.write(f"{time.time()} {point}: {error!r}\n")
                os._exit(4)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
