"""Runs the processes as the state machine commands, until it is told to stop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from random import random

from penstock.clock import Clock
from penstock.errors import NotSupervised
from penstock.runtime.status import ChildStatus, Report, SeenProcess
from penstock.supervisor.commands import Command, Kill, Start, Terminate, WakeAt
from penstock.supervisor.facts import LinesDropped, StatusesUnreadable
from penstock.supervisor.launching import Launched, Launcher
from penstock.supervisor.model import ChildPlan, Rules, Seen
from penstock.supervisor.statuses import statuses_of
from penstock.supervisor.supervision import Supervision
from penstock.telemetry import Listener

_LOOK_S = 5.0
_UNREADABLE_LOOKS = 3
"""Looks at the statuses in a row that must fail before that is logged."""

_Event = Callable[[int], list[Command]]
_Reading = Callable[[], Awaitable[Sequence[SeenProcess] | None]]


class Supervisor:
    """Runs processes. For one event loop, and one call of ``run``."""

    def __init__(
        self,
        plans: Sequence[ChildPlan],
        rules: Rules,
        launcher: Launcher,
        read: _Reading,
        clock: Clock,
        emit: Listener,
    ) -> None:
        """``read`` returns the statuses of all processes; None while the store is not open."""
        self._machine = Supervision(plans, rules, random, emit)
        self._launcher, self._read, self._clock, self._emit = launcher, read, clock, emit
        self._launched: dict[str, Launched] = {}
        self._events: asyncio.Queue[_Event] = asyncio.Queue()
        self._wake_ns: int | None = None
        self._changed = asyncio.Event()
        self._dropped_reported: dict[str, int] = {}
        self._failed_looks = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Start all processes, and keep them running until ``stop`` is set; then stop them.

        Ends by itself once all of them were given up.
        """
        tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._stop_after(stop))]
        self._events.put_nowait(self._machine.start_all)
        try:
            while not self._machine.is_over and not self._is_lost:
                event = await self._next_event()
                await self._do(event(self._clock.monotonic_ns()))
                self._changed.set()
        finally:
            for task in tasks:
                task.cancel()
            for launched in self._launched.values():  # after a second signal
                launched.kill()

    @property
    def has_given_up(self) -> bool:
        """Whether processes are given up, or were when all were stopped."""
        return self._machine.given_up > 0

    @property
    def _is_lost(self) -> bool:
        return self._machine.given_up == len(self._machine.children) > 0

    def find(self, names: Iterable[str]) -> list[str]:
        """The processes of these names; a kind, such as ``collect``, stands for all of it.

        Raises:
            NotSupervised: there is none of that name.
        """
        children = self._machine.children
        found: dict[str, None] = {}
        for name in names:
            chosen = [name] if name in children else []
            chosen = chosen or [key for key, c in children.items() if c.plan.kind == name]
            if not chosen:
                raise NotSupervised(name, children)
            found.update(dict.fromkeys(chosen))
        return list(found)

    async def restart(self, names: Sequence[str]) -> None:
        """Restart processes, and wait until they run or were given up."""
        await self._command(partial(self._machine.restart, names), names)

    async def start(self, names: Sequence[str]) -> None:
        """Start processes that do not run, and wait until they do or were given up."""
        await self._command(partial(self._machine.start, names), names)

    async def stop(self, names: Sequence[str]) -> None:
        """Stop processes, and wait until they have ended."""
        await self._command(partial(self._machine.stop, names), names)

    def children(self) -> list[ChildStatus]:
        """The processes, in the order of the plan."""
        at_ms, at_ns = self._clock.now_ms(), self._clock.monotonic_ns()
        return [
            ChildStatus(
                name=name,
                state=child.state,
                pid=child.pid,
                since_ms=at_ms - (at_ns - child.since_ns) // 1_000_000,
                restarts=child.restarts,
                reason=child.reason,
                lines_dropped=self._launcher.lines_of(name).dropped,
            )
            for name, child in self._machine.children.items()
        ]

    def report(self) -> Report:
        """What it does, in short."""
        children = self.children()
        running = sum(child.state == "running" for child in children)
        restarts = sum(child.restarts for child in children)
        problems = [
            f"{child.name} {child.state}: {child.reason}"
            for state in ("given up", "waiting")
            for child in children
            if child.state == state
        ]
        return Report(
            doing=f"{running:,} of {len(children):,} processes running, {restarts:,} restarts",
            problems=tuple(problems),
            children=tuple(children),
        )

    async def _command(self, event: _Event, names: Sequence[str]) -> None:
        done = asyncio.Event()

        def do(now_ns: int) -> list[Command]:
            done.set()
            return event(now_ns)

        self._events.put_nowait(do)
        await done.wait()
        children = [self._machine.children[name] for name in names]
        while any(child.state in ("starting", "stopping") for child in children):
            self._changed.clear()
            await self._changed.wait()

    async def _next_event(self) -> _Event:
        """The next event; ``woken`` once that is due."""
        if self._wake_ns is None:
            return await self._events.get()
        left_s = max(0.0, (self._wake_ns - self._clock.monotonic_ns()) / 1e9)
        try:
            async with asyncio.timeout(left_s):
                return await self._events.get()
        except TimeoutError:
            return self._machine.woken

    async def _do(self, commands: list[Command]) -> None:
        # First, since what follows may return others, which replace it.
        self._wake_ns = next((each.at_ns for each in commands if isinstance(each, WakeAt)), None)
        for command in commands:
            match command:
                case Start(name):
                    await self._do(await self._start(name))
                case Terminate(name) if launched := self._launched.get(name):
                    launched.terminate()
                case Kill(name) if launched := self._launched.get(name):
                    launched.kill()

    async def _start(self, name: str) -> list[Command]:
        def exited(code: int, error: str) -> None:
            self._launched.pop(name, None)
            self._events.put_nowait(lambda now_ns: self._machine.exited(name, code, now_ns, error))

        try:
            launched = await self._launcher.start(self._machine.children[name].plan, exited)
        except (OSError, RuntimeError) as error:  # RuntimeError: no thread to wait for its end
            reason = getattr(error, "strerror", None) or str(error)
            return self._machine.start_failed(name, reason, self._clock.monotonic_ns())
        self._launched[name] = launched
        return self._machine.started(name, launched.pid, self._clock.monotonic_ns())

    async def _stop_after(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._events.put_nowait(self._machine.stop_all)

    async def _look(self) -> None:
        """Read the statuses every few seconds."""
        while True:
            await self._clock.sleep(_LOOK_S)
            self._report_dropped()
            statuses = await self._statuses()
            self._events.put_nowait(partial(self._machine.seen, statuses))

    async def _statuses(self) -> dict[str, Seen] | None:
        """The latest status of each process that runs, by name; None if they cannot be read."""
        reason = "the store is not open"
        seen: Sequence[SeenProcess] | None = None
        try:
            seen = await self._read()
            reason = "the store takes no statuses"
        except Exception as error:
            # Whatever it is: processes that end are restarted all the same.
            reason = f"{type(error).__name__}: {error}"
        found = None if seen is None else statuses_of(self._machine.children.values(), seen)
        if found is None:
            self._failed_looks += 1
            if self._failed_looks == _UNREADABLE_LOOKS:
                self._emit(StatusesUnreadable(reason=reason))
            return None
        self._failed_looks = 0
        return found

    def _report_dropped(self) -> None:
        for name in self._machine.children:
            dropped = self._launcher.lines_of(name).dropped
            new = dropped - self._dropped_reported.get(name, 0)
            if new:
                self._dropped_reported[name] = dropped
                with suppress(Exception):
                    self._emit(LinesDropped(process=name, lines=new))
