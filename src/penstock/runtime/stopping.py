"""The one way to stop a process: signals and deadlines set an event."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from typing import TypeVar

from penstock.clock import Clock
from penstock.runtime.service_manager import service_manager
from penstock.signals import take_hangup

T = TypeVar("T")

_AT_ONCE_S = 2.0
"""Seconds in which a process must end after a second signal."""


def stop_on_signals(stop: asyncio.Event, hangup: asyncio.Event | None = None) -> None:
    """Set ``stop`` on the first Ctrl-C or SIGTERM, or when the terminal is closed.

    A second signal ends the process at once. SIGHUP sets ``stop`` only if the terminal was closed;
    otherwise it sets ``hangup``, also if it was received before this call.
    """
    loop, main, signals = asyncio.get_running_loop(), asyncio.current_task(), count()
    assert main is not None
    had_terminal = sys.stderr.isatty()

    def stop_or_end() -> None:
        if next(signals) == 0:
            stop.set()
            service_manager().stopping()
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
    ours, received = socket.socketpair()
    ours.setblocking(False)
    loops = signal.set_wakeup_fd(ours.fileno(), warn_on_full_buffer=False)

    def give_up() -> None:
        with suppress(OSError):  # the terminal may be closed
            sys.stderr.write(f"penstock: did not stop within {seconds:g} s and was ended\n")
            sys.stderr.flush()
        os._exit(1)

    def watch() -> None:
        is_timed = False
        with ours, received:
            while numbers := received.recv(64):
                if not is_timed and set(numbers) & {signal.SIGINT, signal.SIGTERM}:
                    is_timed = True
                    timer = threading.Timer(seconds, give_up)
                    timer.daemon = True
                    timer.start()
                with suppress(OSError):  # the loop has ended
                    os.write(loops, numbers)

    threading.Thread(target=watch, name="end-in-time", daemon=True).start()


@asynccontextmanager
async def opened(
    opening: AbstractAsyncContextManager[T], stop: asyncio.Event
) -> AsyncIterator[T | None]:
    """Open something that may take long; None if ``stop`` is set before it is open."""
    async with AsyncExitStack() as stack:
        found: T | None = None
        with suppress(_Stopped):
            async with _until_set(stop):
                found = await stack.enter_async_context(opening)
        yield found


async def stop_after(seconds: float | None, stop: asyncio.Event, clock: Clock) -> None:
    """Set ``stop`` after ``seconds``; never if None."""
    if seconds is not None:
        await clock.sleep(seconds)
        stop.set()


class _Stopped(Exception):
    """The process was stopped before it had started."""


@asynccontextmanager
async def _until_set(stop: asyncio.Event) -> AsyncIterator[None]:
    """End a block as soon as ``stop`` is set.

    Raises:
        _ToldToStop: ``stop`` was set.
    """
    task = asyncio.current_task()
    assert task is not None
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
    try:
        yield
    except asyncio.CancelledError:
        if stop.is_set() and task.uncancel() == 0:
            raise _Stopped from None
        raise
    finally:
        stopping.cancel()
