"""The job service creates, returns and changes jobs.

Workers use ``Leases``. Both may change the same job at the same time: neither writes the fields of
the other.
"""

import secrets
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from msgspec import UnsetType
from msgspec.structs import replace

from penstock.errors import (
    AlreadyExists,
    GapOverlaps,
    JobEnded,
    JobRunning,
    UnknownJob,
    UnknownKind,
    VersionChanged,
)
from penstock.jobs.documents import as_document, as_job
from penstock.jobs.kinds import AnyKind
from penstock.jobs.model import EVENTS_KEPT, Job, JobEdit, NewJob
from penstock.jobs.ranges import held, overlap
from penstock.jobs.schedule import MANUAL
from penstock.jobs.validation import admitted, edited, kind_of
from penstock.storage.state import Document, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import JOBS

_LIVE = ("active", "paused")
_PAGE = 500


class JobAction(NamedTuple):
    """A client's action on a job, and its reason."""

    what: str
    why: str = ""


class JobService:
    """All jobs of a store."""

    def __init__(self, store: StateStore, kinds: Mapping[str, AnyKind]) -> None:
        self.store, self.kinds = store, kinds

    async def create(self, new: NewJob, origin: str = "") -> Job:
        """Create a job that is due at once; ``origin`` names what created it, if not a client.

        Raises:
            BadJob: it is invalid.
            AlreadyExists: a live job does the same work; ``existing_id`` is its id.
            GapOverlaps: a live job does a part of it.
        """
        now_ms = await self.store.now_ms()
        job = replace(admitted(new, self.kinds, _fresh_id(now_ms), now_ms), origin=origin)
        document = _with_event(
            _updated_document({}, job, job.next_run_at), now_ms, JobAction("created")
        )
        async with self._range_of(job):
            inserted = await self.store.insert_if_absent(JOBS, document)
        if not inserted.created:
            raise AlreadyExists(JOBS.name, inserted.document["id"])
        return self._job(inserted.document)

    async def get(self, job_id: str) -> Job:
        """Return a job, also one that has ended.

        Raises:
            UnknownJob: no job ever had this id.
        """
        document = await self.store.get(JOBS, job_id)
        if document is None:
            raise UnknownJob(job_id)
        return self._job(document)

    async def find(  # noqa: PLR0913 (a filter per field)
        self,
        *,
        exchange_id: str | None = None,
        type: str | None = None,  # noqa: A002 (the field's name)
        symbol: str | None = None,
        timeframe: str | None = None,
        status: str | None = None,
        state: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[Job]:
        """Return jobs in the order of their creation, those after the id ``after``.

        Deleted jobs are included only on request: by status, or by the state ``success``.
        """
        asked = {
            "exchange_id": exchange_id,
            "type": type,
            "symbol": symbol,
            "timeframe": timeframe,
            "status": status,
            "state": state,
        }
        where = [
            Condition(field, "=", value) for field, value in asked.items() if value is not None
        ]
        if status is None and state != "success":
            where.append(Condition("status", "in", _LIVE))
        beyond = {"id": after} if after is not None else None
        found = await self.store.find(JOBS, [where], limit=limit, after=beyond)
        return [self._job(document) for document in found]

    async def ended(self, since_ms: int, limit: int = 100, **asked: str | None) -> list[Job]:
        """Return the latest jobs that ended in success after a time, in the order of creation.

        ``asked`` are fields and their required values; None matches any.
        """
        where = [
            Condition(field, "=", value) for field, value in asked.items() if value is not None
        ]
        where += [Condition("status", "=", "deleted"), Condition("state", "=", "success")]
        where.append(Condition("updated_at", ">", since_ms))
        kept = deque[Job](maxlen=limit)
        after: Document | None = None
        while page := await self.store.find(JOBS, [where], limit=_PAGE, after=after):
            kept.extend(map(self._job, page))
            after = {"id": page[-1]["id"]}
        return list(kept)

    async def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of live jobs in each state, by exchange."""
        counted: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for row in await self.store.counts(JOBS):
            if row["status"] in _LIVE:
                counted[row["exchange_id"]][row["state"]] += row["count"]
        return counted

    async def edit(self, job_id: str, edit: JobEdit, *, version: int | None) -> Job:
        """Change the schedule, priority or cursor of a job.

        Raises:
            UnknownJob, UnknownKind, JobEnded, BadJob: it cannot be changed, or not in this way.
            VersionChanged: it has another version than ``version``.
            JobRunning: its cursor cannot change while a worker holds it.
            GapOverlaps: another job does a part of its new range.
        """

        def change(job: Job, now_ms: int) -> Job:
            changed = edited(job, edit, self.kinds, now_ms)
            if changed.cursor != job.cursor and _held(job, now_ms):
                raise JobRunning(job_id, job.lock.locked_by or "a worker")
            return changed

        job, action = await self.get(job_id), JobAction("edited")
        if not job.is_known or isinstance(edit.cursor, UnsetType):
            return await self._change(job_id, action, change, version)
        async with self._range_of(edited(job, JobEdit(cursor=edit.cursor), self.kinds, 0)):
            return await self._change(job_id, action, change, version)

    async def pause(self, job_id: str, why: str = "") -> Job:
        """Pause a job; a worker that runs it stops at the end of the page."""
        action = JobAction("paused", why)
        return await self._change(job_id, action, lambda job, _: replace(job, status="paused"))

    async def resume(self, job_id: str) -> Job:
        """Resume a job that was paused or has failed."""

        def change(job: Job, now_ms: int) -> Job:
            if job.state == "failed":
                claimed_by = kind_of(job.type, self.kinds).claim_priority(job.priority)
                due = {"next_run_at": now_ms, "claim_priority": claimed_by}
                job = replace(job, state="idle", attempts=0, **due)
            elif job.status == "paused" and not _held(job, now_ms):
                # It was due while it was paused, but others have waited longer.
                job = replace(job, next_run_at=max(job.next_run_at, now_ms))
            return replace(job, status="active")

        return await self._change(job_id, JobAction("resumed"), change)

    async def run(self, job_id: str) -> Job:
        """Run a job now, before all others; a paused job is resumed."""

        def change(job: Job, now_ms: int) -> Job:
            job = replace(job, status="active")
            if _held(job, now_ms):
                return job
            due = {"next_run_at": now_ms, "claim_priority": MANUAL}
            return replace(job, state="queued", attempts=0, **due)

        return await self._change(job_id, JobAction("asked_for"), change)

    async def wake(self, exchange_id: str) -> int:
        """Make jobs that wait for an exchange's budget due now; return how many there are."""

        def change(job: Job, now_ms: int) -> Job:
            if job.state != "waiting_rate_limit" or job.status != "active":
                return job
            return replace(job, next_run_at=min(job.next_run_at, now_ms))

        woken, state, after = 0, "waiting_rate_limit", ""
        while page := await self.find(
            exchange_id=exchange_id, status="active", state=state, limit=_PAGE, after=after or None
        ):
            for job in page:
                with suppress(JobEnded, UnknownJob, UnknownKind):
                    await self._change(job.id, JobAction("woken"), change)
                    woken += 1
            after = page[-1].id
        return woken

    async def delete(self, job_id: str, *, version: int | None = None) -> Job:
        """Delete a job; its data and its events stay.

        Raises:
            UnknownJob, UnknownKind, VersionChanged: it cannot be deleted, or not this version.
        """
        job = await self.get(job_id)
        if job.status == "deleted":
            return job
        return await self._change(
            job_id, JobAction("deleted"), lambda job, _: replace(job, status="deleted"), version
        )

    def _job(self, document: Document) -> Job:
        return as_job(document, self.kinds)

    @asynccontextmanager
    async def _range_of(self, job: Job) -> AsyncIterator[None]:
        """Reserve a job's range, if it has one and that is free, while the job is written."""
        span = self._span(job)
        if span is None:
            yield
            return
        channel = self.kinds[job.type].channel(job.target)
        async with held(self.store, job, channel, span):
            await self._check_overlap(job, span)
            yield

    def _span(self, job: Job) -> tuple[int, int] | None:
        """The range that a job has yet to do; None for one that cannot overlap with others."""
        return self.kinds[job.type].span(job.target, job.cursor) if job.is_known else None

    async def _check_overlap(self, job: Job, span: tuple[int, int]) -> None:
        """Reject a range that overlaps with that of another live job of the same channel."""
        channel_of = self.kinds[job.type].channel
        market = {"symbol": job.symbol, "timeframe": job.timeframe}
        after: str | None = None
        while page := await self.find(
            exchange_id=job.exchange_id, type=job.type, **market, limit=_PAGE, after=after
        ):
            for other in page:
                theirs = self._span(other)
                if other.id == job.id or theirs is None or not overlap(span, theirs):
                    continue
                if channel_of(other.target) == channel_of(job.target):
                    raise GapOverlaps(JOBS.name, other.id, span, theirs)
            after = page[-1].id

    async def _change(
        self,
        job_id: str,
        action: JobAction,
        change: Callable[[Job, int], Job],
        version: int | None = None,
    ) -> Job:
        """Apply a client's change to a job; write nothing if it changes nothing."""
        now_ms = await self.store.now_ms()
        seen: list[Job] = []

        def changed(document: Document) -> Document | None:
            job = self._job(document)
            seen.append(job)
            if not job.is_known:
                raise UnknownKind(job_id, job.type)
            if version not in (None, job.version):
                raise VersionChanged(f"Job {job_id!r}", version or 0, job.version)
            if job.status == "deleted":
                how = "is done" if job.state == "success" else "was deleted"
                raise JobEnded(job_id, how)
            new = change(job, now_ms)
            if replace(new, updated_at=job.updated_at) == job:
                return None
            wake_at = document.get("wake_at") if _held(job, now_ms) else _wake_at(new)
            filed = _updated_document(document, replace(new, updated_at=now_ms), wake_at)
            return _with_event(filed, now_ms, action)

        written = await self.store.update(JOBS, job_id, changed)
        if written is None and not seen:
            raise UnknownJob(job_id)
        return self._job(written) if written else seen[-1]


def _fresh_id(now_ms: int) -> str:
    """Return an id that sorts by time and cannot be guessed."""
    return f"{now_ms:012x}{secrets.token_hex(6)}"


def _held(job: Job, now_ms: int) -> bool:
    """Whether a worker holds it."""
    return job.state == "running" and now_ms < (job.lock.lock_until or 0)


def _wake_at(job: Job) -> int | None:
    """The time at which a job that no worker holds may be claimed."""
    return None if job.state in ("failed", "success") else job.next_run_at


def _updated_document(document: Document, job: Job, wake_at: int | None) -> Document:
    """Return the document of a job; its other fields stay."""
    return {**document, **as_document(job), "wake_at": wake_at}


def _with_event(document: Document, at_ms: int, action: JobAction) -> Document:
    """Return the document with an event for a client's action."""
    event = {"at": at_ms, "what": action.what, "detail": action.why, "by": ""}
    return {**document, "orders": [*document.get("orders", ()), event][-EVENTS_KEPT // 2 :]}
