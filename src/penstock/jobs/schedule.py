"""Computes when a job is due, and which of the due jobs runs first. Pure.

A repeating job is due on a grid: at whole intervals since the epoch, plus an offset. The offset is
derived from the job's id and lies between zero and a tenth of the interval (5 % ± 5 %): candles
have closed by then, and jobs of one interval are spread out. The grid does not drift, and after a
downtime one run is due, not all that were missed.
"""

from hashlib import blake2b

JITTER = 0.05
"""The largest shift of a job's grid in either direction, as a share of the interval."""
AGEING_MS = 60_000
"""The waiting time that equals one point of priority."""
MANUAL, GAP = -2, -1
"""Claim priorities of manual runs and of gaps: before all other due jobs."""
_BEFORE_ALL_MS = 10**15


def jitter_ms(job_id: str, interval_ms: int) -> int:
    """The shift of a job, within ± ``JITTER`` of the interval; constant for each job."""
    drawn = int.from_bytes(blake2b(job_id.encode(), digest_size=8).digest(), "big")
    most = int(interval_ms * JITTER)
    return drawn % (2 * most + 1) - most


def next_due(job_id: str, interval_ms: int, after_ms: int) -> int:
    """The first time on a job's grid after ``after_ms``."""
    shift = int(interval_ms * JITTER) + jitter_ms(job_id, interval_ms)
    return ((after_ms - shift) // interval_ms + 1) * interval_ms + shift


def rank(due_ms: int, claim_priority: int) -> int:
    """The value by which due jobs are ordered: lower runs first.

    A job overtakes another that has waited up to ``AGEING_MS`` longer per point of priority, so
    that urgent jobs run first and no job waits for ever. Priorities below zero precede all others.
    """
    return due_ms + claim_priority * (AGEING_MS if claim_priority >= 0 else _BEFORE_ALL_MS)


def wake_ms(reset_ms: int, ahead: int, serves: int, window_ms: int) -> int:
    """The time at which a job that waits for budget is due, with ``ahead`` jobs before it.

    The budget of a window is enough for ``serves`` jobs; the others wait for later windows.
    """
    return reset_ms + ahead // max(1, serves) * window_ms
