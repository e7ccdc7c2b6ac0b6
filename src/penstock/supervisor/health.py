"""Decides by the statuses of a process whether it hangs or delivers no data.

Only changes count, timed by the supervisor's monotonic clock: a suspended machine, a step of the
wall clock or a store that does not answer makes no process look dead.
"""

from typing import NamedTuple

from penstock.supervisor.model import ChildPlan, Rules, Seen

_MOST_DOUBLINGS = 6
_PACES = 3
"""Deliveries in a row that must fail to come, of a process that delivers seldom."""


class Unhealthy(NamedTuple):
    """Why a process is to be restarted."""

    reason: str
    hung: bool
    """Whether it hangs, so that it will hardly stop when told to."""


class HealthWatch:
    """The signs of life of one process, over all its restarts."""

    def __init__(self, plan: ChildPlan, rules: Rules) -> None:
        self._plan, self._rules = plan, rules
        self._no_data_after_s = max(rules.no_data_after_s, _PACES * plan.pace_s)
        """Seconds without data after which it counts as silent."""
        self._began_ns = 0
        self._beat_ms: int | None = None
        self._beat_ns = 0
        self._data_ms: int | None = None
        self._data_ns: int | None = None
        """When data was last seen to be delivered, before or after a restart."""
        self._quiet_since_ns = 0
        self._doublings = 0

    def started(self, now_ns: int) -> None:
        """A new process was started; nothing is known of it yet."""
        self._began_ns = self._beat_ns = self._quiet_since_ns = now_ns
        self._beat_ms = self._data_ms = None

    def paused(self, now_ns: int) -> None:
        """Nothing could be seen until now, so silence is counted from here on."""
        self._began_ns = self._beat_ns = self._quiet_since_ns = now_ns

    def see(self, seen: Seen | None, now_ns: int) -> None:
        """Take the process's latest status; None if it has not written one."""
        if seen is None:
            return
        if seen.at_ms != self._beat_ms:
            self._beat_ms, self._beat_ns = seen.at_ms, now_ns
        if not seen.is_running:
            self._quiet_since_ns = now_ns
        if seen.last_data_ms is not None and seen.last_data_ms != self._data_ms:
            self._data_ms, self._data_ns = seen.last_data_ms, now_ns
            self._quiet_since_ns, self._doublings = now_ns, 0

    def delivered_lately(self, now_ns: int) -> bool:
        """Whether data came so lately that its exchange is not silent."""
        lately_ns = self._rules.no_data_after_s * 1e9
        return self._data_ns is not None and now_ns - self._data_ns <= lately_ns

    def problem(self, now_ns: int, *, others_deliver: bool | None) -> Unhealthy | None:
        """Return why the process is to be restarted; None if it is well.

        ``others_deliver`` says whether other processes of the same exchange lately delivered data;
        None if there are none. If they do not either, the exchange is silent, and a restart would
        not help. Each restart doubles the time to the next, until data comes.
        """
        rules = self._rules
        if self._beat_ms is None:
            if now_ns - self._began_ns <= rules.start_timeout_s * 1e9:
                return None
            return Unhealthy(f"wrote no status within {rules.start_timeout_s:g} s", hung=True)
        if now_ns - self._beat_ns > rules.hung_after_s * 1e9:
            return Unhealthy(f"wrote no status for {rules.hung_after_s:g} s", hung=True)
        limit_s = self._no_data_after_s * 2**self._doublings
        if (
            not self._plan.delivers
            or others_deliver is False
            or now_ns - self._quiet_since_ns <= limit_s * 1e9
        ):
            return None
        self._doublings = min(self._doublings + 1, _MOST_DOUBLINGS)
        return Unhealthy(f"delivered no data for {limit_s:g} s", hung=False)
