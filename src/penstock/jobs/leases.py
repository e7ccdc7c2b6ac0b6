"""Workers claim, renew and release jobs through leases.

A claim increments the job's fence, and every later write carries that fence: the write of a worker
that lost its lease to another is rejected, and returns None. A job can be claimed again as soon as
its lease has expired; no failure detection is needed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from penstock.errors import StorageError
from penstock.jobs import transitions
from penstock.jobs.documents import as_document, as_job
from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import Job, claim_priority_of
from penstock.jobs.permits import JobPermits
from penstock.jobs.schedule import rank, wake_ms
from penstock.storage.state import Claim, Document, Patch, Query, StateStore, Write
from penstock.storage.state.documents import Condition, StoreNow
from penstock.storage.state.schema import CONNECTORS, JOBS

# The most jobs that are assumed to wait for one exchange; any beyond count as equally far back.
_MOST_WAITING = 500
_RESTING = ("failed", "success")


class JobQueue(NamedTuple):
    """Jobs with the same values of these fields; they are claimed in the order of ``wake_at``."""

    exchange_id: str
    type: str
    claim_priority: int | None

    def query(self, *more: Condition) -> Query:
        """Return a query for its active jobs that also meet the conditions ``more``."""
        fields = [Condition(field, "=", value) for field, value in self._asdict().items()]
        return [[Condition("status", "=", "active"), *fields, *more]]


class Reset(NamedTuple):
    """When an exchange has budget again (ms of the store's clock), and for how many jobs."""

    at_ms: int
    serves: int = 1
    """How many jobs can send a request in one window …"""
    window_ms: int = 0
    """… of this length."""


class QueueHead(NamedTuple):
    """The first job of a queue."""

    rank: int
    wake_at: int
    queue: JobQueue

    @property
    def exchange_id(self) -> str:
        """The exchange of its queue."""
        return self.queue.exchange_id

    def wakes_before(self, other: "QueueHead") -> Condition:
        """Return the condition for jobs of its queue that rank before another queue's head."""
        return Condition("wake_at", "<=", self.wake_at + other.rank - self.rank)


class Leases:
    """The jobs of a store, for workers. ``at_ms`` is the store's time.

    Only jobs of ``kinds`` are claimed; others are of a newer version, and left to it. With ``only``
    no jobs but those with these ids are claimed.
    """

    def __init__(
        self,
        store: StateStore,
        kinds: Mapping[str, AnyKind],
        only: Collection[str] | None = None,
    ) -> None:
        self.store, self._kinds = store, kinds
        self._only = [] if only is None else [Condition("id", "in", tuple(only))]

    async def claim(
        self,
        worker: str,
        most: int,
        lease_ms: int,
        busy: Collection[str] = (),
        permits: JobPermits | None = None,
    ) -> list[Job]:
        """Claim the first due jobs that no worker holds, except those of busy exchanges.

        Jobs whose connector is paused are skipped too, and with ``permits`` those of exchanges that
        have no free permit.
        """
        taken: list[Job] = []
        passed: set[JobQueue] = set()
        try:
            while len(taken) < most:
                heads = await self._queue_heads(busy, _DUE, passed)
                if not heads:
                    break
                room = most - len(taken)
                if permits and not (room := await permits.take(heads[0].exchange_id, room)):
                    busy = {*busy, heads[0].exchange_id}
                    continue
                found = await self._claim_first(heads, worker, room, lease_ms)
                if permits:
                    permits.use(heads[0].exchange_id, len(found))
                taken += found
                if not found:  # other workers claimed them first
                    passed.add(heads[0].queue)
                elif len(heads) == 1 and len(found) < room:
                    break
        except StorageError:
            if not taken:
                raise
        return taken

    async def _claim_first(
        self, heads: Sequence[QueueHead], worker: str, most: int, lease_ms: int
    ) -> list[Job]:
        """Claim jobs of the first queue that rank before the head of every other queue."""
        first, patch = heads[0], transitions.claimed(worker, lease_ms)
        query = first.queue.query(_DUE, *map(first.wakes_before, heads[1:2]), *self._only)
        found = await self.store.claim(JOBS, Claim(query, ("wake_at",), patch, most))
        return [_begun(document, as_job(document, self._kinds), lease_ms) for document in found]

    async def next_waiting(self, busy: Collection[str] = ()) -> QueueHead | None:
        """The job that the next claim would take; None: none is due."""
        return next(iter(await self._queue_heads(busy, _DUE)), None)

    async def next_due_ms(self, busy: Collection[str] = ()) -> int | None:
        """The time at which the next job may be claimed; None: no job will become due."""
        heads = await self._queue_heads(busy, Condition("wake_at", ">", None))
        return min((first.wake_at for first in heads), default=None)

    async def heartbeat(self, jobs: Sequence[Job], lease_ms: int) -> list[Job | None]:
        """Renew the leases and save the cursors and progress of jobs, in one statement.

        Returns each job as it is now, so that its holder receives clients' changes; None for a job
        whose lease was lost.
        """
        return await self._write([(job, transitions.renewed(job, lease_ms)) for job in jobs])

    async def finish(self, jobs: Sequence[Job], at_ms: int) -> list[Job | None]:
        """Save successful runs. Repeating jobs are due again later; the others are done."""
        again = [job for job in jobs if job.schedule is not None]
        written = await self._write([(job, transitions.finished(job, at_ms)) for job in again])
        outcome = {job.id: new for job, new in zip(again, written, strict=True)}
        for job in jobs:
            if job.schedule is None:
                outcome[job.id] = await self._end(job, at_ms)
        return [outcome[job.id] for job in jobs]

    async def fail(
        self, job: Job, at_ms: int, reason: str, retry_ms: int | None = None
    ) -> Job | None:
        """Save a failed run. Without a time for a retry the job stays in ``failed``."""
        return await self._write_one(job, transitions.failed(job, at_ms, reason, retry_ms))

    async def wait(self, job: Job, at_ms: int, reset: Reset, reason: str) -> Job | None:
        """Save a run without budget: the job is due when there is some, after more urgent ones."""
        others = {"exchange_id": job.exchange_id, "status": "active", "state": "waiting_rate_limit"}
        waiting = [row for row in await self.store.counts(JOBS) if others.items() <= row.items()]
        ahead = sum(
            row["count"] for row in waiting
            if row["claim_priority"] is None or row["claim_priority"] <= claim_priority_of(job)
        )  # fmt: skip
        ahead = min(ahead, _MOST_WAITING)
        until_ms = wake_ms(reset.at_ms, ahead, reset.serves, reset.window_ms)
        return await self._write_one(job, transitions.waiting(job, at_ms, until_ms, reason))

    async def release(
        self,
        job: Job,
        at_ms: int,
        reason: str,
        due_ms: int | None = None,
        what: Literal["parked", "waiting"] = "parked",
    ) -> Job | None:
        """Save a run that ended before the work is done. It is due at ``due_ms``, or at once."""
        due_ms = at_ms if due_ms is None else due_ms
        return await self._write_one(job, transitions.released(job, at_ms, reason, due_ms, what))

    async def _queue_heads(
        self, busy: Collection[str], awake: Condition, passed: Collection[JobQueue] = ()
    ) -> list[QueueHead]:
        """Return the first job of each queue, the most urgent first.

        Only queues of known kinds and of exchanges that are neither busy nor paused.
        """
        paused = [[Condition("status", "in", ("paused", "deleted"))]]
        stopped = await self.store.find(CONNECTORS, paused, limit=_MOST_WAITING)
        counts = await self.store.counts(JOBS)
        closed = {*busy, *(connector["exchange_id"] for connector in stopped)}
        queues = {
            _queue_of(row)
            for row in counts
            if row["status"] == "active" and row["state"] not in _RESTING
        }
        asked = [
            queue.query(awake, *self._only)
            for queue in queues.difference(passed)
            if queue.exchange_id not in closed and queue.type in self._kinds
        ]
        heads = map(_queue_head, await self.store.firsts(JOBS, asked, ("wake_at",)))
        return sorted(heads, key=lambda first: first[:2])

    async def _write(self, patches: Sequence[tuple[Job, Patch]]) -> list[Job | None]:
        writes = [Write(job.id, {"fence": job.fence}, patch) for job, patch in patches]
        written = await self.store.write(JOBS, writes)
        return [as_job(document, self._kinds) if document else None for document in written]

    async def _write_one(self, job: Job, patch: Patch) -> Job | None:
        (written,) = await self._write([(job, patch)])
        return written

    async def _end(self, job: Job, at_ms: int) -> Job | None:
        # Fenced like a write; an update, because it changes the status, a field of the unique rule.
        def change(document: Document) -> Document | None:
            if document["fence"] != job.fence:
                return None
            cursor = self._kinds[job.type].ended(job.cursor)
            held = {"cursor": cursor, "progress": job.progress, "events": job.events}
            done = transitions.ended(replace(as_job(document, self._kinds), **held), at_ms)
            events = transitions.worker_events_of(done)
            rest = {"doings": events, "wake_at": None, "unsettled": 0}
            return {**document, **as_document(done), **rest}

        written = await self.store.update(JOBS, job.id, change)
        return as_job(written, self._kinds) if written else None


_DUE = Condition("wake_at", "<=", StoreNow())


def _queue_of(document: Document) -> JobQueue:
    return JobQueue(document["exchange_id"], document["type"], document.get("claim_priority"))


def _queue_head(document: Document) -> QueueHead:
    queue, wake_at = _queue_of(document), document["wake_at"]
    priority = document["priority"] if queue.claim_priority is None else queue.claim_priority
    return QueueHead(rank(wake_at, priority), wake_at, queue)


def _begun(document: Document, job: Job, lease_ms: int) -> Job:
    """Return a job that was just claimed, with its progress and events updated."""
    assert job.lock.lock_until is not None
    at_ms = job.lock.lock_until - lease_ms
    progress = job.progress
    if progress.started_at is None:
        progress = replace(progress, started_at=at_ms)
    elif progress.pages and job.schedule is None:
        progress = replace(
            progress,
            resumed_at=at_ms,
            resumed_rows=progress.rows,
            resumptions=progress.resumptions + 1,
        )
    job = replace(job, progress=progress)
    if document["unsettled"] > 1:
        return transitions.with_event(job, at_ms, "taken_over", "the lease before had run out")
    return transitions.with_event(job, at_ms, "claimed")
