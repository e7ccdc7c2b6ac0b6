"""Running until told to stop: signals, deadlines, and a view that is drawn meanwhile."""

import asyncio
import os
import shlex
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer
from rich.console import Console, RenderableType

from penstock.cli.fitting import Viewport
from penstock.cli.painter import Painter, write
from penstock.clock import Clock, wait_for
from penstock.errors import PenstockError
from penstock.signals import take_hangup
from penstock.telemetry import Fact, Listener, log_error, log_info, logs_json

T = TypeVar("T")

_DRAW_S = 0.25
_LOOK_S = 0.5
"""How often a process in the background looks whether it still is."""
_LONGEST_COMMAND = 200
"""A longer one, with hundreds of markets, is not repeated."""
_LINE_NS = 10_000_000_000
"""How often a line is written where nothing is drawn."""
_AT_ONCE_S = 2.0
"""How long a process may take to end that was told twice to stop."""


class ToldToStop(Exception):
    """Somebody told the process to stop before it had begun."""


class View(NamedTuple):
    """How to show something: as a picture that fits its room, and in a line."""

    draw: Callable[[Viewport], RenderableType]
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


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """Run something to its end; exits 1 if it was told twice to stop."""
    try:
        return asyncio.run(main)
    except asyncio.CancelledError:
        write("penstock: told twice to stop: stopped at once\n")
        raise typer.Exit(1) from None


def stop_on_signals(stop: asyncio.Event, hangup: asyncio.Event | None = None) -> None:
    """Set ``stop`` on the first Ctrl-C or SIGTERM, or when the terminal is closed.

    The second time, end at once. SIGHUP from anybody but a terminal that was closed ends nothing;
    it sets ``hangup``, also where it came before this was called.
    """
    loop, main, told = asyncio.get_running_loop(), asyncio.current_task(), count()
    assert main is not None
    had_terminal = sys.stderr.isatty()

    def stop_or_end() -> None:
        if next(told) == 0:
            stop.set()
        else:
            # What is recorded is safe without any last words.
            loop.call_later(_AT_ONCE_S, os._exit, 1)
            main.cancel()

    def hang_up() -> None:
        if had_terminal and not sys.stderr.isatty():
            stop.set()
        elif hangup is not None:
            hangup.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop_or_end)
    came = take_hangup()
    if hangup is not None or signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup wants it
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    if came or take_hangup():
        hang_up()


def end_in_time(seconds: float) -> None:
    """After ``stop_on_signals``: end at last so long after the first signal, whatever else happens.

    A thread hears of signals before the event loop does, which may be busy, or stuck in a library.
    For processes that have nothing to lose.
    """
    ours, heard = socket.socketpair()
    ours.setblocking(False)
    loops = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)

    def give_up() -> None:
        write(f"penstock: it did not end by itself within {seconds:g} s: ended\n")
        os._exit(1)

    def watch() -> None:
        told = False
        with ours, heard:
            while numbers := heard.recv(64):
                if not told and set(numbers) & {signal.SIGINT, signal.SIGTERM}:
                    told = True
                    timer = threading.Timer(seconds, give_up)
                    timer.daemon = True
                    timer.start()
                with suppress(OSError):  # the loop has ended
                    os.write(loops, numbers)

    threading.Thread(target=watch, name="end-in-time", daemon=True).start()


@asynccontextmanager
async def unless_told(stop: asyncio.Event) -> AsyncIterator[None]:
    """End a block as soon as ``stop`` is set.

    Raises:
        ToldToStop: it was.
    """
    task = asyncio.current_task()
    assert task is not None
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        yield
    except asyncio.CancelledError:
        if stop.is_set() and task.uncancel() == 0:
            raise ToldToStop from None
        raise
    finally:
        stopping.cancel()


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
