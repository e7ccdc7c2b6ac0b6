"""The state machine of all supervised processes. It has no clock, processes or sockets."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.supervisor.child import Child
from penstock.supervisor.commands import Command, WakeAt
from penstock.supervisor.facts import SupervisorStopping
from penstock.supervisor.health import HealthWatch
from penstock.supervisor.model import ChildPlan, Rules, Seen
from penstock.telemetry import Listener, quiet

_LONGEST_GAP_NS = 30_000_000_000
"""A longer time between two looks at the statuses means that this process was suspended."""


class Supervision:
    """Decides what to start, stop and kill. Each event returns commands."""

    def __init__(
        self,
        plans: Sequence[ChildPlan],
        rules: Rules,
        random: Callable[[], float],
        emit: Listener = quiet,
    ) -> None:
        self.children = {plan.name: Child(plan, rules, random, emit) for plan in plans}
        """By name."""
        self._rules, self._emit = rules, emit
        self._watches = {plan.name: HealthWatch(plan, rules) for plan in plans}
        self._looked_ns: int | None = None
        self._phases: list[int] | None = None
        """The phases of stopping that are left; None while it runs."""
        self._given_up_before = 0

    @property
    def is_over(self) -> bool:
        """Whether everything was told to stop, and has."""
        return self._phases is not None and all(each.is_over for each in self.children.values())

    @property
    def is_stopping(self) -> bool:
        """Whether everything was told to stop."""
        return self._phases is not None

    @property
    def given_up(self) -> int:
        """The number of processes that are given up, or were when all were told to stop."""
        if self._phases is not None:
            return self._given_up_before
        return sum(child.state == "given up" for child in self.children.values())

    def start_all(self, now_ns: int) -> list[Command]:
        """Start all processes, in the order of the plan."""
        return self.start(self.children, now_ns)

    def stop_all(self, now_ns: int) -> list[Command]:
        """Stop all processes in phases; each begins when the one before has ended."""
        if self._phases is None:
            self._emit(SupervisorStopping(processes=len(self.children)))
            self._given_up_before = self.given_up
            self._phases = sorted({each.plan.phase for each in self.children.values()})
            for child in self.children.values():
                child.retire(now_ns)
        return self._with_wake(self._go_on_stopping(now_ns))

    def start(self, names: Iterable[str], now_ns: int) -> list[Command]:
        """Start processes that do not run; also those that were given up."""
        return self._each(names, lambda child: child.start(now_ns))

    def restart(self, names: Iterable[str], now_ns: int) -> list[Command]:
        """Stop processes and start them again; also those that were given up."""
        return self._each(names, lambda child: child.restart(now_ns))

    def stop(self, names: Iterable[str], now_ns: int) -> list[Command]:
        """Stop processes; they stay stopped."""
        return self._each(names, lambda child: child.stop(now_ns))

    def started(self, name: str, pid: int, now_ns: int) -> list[Command]:
        """A process was started."""
        self._watches[name].started(now_ns)
        return self._with_wake(self.children[name].started(pid, now_ns))

    def start_failed(self, name: str, reason: str, now_ns: int) -> list[Command]:
        """A process could not be started."""
        commands = self.children[name].start_failed(reason, now_ns)
        return self._with_wake(commands + self._go_on_stopping(now_ns))

    def exited(self, name: str, code: int, now_ns: int, error: str = "") -> list[Command]:
        """A process ended; ``code`` is negative for a signal, ``error`` what it said."""
        commands = self.children[name].exited(code, now_ns, error)
        return self._with_wake(commands + self._go_on_stopping(now_ns))

    def woken(self, now_ns: int) -> list[Command]:
        """Do what is due."""
        return self._with_wake(
            [one for child in self.children.values() for one in child.woken(now_ns)]
        )

    def seen(self, statuses: Mapping[str, Seen] | None, now_ns: int) -> list[Command]:
        """Take the statuses of the running processes; None if they could not be read."""
        looked_ns, self._looked_ns = self._looked_ns, now_ns
        if statuses is None or (looked_ns is not None and now_ns - looked_ns > _LONGEST_GAP_NS):
            for watch in self._watches.values():
                watch.paused(now_ns)
        if statuses is None or self._phases is not None:
            return self._with_wake([])
        for name, watch in self._watches.items():
            watch.see(statuses.get(name), now_ns)
        commands: list[Command] = []
        for name, child in self.children.items():
            if child.state == "running":
                found = self._watches[name].problem(
                    now_ns,
                    others_deliver=self._others_deliver(child.plan, now_ns),
                )
                if found is not None:
                    commands += child.unhealthy(now_ns, found.reason, hung=found.hung)
        return self._with_wake(commands)

    def _others_deliver(self, plan: ChildPlan, now_ns: int) -> bool | None:
        """Whether another process of the same exchange lately delivered; None if there is none.

        Those that are stopped or given up deliver nothing, whatever the exchange does.
        """
        if not plan.exchange:
            return None
        others = [
            self._watches[name]
            for name, child in self.children.items()
            if child.plan.exchange == plan.exchange and name != plan.name and not child.is_over
        ]
        return any(each.delivered_lately(now_ns) for each in others) if others else None

    def _each(self, names: Iterable[str], do: Callable[[Child], list[Command]]) -> list[Command]:
        if self._phases is not None:
            return []
        return self._with_wake([one for name in names for one in do(self.children[name])])

    def _go_on_stopping(self, now_ns: int) -> list[Command]:
        """Stop the processes of the first phase that has not ended."""
        commands: list[Command] = []
        while self._phases and not commands:
            current = [c for c in self.children.values() if c.plan.phase == self._phases[0]]
            commands = [one for child in current for one in child.stop(now_ns, "all are stopped")]
            if not all(child.is_over for child in current):
                break
            self._phases.pop(0)
        return commands

    def _with_wake(self, commands: list[Command]) -> list[Command]:
        due = [child.due_ns for child in self.children.values() if child.due_ns is not None]
        return [*commands, WakeAt(min(due))] if due else commands
