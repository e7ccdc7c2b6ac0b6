"""The jobs that need attention first, and how many there are in each state."""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.jobs.model import Job, State
from penstock.jobs.service import JobService
from penstock.storage.state.schema import JOBS

MOST_JOBS = 500
_ORDER: Sequence[State] = ("running", "failed", "waiting_rate_limit", "queued", "idle")
_LIVE = ("active", "paused")


class SummarizedJobs(NamedTuple):
    """Live jobs, and the number of all of them."""

    jobs: list[Job]
    """Those that run, those that failed, then the others."""
    counts: dict[str, int]
    """By state, without those of which there are none."""
    paused: int


async def summarized_jobs(service: JobService, most: int = MOST_JOBS) -> SummarizedJobs:
    """The first ``most`` live jobs.

    Raises:
        StorageError: the store does not answer.
    """
    counts: dict[str, int] = {}
    paused = 0
    for row in await service.store.counts(JOBS):
        if row["status"] in _LIVE:
            counts[row["state"]] = counts.get(row["state"], 0) + row["count"]
            paused += row["count"] * (row["status"] == "paused")
    found: dict[str, Job] = {}
    for state in _ORDER:
        if counts.get(state) and len(found) < most:
            # A job that changed meanwhile is found twice.
            for job in await service.find(state=state, limit=most - len(found)):
                found.setdefault(job.id, job)
    return SummarizedJobs(list(found.values()), counts, paused)
