"""What is checked, and what a check finds."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple, TypeVar

from msgspec import Struct

from penstock.clock import Clock
from penstock.config import Settings
from penstock.connectors.model import Connector
from penstock.jobs.product_locks import ProductLock
from penstock.runtime.status import SeenProcess

T = TypeVar("T")

Level = Literal["ok", "warning", "problem"]
_EXIT: dict[Level, int] = {"ok": 0, "warning": 1, "problem": 2}


class Finding(Struct, frozen=True, kw_only=True):
    """The result of a check."""

    check: str
    """What was checked, such as ``disk``."""
    level: Level
    words: str
    """What was found."""
    remedy: str = ""
    """What to do about it; empty if nothing is."""


class Fleet(NamedTuple):
    """What the state store says."""

    connectors: Sequence[Connector] = ()
    locks: Sequence[ProductLock] = ()
    processes: Sequence[SeenProcess] = ()
    now_ms: int = 0
    """By the store's clock."""


class Subject(NamedTuple):
    """What is checked."""

    settings: Settings
    clock: Clock
    exchanges: tuple[str, ...]
    fleet: Fleet | None = None
    """None if the state store cannot be read."""


Check = Callable[[Subject], Awaitable[Iterable[Finding]]]


def ok(check: str, words: str) -> Finding:
    """Nothing to do."""
    return Finding(check=check, level="ok", words=words)


def warning(check: str, words: str, remedy: str) -> Finding:
    """Something that may become a problem."""
    return Finding(check=check, level="warning", words=words, remedy=remedy)


def problem(check: str, words: str, remedy: str) -> Finding:
    """Something that does not work."""
    return Finding(check=check, level="problem", words=words, remedy=remedy)


def worst(findings: Iterable[Finding]) -> int:
    """The exit code: 0 if all is well, 1 with a warning, 2 with a problem."""
    return max((_EXIT[each.level] for each in findings), default=0)


async def in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call in a thread that does not keep the process from ending.

    A disk that hangs may block it for ever.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as failure:
            error = failure
        with suppress(RuntimeError):  # it took longer than anybody waited
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="penstock-doctor", daemon=True).start()
    return await done
