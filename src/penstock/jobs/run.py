"""A job run is one job held by one worker, from claim to release."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, cast

from msgspec.structs import replace

from penstock.jobs.model import Job
from penstock.jobs.transitions import with_event

NS_PER_MS = 1_000_000
T = TypeVar("T")
C = TypeVar("C")


class JobRun(Generic[T, C]):
    """A held job. Cursor and progress in ``job`` are those last passed in by its kind."""

    def __init__(self, job: Job, save: Callable[["AnyRun"], Awaitable[None]]) -> None:
        self.job = job
        self._save = save
        self.began_ns = 0
        """When it began, and below, when its lease ends, in this process's monotonic time."""
        self.good_until_ns = 0
        self.lost = ""
        """Why the job is no longer held …"""
        self.gone = asyncio.Event()
        """… and set when that is so: its run must stop at once."""
        self.stopping = ""
        """Why to stop at the end of the page …"""
        self.waits = False
        """… and whether that is something to wait for, rather than a turn of others."""

    @property
    def target(self) -> T:
        """What the job works on."""
        return cast("T", self.job.target)

    @property
    def cursor(self) -> C:
        """Where the job stands."""
        return cast("C", self.job.cursor)

    async def save(
        self, cursor: C, *, rows: int = 0, first_ts: int | None = None, target_ts: int = 0
    ) -> bool:
        """Move the cursor past a durable page; return whether to continue.

        Returns once the cursor is stored.
        """
        known = self.job.progress
        progress = replace(
            known,
            rows=known.rows + rows,
            pages=known.pages + 1,
            first_ts=first_ts if known.first_ts is None else known.first_ts,
            target_ts=target_ts or known.target_ts,
        )
        # It made progress, so earlier failures no longer count.
        self.job = replace(self.job, cursor=cursor, progress=progress, attempts=0)
        await self._save(self)
        return not (self.stopping or self.lost)

    def note(self, what: str, detail: str) -> None:
        """Add an event to the job; stored with the next save."""
        # Times of jobs are the store's, and this is the latest one known here.
        self.job = with_event(self.job, self.job.updated_at, what, detail)

    def recorded(self, place: str, number: int) -> None:
        """Set the last record number that a slot assigned; stored with the next save."""
        known = self.job.progress
        progress = replace(known, recorded={**known.recorded, place: number})
        self.job = replace(self.job, progress=progress)

    def checked(self, until_ms: int) -> None:
        """Set the end of the checked range; stored with the next save."""
        progress = replace(self.job.progress, checked_ts=until_ms)
        self.job = replace(self.job, progress=progress)

    def is_held(self, now_ns: int) -> bool:
        """Whether its lease lasts, at a monotonic time: no other worker can have the job yet."""
        return not self.lost and now_ns < self.good_until_ns

    def stop(self, why: str, *, waits: bool = False) -> None:
        """Make it stop at the end of the page."""
        if not self.stopping:
            self.stopping, self.waits = why, waits

    def lose(self, why: str) -> None:
        """Mark the job as no longer held."""
        self.lost = self.lost or why
        self.gone.set()

    def renewed(self, known: Job, until_ns: int) -> None:
        """Update the end of the lease after a renewal, and apply clients' changes of the job."""
        self.good_until_ns = until_ns
        wanted = {
            "status": known.status,
            "schedule": known.schedule,
            "priority": known.priority,
            "updated_at": known.updated_at,
            "version": known.version,
        }
        self.job = replace(self.job, **wanted)
        if known.status != "active":
            self.stop(f"it was {known.status}")


AnyRun = JobRun[Any, Any]
