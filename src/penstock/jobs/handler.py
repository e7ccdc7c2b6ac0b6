"""The interface of job handlers: one class per kind of job.

A handler receives a job run: a job that no other worker holds. It works page by page. Each page is
made durable first, then the cursor is moved past it with ``job_run.save``, which returns whether to
continue. Exceptions are left to the worker, which decides about a retry.
"""

from typing import Protocol

from penstock.jobs.kinds import JobKind
from penstock.jobs.run import JobRun


class Handler(Protocol):
    """Runs the jobs of one kind; several at a time."""

    @property
    def kind(self) -> JobKind: ...

    async def run(self, job_run: JobRun) -> bool:
        """Work until there is nothing more to do now, or ``job_run.save`` returns False.

        Returns whether there is nothing more to do. It may be cancelled at any await; the next run
        continues from what was last saved.
        """
        ...
