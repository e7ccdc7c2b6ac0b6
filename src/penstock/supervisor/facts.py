"""Facts about supervised processes."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class ProcessStarted(Fact, frozen=True, kw_only=True):
    """The supervisor started a process."""

    process: str
    pid: int
    restarts: int


class ProcessEnded(Fact, frozen=True, kw_only=True):
    """A supervised process ended although it should run; it is started again after a delay."""

    level: ClassVar[Level] = "warning"
    process: str
    reason: str
    again_in_s: float


class ProcessStopped(Fact, frozen=True, kw_only=True):
    """A supervised process ended as it was told to."""

    process: str
    reason: str


class ProcessGivenUp(Fact, frozen=True, kw_only=True):
    """A supervised process failed too often, or its settings are wrong; it is not started again.

    `penstock restart NAME` starts it again. The other processes continue.
    """

    level: ClassVar[Level] = "error"
    process: str
    reason: str


class ProcessUnhealthy(Fact, frozen=True, kw_only=True):
    """A supervised process runs but hangs or delivers no data; it is restarted."""

    level: ClassVar[Level] = "warning"
    process: str
    reason: str


class ProcessKilled(Fact, frozen=True, kw_only=True):
    """A supervised process did not stop in time and was killed."""

    level: ClassVar[Level] = "warning"
    process: str
    after_s: float


class LinesDropped(Fact, frozen=True, kw_only=True):
    """A supervised process logged faster than the log was read; so many lines were dropped."""

    level: ClassVar[Level] = "warning"
    process: str
    lines: int


class StatusesUnreadable(Fact, frozen=True, kw_only=True):
    """The statuses of supervised processes cannot be read or written. It is retried.

    Meanwhile only processes that end are restarted. Logged once.
    """

    level: ClassVar[Level] = "warning"
    reason: str


class SupervisorStopping(Fact, frozen=True, kw_only=True):
    """The supervisor stops all processes: those that produce records first."""

    processes: int
