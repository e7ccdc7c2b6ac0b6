"""Jobs are tasks with a cursor, each leased to one worker at a time.

The API and the command line use ``JobService``, workers use ``Leases``.
"""

from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, JobEdit, NewJob, Schedule
from penstock.jobs.service import JobService

__all__ = ["Cursor", "Job", "JobEdit", "JobService", "Leases", "NewJob", "Schedule"]
