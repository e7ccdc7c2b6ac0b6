"""Running until told to stop: signals, deadlines, and a view that is drawn meanwhile."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.live import Live

from penstock.clock import Clock, wait_for

_DRAW_S = 0.25
_LINE_S = 10.0


class View(NamedTuple):
    """How to show something: as a picture, and in a line."""

    draw: Callable[[], RenderableType]
    describe: Callable[[], str]


def on_terminal() -> bool:
    """Whether somebody watches."""
    return sys.stderr.isatty()


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on the first Ctrl-C or SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


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
    """Run something to its end, which ``stop`` or so many seconds bring about, and show it."""
    task = asyncio.create_task(running)
    task.add_done_callback(lambda _: stop.set())
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    await show_until(stop, clock, view.draw, view.describe)
    deadline.cancel()
    await task


async def show_until(
    stop: asyncio.Event,
    clock: Clock,
    draw: Callable[[], RenderableType],
    describe: Callable[[], str],
) -> None:
    """Until ``stop``: redraw a view on a terminal, write a line now and then elsewhere."""
    console = Console(stderr=True)
    if on_terminal():
        with Live(console=console, auto_refresh=False, screen=False) as live:
            while not stop.is_set():
                live.update(draw(), refresh=True)
                await wait_for(stop, clock, _DRAW_S)
        return
    while not await wait_for(stop, clock, _LINE_S):
        sys.stderr.write(describe() + "\n")
