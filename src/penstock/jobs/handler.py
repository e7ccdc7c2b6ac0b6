"""The port of those who do the work: one class per kind of job.

A handler is given a job run: a job that nobody else holds. It works page by page. Each page is
made durable first, then the cursor is moved behind it with ``job_run.save``, which says whether to
go on.
Errors are left to the worker: it knows which are worth another attempt.
"""

from typing import Protocol

from penstock.jobs.kinds import JobKind
from penstock.jobs.run import JobRun


class Handler(Protocol):
    """Does the jobs of one kind; several at a time."""

    @property
    def kind(self) -> JobKind: ...

    async def run(self, job_run: JobRun) -> bool:
        """Work until there is nothing more to do now, or ``job_run.save`` says stop.

        Returns whether there is nothing more to do. It may be cancelled at any await; whoever has
        the job next begins with what was last saved.
        """
        ...
