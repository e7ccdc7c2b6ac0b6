"""Facts about runs of jobs and the store that keeps them."""

from collections.abc import Mapping
from typing import ClassVar

from penstock.telemetry import CountedFact, Fact, Level


class JobDone(CountedFact, frozen=True, kw_only=True):
    """A run of a job succeeded; ``ended`` is true if it was the last."""

    job: str
    kind: str
    rows: int
    ended: bool

    def counts(self) -> Mapping[str, int]:
        return {"jobs.done": 1}


class JobFailed(CountedFact, frozen=True, kw_only=True):
    """A run of a job failed; it is retried unless its attempts are used up."""

    level: ClassVar[Level] = "warning"

    job: str
    kind: str
    reason: str
    given_up: bool

    def logged_at(self) -> Level:
        return "error" if self.given_up else self.level

    def counts(self) -> Mapping[str, int]:
        return {"jobs.given_up" if self.given_up else "jobs.failed": 1}


class JobWaits(CountedFact, frozen=True, kw_only=True):
    """A job waits for the rate limits, a lock or disk space, for at least so many ms."""

    job: str
    wait_ms: int
    reason: str

    def counts(self) -> Mapping[str, int]:
        return {"jobs.waiting": 1}


class JobParked(CountedFact, frozen=True, kw_only=True):
    """A worker released an unfinished job; any worker may continue it."""

    job: str
    reason: str

    def counts(self) -> Mapping[str, int]:
        return {"jobs.parked": 1}


class JobLost(Fact, frozen=True, kw_only=True):
    """A worker lost its lease on a running job; the saved progress is kept."""

    level: ClassVar[Level] = "warning"

    job: str
    exchange: str
    reason: str


class StoreSilent(Fact, frozen=True, kw_only=True):
    """The state store does not answer; no job is started until it does. Logged once."""

    level: ClassVar[Level] = "error"

    reason: str


class StoreAnswers(Fact, frozen=True, kw_only=True):
    """The state store answers again."""
