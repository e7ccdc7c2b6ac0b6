"""Runs the jobs of ``penstock ingest`` in this process until all of them have ended."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from penstock.clock import Clock, wait_for
from penstock.errors import PenstockError, StorageError
from penstock.exchanges.facts import RequestFailed, RequestSent
from penstock.ingest.facts import BatchRecorded, PageFetched
from penstock.ingest.planner import Plans
from penstock.ingest.products import Product
from penstock.jobs.facts import JobDone, JobFailed
from penstock.jobs.model import Job
from penstock.jobs.service import JobService
from penstock.jobs.worker import Worker
from penstock.telemetry import Fact
from penstock.throttle.gate import Limit

_NS = 1_000_000_000
_RATE_WINDOW_S = 10.0
# Of a limit. Those that count in windows are used up, others are used all the time.
_AT_LIMIT = 0.9
# Only what other processes do to the jobs is learned from the store: this process knows its own.
_LOOK_S = 1.0


@dataclass
class Counts:
    """What a run has fetched of one market."""

    recorded: int = 0
    held: int = 0
    """Trades that were in the log already."""
    absent: int = 0
    """Ids that the exchange does not have."""
    pages: int = 0


class Tally:
    """A listener that counts requests and rows since it was made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.began_ns = clock.monotonic_ns()
        self.requests = 0
        """All requests that were sent to the exchange, in any process of this command."""
        self.failures: Counter[str] = Counter()
        """Responses with an error, by status; and requests without a response."""
        self.markets: defaultdict[str, Counts] = defaultdict(Counts)
        self.changed = asyncio.Event()
        """Set when a run of a job has ended."""
        self._sent_ns: deque[int] = deque()

    def __call__(self, fact: Fact) -> None:
        """Count a fact."""
        match fact:
            case RequestSent():
                self.requests += 1
                self._sent_ns.append(self._clock.monotonic_ns())
                self._drop_old()
                if fact.status >= 400:
                    self.failures[str(fact.status)] += 1
            case RequestFailed():
                self.failures["no answer"] += 1
            case PageFetched():
                self.markets[fact.symbol].pages += 1
            case BatchRecorded():
                counts = self.markets[fact.symbol]
                counts.recorded += fact.recorded
                counts.held += fact.held
                counts.absent += fact.absent
            case JobDone() | JobFailed():
                self.changed.set()
            case _:
                pass

    @property
    def seconds(self) -> float:
        """How long it has counted."""
        return (self._clock.monotonic_ns() - self.began_ns) / _NS

    @property
    def requests_per_s(self) -> float:
        """The requests of the last seconds."""
        self._drop_old()
        return len(self._sent_ns) / max(1.0, min(_RATE_WINDOW_S, self.seconds))

    def _drop_old(self) -> None:
        before_ns = self._clock.monotonic_ns() - round(_RATE_WINDOW_S * _NS)
        while self._sent_ns and self._sent_ns[0] < before_ns:
            self._sent_ns.popleft()


@dataclass
class Ingestion:
    """The products, their jobs, and the worker that runs them in this process."""

    products: Sequence[Product]
    jobs: dict[str, Job]
    """The jobs as last known, by id, in the order of the products."""
    worker: Worker
    job_service: JobService
    clock: Clock
    tally: Tally
    used: Callable[[], Mapping[Limit, int]]
    """How much of each limit is used now."""
    plans: Plans | None = None
    """What was expected; None if the exchange was not available."""
    limit_per_s: float = 0.0
    """The requests that the exchange's limits allow; 0 if it is not known, or there is none."""
    rows_before: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.rows_before = {job.id: job.progress.rows for job in self.jobs.values()}

    @property
    def is_at_limit(self) -> bool:
        """Whether requests wait for the limits rather than for responses."""
        used = self.used().items()
        if any(limit.kind == "aligned" and n >= limit.amount * _AT_LIMIT for limit, n in used):
            return True
        return self.tally.requests_per_s >= (self.limit_per_s or inf) * _AT_LIMIT

    @property
    def is_finished(self) -> bool:
        """Whether no job can continue."""
        return all(map(has_ended, self.jobs.values()))

    def recorded(self, job: Job) -> int:
        """The rows of a job that were recorded since this process began."""
        return job.progress.rows - self.rows_before[job.id]

    async def find_rate(self) -> None:
        """Ask what the limits allow, if it is not known and there is anything left to fetch."""
        left = next((job for job in self.jobs.values() if not has_ended(job)), None)
        if self.limit_per_s or left is None:
            return
        with suppress(PenstockError):  # it is asked again later
            requests, window_ms = await self.worker.kinds[left.type].request_rate(left)
            self.limit_per_s = requests * 1000 / window_ms if window_ms else 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Run the jobs until all have ended, or ``stop`` is set; it is set in the end."""
        watching = asyncio.create_task(self._watch(stop))
        try:
            await self.worker.run(stop)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await self._look()

    async def _watch(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.tally.changed.clear()
            with suppress(StorageError):  # the worker reports it
                await self._look()
            if self.worker.job_runs:
                await self.find_rate()
            if self.is_finished:
                stop.set()
                return
            await wait_for(self.tally.changed, self.clock, _LOOK_S)

    async def _look(self) -> None:
        for job_id, known in self.jobs.items():
            job_run = self.worker.job_runs.get(job_id)
            if job_run is not None:
                self.jobs[job_id] = job_run.job
            elif not has_ended(known):
                self.jobs[job_id] = await self.job_service.get(job_id)


def has_ended(job: Job) -> bool:
    """Whether a job does not continue unless someone asks for it."""
    return job.status != "active" or job.state in ("success", "failed")
