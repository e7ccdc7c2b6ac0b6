"""Running until told to stop: signals, deadlines, and a view that is drawn meanwhile."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console, RenderableType

from penstock.cli.fitting import Room
from penstock.cli.painter import Painter
from penstock.clock import Clock, wait_for
from penstock.errors import PenstockError
from penstock.telemetry import Fact, Listener, log_error, log_info, logs_json

_DRAW_S = 0.25
_LOOK_S = 0.5
"""How often a process in the background looks whether it still is."""
_LONGEST_COMMAND = 200
"""A longer one, with hundreds of markets, is not repeated."""
_LINE_NS = 10_000_000_000
"""How often a line is written where nothing is drawn."""


class View(NamedTuple):
    """How to show something: as a picture that fits its room, and in a line."""

    draw: Callable[[Room], RenderableType]
    describe: Callable[[], str]
    below: str = ""
    """What will be written below the last frame, which leaves room for it."""


def in_foreground() -> bool:
    """Whether this process may draw: it has a terminal, and is not in the background there."""
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:  # a terminal that is not ours, or that was closed
        return False


def unless_drawn(log: Listener) -> Listener:
    """Hands facts on while no view is drawn, which they would be written into."""

    def tell(fact: Fact) -> None:
        if not in_foreground():
            log(fact)

    return tell


@contextmanager
def last_words_logged() -> Iterator[None]:
    """For processes that run on: an error that ends one is a line of its log too.

    So whoever reads the log needs to know one format.
    """
    try:
        yield
    except PenstockError as error:
        if not logs_json():
            raise
        log_error("stopped", error=str(error))
        raise typer.Exit(2) from error


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on the first Ctrl-C or SIGTERM, or when the terminal is closed."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup wants it
        loop.add_signal_handler(signal.SIGHUP, stop.set)


async def stop_after(seconds: float | None, stop: asyncio.Event, clock: Clock) -> None:
    """Set ``stop`` once so much time has passed; never, if no time is given."""
    if seconds is not None:
        await clock.sleep(seconds)
        stop.set()


async def run_shown(
    running: Coroutine[Any, Any, None],
    stop: asyncio.Event,
    seconds: float | None,
    clock: Clock,
    view: View,
) -> None:
    """Run something to its end, which ``stop`` or so many seconds bring about, and show it.

    The last frame shows how it ended.
    """
    over = asyncio.Event()
    task = asyncio.create_task(running)
    task.add_done_callback(lambda _: over.set())
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    await show_until(over, clock, view)
    deadline.cancel()
    await task


async def show_until(stop: asyncio.Event, clock: Clock, view: View) -> None:
    """Until ``stop``: redraw a view on a terminal, write a line now and then elsewhere.

    In the background only lines are written, for the terminal is another's to draw on.
    """
    painter, line_ns = Painter(Console(stderr=True)), clock.monotonic_ns()
    loop = asyncio.get_running_loop()
    # Whoever is continued finds what was written meanwhile below its last frame.
    loop.add_signal_handler(signal.SIGCONT, painter.leave)
    try:
        while not stop.is_set():
            if in_foreground():
                painter.draw(view.draw)
                await wait_for(stop, clock, _DRAW_S)
                continue
            painter.leave()
            if clock.monotonic_ns() - line_ns >= _LINE_NS:
                line_ns = clock.monotonic_ns()
                log_info("running", now=view.describe())
            await wait_for(stop, clock, _LOOK_S)
        if in_foreground():
            painter.draw(view.draw, view.below)
    finally:
        loop.remove_signal_handler(signal.SIGCONT)


def stopped_words(data_dir: str) -> str:
    """What to say in the end: where the data is, and how to go on with it."""
    again = shlex.join(["penstock", *sys.argv[1:]])
    if len(again) > _LONGEST_COMMAND:
        again = "the same command"
    return f"Stopped. The data is in {Path(data_dir).resolve()}\nGo on with: {again}\n"
