"""The state machine of one supervised process."""

from collections.abc import Callable
from typing import Literal

from penstock.errors import TEMPORARY
from penstock.supervisor.commands import Command, Kill, Start, Terminate
from penstock.supervisor.facts import (
    ProcessEnded,
    ProcessGivenUp,
    ProcessKilled,
    ProcessStarted,
    ProcessStopped,
    ProcessUnhealthy,
)
from penstock.supervisor.model import ChildPlan, Rules
from penstock.telemetry import Listener

ChildState = Literal["waiting", "starting", "running", "stopping", "stopped", "given up"]

SETTINGS_WRONG = 2
"""The exit code of a process whose settings or arguments are wrong: it is not started again."""
_HUNG_TIMEOUT_S = 10.0
"""Seconds until a process that hangs is killed: it is unlikely to stop when told to."""


def _ns(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


class Child:
    """One process: whether it should run, whether it does, and what is next.

    Times are monotonic. Each event returns commands; ``due_ns`` is when to call ``woken``.
    """

    def __init__(
        self, plan: ChildPlan, rules: Rules, random: Callable[[], float], emit: Listener
    ) -> None:
        self.plan, self._rules, self._random, self._emit = plan, rules, random, emit
        self.state: ChildState = "stopped"
        self.pid: int | None = None
        self.since_ns = 0
        """When the state began."""
        self.restarts = 0
        """How often it was started again, for whatever reason."""
        self.failures = 0
        """Failures in a row."""
        self.reason = ""
        """Why it last ended or was restarted."""
        self.due_ns: int | None = None
        """When it is started (``waiting``) or killed (``stopping``)."""
        self._wanted = False
        self._began_ns = 0
        self._was_started = False
        self._crashes = 0
        """Failures in a row without those that may pass."""
        self._hung = False
        """Whether it is being stopped because it hangs."""
        self._is_failure = True
        """Whether its end counts as a failure: not if it was told to stop or restart."""

    @property
    def is_over(self) -> bool:
        """Whether there is no process, and none will be started."""
        return self.state in ("stopped", "given up")

    def start(self, now_ns: int) -> list[Command]:
        """Start it, unless it runs; one that was given up has no failures any more."""
        self._wanted = True
        if self.state in ("starting", "running"):
            return []
        self.failures = self._crashes = 0
        if self.state == "stopping":  # started once it has ended, also if it hangs
            self._is_failure = False
            return []
        return self._start(now_ns)

    def restart(self, now_ns: int, reason: str = "told to restart") -> list[Command]:
        """Stop it if it runs, and start it."""
        self._wanted = True
        if self.state == "running":
            self.failures = self._crashes = 0
            self._is_failure = False
            return self._terminate(now_ns, reason, self._rules.stop_timeout_s)
        return self.start(now_ns)

    def unhealthy(self, now_ns: int, reason: str, *, hung: bool) -> list[Command]:
        """Restart it because of its status: it hangs, or delivers nothing."""
        if self.state != "running":
            return []
        self._emit(ProcessUnhealthy(process=self.plan.name, reason=reason))
        self._hung = self._is_failure = hung
        limit_s = self._rules.stop_timeout_s
        return self._terminate(now_ns, reason, min(limit_s, _HUNG_TIMEOUT_S) if hung else limit_s)

    def retire(self, now_ns: int) -> None:
        """Start it no more; it goes on running if it does."""
        self._wanted = False
        if self.state in ("waiting", "given up"):
            self._enter("stopped", now_ns)

    def stop(self, now_ns: int, reason: str = "told to stop") -> list[Command]:
        """Stop it; it is not started again."""
        self.retire(now_ns)
        if self.state == "running":
            self._is_failure = False
            return self._terminate(now_ns, reason, self._rules.stop_timeout_s)
        return []

    def started(self, pid: int, now_ns: int) -> list[Command]:
        """The process was started."""
        self.pid = pid
        self.restarts += self._was_started
        self._was_started = True
        self._enter("running", now_ns)
        self._emit(ProcessStarted(process=self.plan.name, pid=pid, restarts=self.restarts))
        return [] if self._wanted else self.stop(now_ns)

    def start_failed(self, reason: str, now_ns: int) -> list[Command]:
        """The operating system could not start it."""
        if not self._wanted:
            self._enter("stopped", now_ns)
            return []
        self._began_ns = now_ns
        return self._ended(f"could not be started: {reason}", now_ns, code=None)

    def exited(self, code: int, now_ns: int, error: str = "") -> list[Command]:
        """The process ended; ``code`` is negative for a signal, ``error`` what it said."""
        self.pid = None
        if self.state == "stopping" and not self._hung:
            self._emit(ProcessStopped(process=self.plan.name, reason=self.reason))
        if not self._wanted:
            self._enter("stopped", now_ns)
            return []
        if self.state != "stopping":
            return self._ended(_exit_words(code, error), now_ns, code=code)
        return (
            self._ended(self.reason, now_ns, code=None) if self._is_failure else self._start(now_ns)
        )

    def woken(self, now_ns: int) -> list[Command]:
        """Start or kill it, if that is due."""
        if self.due_ns is None or now_ns < self.due_ns:
            return []
        self.due_ns = None
        if self.state == "waiting":
            return self._start(now_ns)
        after_s = (now_ns - self.since_ns) / 1e9
        self._emit(ProcessKilled(process=self.plan.name, after_s=round(after_s, 1)))
        return [Kill(self.plan.name)]

    def _ended(self, reason: str, now_ns: int, *, code: int | None) -> list[Command]:
        """It ended although it should run: start it later, or give it up."""
        self.reason = reason
        hung_ns = _ns(self._rules.hung_after_s) if self._hung else 0
        if now_ns - self._began_ns - hung_ns >= _ns(self._rules.stable_after_s):
            self.failures = self._crashes = 0
        self.failures += 1
        self._crashes += code != TEMPORARY
        is_refused = code == SETTINGS_WRONG
        if is_refused or self._crashes >= self._rules.restart_limit:
            self._enter("given up", now_ns)
            if not is_refused:
                self.reason = f"{reason}, {self._crashes} failures in a row"
            self._emit(ProcessGivenUp(process=self.plan.name, reason=self.reason))
            return []
        delay_s = self._rules.backoff.delay(self.failures - 1, self._random())
        self._enter("waiting", now_ns, now_ns + _ns(delay_s))
        self._emit(
            ProcessEnded(process=self.plan.name, reason=reason, again_in_s=round(delay_s, 2))
        )
        return []

    def _start(self, now_ns: int) -> list[Command]:
        self._enter("starting", now_ns)
        return [Start(self.plan.name)]

    def _terminate(self, now_ns: int, reason: str, limit_s: float) -> list[Command]:
        self.reason = reason
        self._enter("stopping", now_ns, now_ns + _ns(limit_s))
        return [Terminate(self.plan.name)]

    def _enter(self, state: ChildState, now_ns: int, due_ns: int | None = None) -> None:
        if state == "running":
            self._began_ns, self._hung, self._is_failure = now_ns, False, True
        self.state, self.since_ns, self.due_ns = state, now_ns, due_ns


def _exit_words(code: int, error: str) -> str:
    """Describe how a process ended."""
    how = f"ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"{how}: {error}" if error else how
