"""Runs a process until it is stopped, with a view that is redrawn meanwhile."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer
from rich.console import Console, RenderableType

from penstock.cli.fitting import Viewport
from penstock.cli.memory import keep_for_good
from penstock.cli.painter import Painter, write
from penstock.clock import Clock, wait_for
from penstock.config.collecting import EventLoop
from penstock.errors import TEMPORARY, PenstockError, may_pass
from penstock.runtime.event_loops import loop_factory
from penstock.runtime.stopping import stop_after
from penstock.telemetry import (
    Fact,
    Listener,
    hidden_from_stderr,
    log_error,
    log_info,
    logs_json,
)

T = TypeVar("T")

_DRAW_S = 0.25
_LOOK_S = 0.5
"""Interval at which a background process checks whether it is in the foreground."""
_LONGEST_COMMAND = 200
"""Maximum characters of a command that is printed again; it may have hundreds of markets."""


class View(NamedTuple):
    """Functions that show a process's state: as a view that fits a viewport, and in one line."""

    draw: Callable[[Viewport], RenderableType]
    describe: Callable[[], str]
    below: str = ""
    """Text that is written below the last frame, which leaves room for it."""
    line_s: float = 10.0
    """Seconds between lines where no view is drawn."""


def in_foreground() -> bool:
    """Whether this process may draw: it has a terminal and is in its foreground."""
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:  # not the controlling terminal, or it was closed
        return False


def unless_drawn(log: Listener) -> Listener:
    """Return a listener that logs to stderr only while no view is drawn, which lines would break.

    The log file of the process has all lines.
    """

    def emit(fact: Fact) -> None:
        with hidden_from_stderr(in_foreground()):
            log(fact)

    return emit


@contextmanager
def last_words_logged(*, retried: bool = True) -> Iterator[None]:
    """Report an error that ends a long-running process, in the format of its logs.

    For one that is started again when it ends (``retried``), the exit code tells whether the same
    command may succeed later.
    """
    try:
        yield
    except PenstockError as error:
        if logs_json():
            log_error("stopped", error=str(error))
        else:
            write(f"penstock: {error}\n")
        raise typer.Exit(TEMPORARY if retried and may_pass(error) else 2) from error


def run_process(main: Coroutine[Any, Any, T], loop: EventLoop = "asyncio") -> T:
    """Run a coroutine to its end; exit with 1 after a second signal.

    Raises:
        MissingExtra: the event loop is not installed.
    """
    keep_for_good()
    # Else uvloop has a thread of the kernel wait for requests by polling, which it hardly makes.
    os.environ.setdefault("UV_USE_IO_URING", "0")
    try:
        with closing(main):  # it was never started if the event loop is not installed
            factory = loop_factory(loop)
            with asyncio.Runner(loop_factory=factory) as runner:
                return runner.run(main)
    except asyncio.CancelledError:
        write("penstock: stopped at once after a second signal\n")
        raise typer.Exit(1) from None


async def run_shown(
    running: Coroutine[Any, Any, None],
    stop: asyncio.Event,
    seconds: float | None,
    clock: Clock,
    view: View,
) -> None:
    """Run a coroutine that ends when ``stop`` is set, at the latest after ``seconds``, and show it.

    The last frame shows the final state.
    """
    over = asyncio.Event()
    task = asyncio.create_task(running)
    task.add_done_callback(lambda _: over.set())
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    try:
        await show_until(over, clock, view)
    finally:
        deadline.cancel()
        if not over.is_set():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    await task


async def show_until(stop: asyncio.Event, clock: Clock, view: View) -> None:
    """Until ``stop`` is set, redraw a view on a terminal; elsewhere log a line now and then.

    In the background only lines are logged, as another process may draw on the terminal.
    """
    painter, line_ns = Painter(Console(stderr=True)), clock.monotonic_ns()
    loop = asyncio.get_running_loop()
    # While the process was suspended, other output may have been written below its last frame.
    loop.add_signal_handler(signal.SIGCONT, painter.leave)
    try:
        while not stop.is_set():
            if in_foreground():
                painter.draw(view.draw)
                await wait_for(stop, clock, _DRAW_S)
                continue
            painter.leave()
            if clock.monotonic_ns() - line_ns >= view.line_s * 1_000_000_000:
                line_ns = clock.monotonic_ns()
                log_info("running", now=view.describe())
            await wait_for(stop, clock, _LOOK_S)
        if in_foreground():
            painter.draw(view.draw, view.below)
    finally:
        loop.remove_signal_handler(signal.SIGCONT)


def stopped_words(data_dir: str) -> str:
    """The closing message: where the data is, and the command to continue."""
    again = shlex.join(["penstock", *sys.argv[1:]])
    if len(again) > _LONGEST_COMMAND:
        again = "the same command"
    return f"Stopped. The data is in {Path(data_dir).resolve()}\nContinue with: {again}\n"
