"""Jobs: work with a cursor, leased to one worker at a time.

People speak to ``JobDesk``, workers to ``Leases``.
"""

from penstock.jobs.desk import JobDesk
from penstock.jobs.leases import Leases
from penstock.jobs.model import Cursor, Job, JobEdit, NewJob, Schedule

__all__ = ["Cursor", "Job", "JobDesk", "JobEdit", "Leases", "NewJob", "Schedule"]
