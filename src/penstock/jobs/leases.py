"""Leases: how workers take jobs, keep them and give them back.

Taking a job raises its fence, and every later write names that fence: whoever slept past its lease
writes nothing any more, and is told so by a None. A job is taken again as soon as its lease has run
out; nobody has to notice that its holder is gone.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from penstock.errors import StorageError
from penstock.jobs import transitions
from penstock.jobs.kinds import SPECIFIED
from penstock.jobs.model import Job, as_document, as_job, claim_priority_of
from penstock.jobs.schedule import rank, wake_ms
from penstock.jobs.slots import JobSlots
from penstock.storage.state import Claim, Document, Patch, Query, StateStore, Write
from penstock.storage.state.documents import Condition, StoreNow
from penstock.storage.state.schema import CONNECTORS, JOBS

# More than that do not wait for one exchange; if they do, the rest counts as equally far back.
_MOST_WAITING = 500
_RESTING = ("failed", "success")


class JobQueue(NamedTuple):
    """Jobs that are claimed in the order in which they wake: those that agree in all this."""

    exchange_id: str
    type: str
    claim_priority: int | None

    def query(self, *more: Condition) -> Query:
        """Its active jobs, as far as more holds."""
        fields = [Condition(field, "=", value) for field, value in self._asdict().items()]
        return [[Condition("status", "=", "active"), *fields, *more]]


class Reset(NamedTuple):
    """When an exchange's budget comes back (the store's ms), and how far it goes."""

    at_ms: int
    serves: int = 1
    """So many jobs can ask something in one window …"""
    window_ms: int = 0
    """… of this length."""


class QueueHead(NamedTuple):
    """The first job of a queue."""

    rank: int
    wake_at: int
    queue: JobQueue

    @property
    def exchange_id(self) -> str:
        """Whose it is."""
        return self.queue.exchange_id

    def wakes_before(self, other: "QueueHead") -> Condition:
        """The jobs of its queue that are to be claimed before another queue's first."""
        return Condition("wake_at", "<=", self.wake_at + other.rank - self.rank)


class Leases:
    """The jobs of a store, as workers see them. ``at_ms`` is the store's instant."""

    def __init__(self, store: StateStore, kinds: Collection[str] = tuple(SPECIFIED)) -> None:
        self.store, self._kinds = store, tuple(sorted(kinds))

    async def claim(
        self,
        worker: str,
        most: int,
        lease_ms: int,
        busy: Collection[str] = (),
        slots: JobSlots | None = None,
    ) -> list[Job]:
        """Take the first jobs that are due and that nobody holds, but none of the busy exchanges.

        Those whose connector is paused are left alone too, and with ``slots`` those of exchanges
        that have none.
        """
        taken: list[Job] = []
        passed: set[JobQueue] = set()
        try:
            while len(taken) < most:
                heads = await self._queue_heads(busy, _DUE, passed)
                if not heads:
                    break
                room = most - len(taken)
                if slots and not (room := await slots.take(heads[0].exchange_id, room)):
                    busy = {*busy, heads[0].exchange_id}
                    continue
                found = await self._claim_first(heads, worker, room, lease_ms)
                if slots:
                    slots.use(heads[0].exchange_id, len(found))
                taken += found
                if not found:  # others were quicker
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
        """Take jobs of the first queue, as far as no other queue's first comes before them."""
        first, patch = heads[0], transitions.claimed(worker, lease_ms)
        query = first.queue.query(_DUE, *map(first.wakes_before, heads[1:2]))
        found = await self.store.claim(JOBS, Claim(query, ("wake_at",), patch, most))
        return [_begun(document, lease_ms) for document in found]

    async def next_waiting(self, busy: Collection[str] = ()) -> QueueHead | None:
        """The job that the next claim would take; None: none is due."""
        return next(iter(await self._queue_heads(busy, _DUE)), None)

    async def next_due_ms(self, busy: Collection[str] = ()) -> int | None:
        """When the next job may be claimed; None: no time will make one due."""
        heads = await self._queue_heads(busy, Condition("wake_at", ">", None))
        return min((first.wake_at for first in heads), default=None)

    async def heartbeat(self, jobs: Sequence[Job], lease_ms: int) -> list[Job | None]:
        """Renew leases and save cursors and progress of all these, in one statement.

        Returns each as it is now, so that its holder learns what people want of it; None for one
        whose lease was lost.
        """
        return await self._write([(job, transitions.renewed(job, lease_ms)) for job in jobs])

    async def finish(self, jobs: Sequence[Job], at_ms: int) -> list[Job | None]:
        """Runs that went well. Jobs that repeat are due again later; the others are done."""
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
        """A run that failed. Without an instant to try again, the job rests in ``failed``."""
        return await self._write_one(job, transitions.failed(job, at_ms, reason, retry_ms))

    async def wait(self, job: Job, at_ms: int, reset: Reset, reason: str) -> Job | None:
        """A run that found no budget: the job is due when there is some, after more urgent ones."""
        others = {"exchange_id": job.exchange_id, "status": "active", "state": "waiting_rate_limit"}
        waiting = [row for row in await self.store.counts(JOBS) if others.items() <= row.items()]
        ahead = sum(
            row["count"] for row in waiting
            if row["claim_priority"] is None or row["claim_priority"] <= claim_priority_of(job)
        )  # fmt: skip
        ahead = min(ahead, _MOST_WAITING)
        until_ms = wake_ms(reset.at_ms, ahead, reset.serves, reset.window_ms)
        return await self._write_one(job, transitions.waiting(job, at_ms, until_ms, reason))

    async def park(
        self, job: Job, at_ms: int, reason: str, due_ms: int | None = None
    ) -> Job | None:
        """A run that ends before the work is done. It is due at once, unless told when."""
        due_ms = at_ms if due_ms is None else due_ms
        return await self._write_one(job, transitions.parked(job, at_ms, reason, due_ms))

    async def _queue_heads(
        self, busy: Collection[str], awake: Condition, passed: Collection[JobQueue] = ()
    ) -> list[QueueHead]:
        """The first job of each queue, the most urgent first.

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
            queue.query(awake)
            for queue in queues.difference(passed)
            if queue.exchange_id not in closed and queue.type in self._kinds
        ]
        heads = map(_queue_head, await self.store.firsts(JOBS, asked, ("wake_at",)))
        return sorted(heads, key=lambda first: first[:2])

    async def _write(self, patches: Sequence[tuple[Job, Patch]]) -> list[Job | None]:
        writes = [Write(job.id, {"fence": job.fence}, patch) for job, patch in patches]
        written = await self.store.write(JOBS, writes)
        return [as_job(document) if document else None for document in written]

    async def _write_one(self, job: Job, patch: Patch) -> Job | None:
        (written,) = await self._write([(job, patch)])
        return written

    async def _end(self, job: Job, at_ms: int) -> Job | None:
        # Fenced like a write; an update, because it changes what keeps live jobs apart.
        def change(document: Document) -> Document | None:
            if document["fence"] != job.fence:
                return None
            known = as_job(document)
            done = transitions.ended(
                replace(known, cursor=job.cursor, progress=job.progress, events=job.events), at_ms
            )
            doings = transitions.worker_events_of(done)
            rest = {"doings": doings, "wake_at": None, "unsettled": 0}
            return {**document, **as_document(done), **rest}

        written = await self.store.update(JOBS, job.id, change)
        return as_job(written) if written else None


_DUE = Condition("wake_at", "<=", StoreNow())


def _queue_of(document: Document) -> JobQueue:
    return JobQueue(document["exchange_id"], document["type"], document.get("claim_priority"))


def _queue_head(document: Document) -> QueueHead:
    queue, wake_at = _queue_of(document), document["wake_at"]
    priority = document["priority"] if queue.claim_priority is None else queue.claim_priority
    return QueueHead(rank(wake_at, priority), wake_at, queue)


def _begun(document: Document, lease_ms: int) -> Job:
    """A job that was just claimed, as its holder goes on with it."""
    job = as_job(document)
    assert job.lock.lock_until is not None
    at_ms = job.lock.lock_until - lease_ms
    progress = job.progress
    if progress.started_at is None:
        progress = replace(progress, started_at=at_ms)
    elif job.cursor.page and job.schedule is None:
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
