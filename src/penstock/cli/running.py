"""Runs a process until it is stopped: signals, deadlines, and a view that is redrawn meanwhile."""

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
"""Interval at which a background process checks whether it is in the foreground."""
_LONGEST_COMMAND = 200
"""Maximum characters of a command that is printed again; it may have hundreds of markets."""
_LINE_NS = 10_000_000_000
"""Interval between lines where no view is drawn."""
_AT_ONCE_S = 2.0
"""Seconds in which a process must end after a second signal."""


class ToldToStop(Exception):
    """The process was stopped before it had started."""


class View(NamedTuple):
    """Functions that show a process's state: as a view that fits a viewport, and in one line."""

    draw: Callable[[Viewport], RenderableType]
    describe: Callable[[], str]
    below: str = ""
    """Text that is written below the last frame, which leaves room for it."""


def in_foreground() -> bool:
    """Whether this process may draw: it has a terminal and is in its foreground."""
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except OSError:  # not the controlling terminal, or it was closed
        return False


def unless_drawn(log: Listener) -> Listener:
    """Return a listener that logs only while no view is drawn; lines would break the view."""

    def tell(fact: Fact) -> None:
        if not in_foreground():
            log(fact)

    return tell


@contextmanager
def last_words_logged() -> Iterator[None]:
    """Log an error that ends a long-running process, if logs are JSON.

    So all of stderr has one format.
    """
    try:
        yield
    except PenstockError as error:
        if not logs_json():
            raise
        log_error("stopped", error=str(error))
        raise typer.Exit(2) from error


def run_process(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; exit with 1 after a second signal."""
    try:
        return asyncio.run(main)
    except asyncio.CancelledError:
        write("penstock: stopped at once after a second signal\n")
        raise typer.Exit(1) from None


def stop_on_signals(stop: asyncio.Event, hangup: asyncio.Event | None = None) -> None:
    """Set ``stop`` on the first Ctrl-C or SIGTERM, or when the terminal is closed.

    A second signal ends the process at once. SIGHUP sets ``stop`` only if the terminal was closed;
    otherwise it sets ``hangup``, also if it was received before this call.
    """
    loop, main, told = asyncio.get_running_loop(), asyncio.current_task(), count()
    assert main is not None
    had_terminal = sys.stderr.isatty()

    def stop_or_end() -> None:
        if next(told) == 0:
            stop.set()
        else:
            # Records are already stored, so no shutdown is needed.
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
    if hangup is not None or signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # set by nohup
        loop.add_signal_handler(signal.SIGHUP, hang_up)
    if came or take_hangup():
        hang_up()


def end_in_time(seconds: float) -> None:
    """End the process this long after the first signal at the latest.

    Call it after ``stop_on_signals``. A thread receives signals before the event loop does, which
    may be busy or blocked in a library. For processes that have no data to lose.
    """
    ours, heard = socket.socketpair()
    ours.setblocking(False)
    loops = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)

    def give_up() -> None:
        write(f"penstock: did not stop within {seconds:g} s and was ended\n")
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
        ToldToStop: ``stop`` was set.
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
    """Set ``stop`` after ``seconds``; never if None."""
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
    """Until ``stop`` is set, redraw a view on a terminal; elsewhere log a line every ten seconds.

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
            if clock.monotonic_ns() - line_ns >= _LINE_NS:
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
