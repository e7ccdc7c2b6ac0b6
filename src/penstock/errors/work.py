"""Errors of connectors, jobs and collectors that do not exist or are in the wrong state."""

from collections.abc import Iterable
from datetime import UTC, datetime

from penstock.errors.base import PenstockError


class UnknownConnector(PenstockError):
    """There is no connector for that exchange."""

    def __init__(self, exchange_id: str, known: Iterable[str] = ()) -> None:
        self.exchange_id, self.known = exchange_id, sorted(known)
        there = f"There are: {', '.join(self.known)}" if self.known else "There are none yet"
        super().__init__(f"There is no connector for {exchange_id!r}. {there}. Add it first.")


class ConnectorPaused(PenstockError):
    """All traffic with an exchange is paused."""

    def __init__(self, exchange_id: str, status: str) -> None:
        self.exchange_id, self.status = exchange_id, status
        super().__init__(
            f"The connector of {exchange_id} is {status}: nothing is sent. Resume it, or add it"
            " again if it was deleted."
        )


class ConnectorInUse(PenstockError):
    """The connector has live jobs."""

    def __init__(self, exchange_id: str, jobs: int) -> None:
        self.exchange_id, self.jobs = exchange_id, jobs
        super().__init__(
            f"The connector of {exchange_id} has live jobs ({jobs}). Delete them first, or pause"
            " the connector instead. Nothing was changed."
        )


class BadJob(PenstockError):
    """A field of a job is invalid."""

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(f"{field}: {problem}. Nothing was changed.")


class UnknownJob(PenstockError):
    """No job has that id."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"There is no job {job_id!r}. See: penstock jobs list")


class UnknownKind(PenstockError):
    """A newer version created the job; this one does not know its kind, or cannot read it."""

    def __init__(self, job_id: str, kind: str) -> None:
        self.job_id, self.kind = job_id, kind
        super().__init__(
            f"Job {job_id!r} is a {kind}, which this version of penstock does not know. Nothing was"
            " changed. Use the version that created it."
        )


class JobRunning(PenstockError):
    """A worker is running the job, so it cannot be changed."""

    def __init__(self, job_id: str, worker: str) -> None:
        self.job_id, self.worker = job_id, worker
        super().__init__(
            f"Job {job_id!r} is being run by {worker}. Pause it, wait until it has stopped, and"
            " try again."
        )


class JobEnded(PenstockError):
    """The job has ended; only its history is kept."""

    def __init__(self, job_id: str, how: str) -> None:
        self.job_id, self.how = job_id, how
        super().__init__(
            f"Job {job_id!r} {how}. Its records are kept. To run it again, create a new job."
        )


class UnfinishedJob(PenstockError):
    """A product has an unfinished job that fetches another range."""

    def __init__(self, product: str, job_id: str, doing: str, resume: str, delete: str) -> None:
        self.product, self.job_id = product, job_id
        super().__init__(
            f"{product} has an unfinished job {job_id}: {doing}. Nothing was changed. Continue that"
            f" one with: {resume} – or delete it, which keeps its records: {delete}"
        )


class ProductLocked(PenstockError):
    """Another job run holds the lock of a product. Times are the store's."""

    def __init__(self, key: str, holder: str, job_id: str, *, since_ms: int, until_ms: int) -> None:
        self.key, self.holder, self.job_id = key, holder, job_id
        self.since_ms, self.until_ms = since_ms, until_ms
        super().__init__(
            f"{key} is locked by {holder} for job {job_id}, since {_time(since_ms)} until"
            f" {_time(until_ms)} unless renewed. Wait until that job has ended, or pause it. If its"
            f" worker is gone for good: penstock jobs unlock {key}"
        )


class NotLocked(PenstockError):
    """Nobody holds that lock."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"Nobody holds the lock {key!r}. See: penstock jobs locks")


class LockLost(PenstockError):
    """The lock of a product was lost while it was in use."""

    def __init__(self, key: str, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(f"The lock {key} was lost: {reason}. Nothing more was recorded.")


class UnknownGap(PenstockError):
    """The ledger has no gap of that id."""

    def __init__(self, gap_id: str) -> None:
        self.gap_id = gap_id
        super().__init__(f"There is no gap {gap_id!r}. It may be merged with another: list again.")


class GapNotFillable(PenstockError):
    """No job can fill the gap."""

    def __init__(self, gap_id: str, reason: str) -> None:
        self.gap_id, self.reason = gap_id, reason
        super().__init__(f"The gap {gap_id!r} cannot be filled: {reason}. Nothing was changed.")


class NotStreaming(PenstockError):
    """The collector has not started, or has stopped."""

    def __init__(self, exchange: str) -> None:
        self.exchange = exchange
        super().__init__(
            f"The collector of {exchange} has not started or has stopped. Nothing was changed."
            " Retry when it runs."
        )


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
