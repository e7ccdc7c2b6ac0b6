"""Jobs: work with a cursor, leased to one worker at a time.

People speak to ``JobService``, workers to ``Leases``.
"""

from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, JobEdit, NewJob, Schedule
from penstock.jobs.service import JobService

__all__ = ["Cursor", "Job", "JobEdit", "JobService", "Leases", "NewJob", "Schedule"]
