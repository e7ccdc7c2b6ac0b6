"""Schedules: when a job is due, and which of those that are due goes first. Pure.

A job that repeats is due on a grid: whole intervals of the epoch, and a while later. How much later
is drawn once, from the job's id, and lies between nothing and a tenth of the interval (5 % give or
take 5 %): candles have closed by then, and jobs of one interval do not all come at once. The grid
knows no drift, and whoever was away finds one run due, not all that were missed.
"""

from hashlib import blake2b

JITTER = 0.05
"""The share of an interval by which a job's grid is moved at most, either way."""
AGEING_MS = 60_000
"""How much waiting one point of priority is worth."""
MANUAL, GAP = -2, -1
"""Claim priorities of runs that somebody asked for, and of gaps: before everything that is due."""
_BEFORE_ALL_MS = 10**15


def jitter_ms(job_id: str, interval_ms: int) -> int:
    """A job's own shift, within ± ``JITTER`` of the interval; always the same one."""
    drawn = int.from_bytes(blake2b(job_id.encode(), digest_size=8).digest(), "big")
    most = int(interval_ms * JITTER)
    return drawn % (2 * most + 1) - most


def next_due(job_id: str, interval_ms: int, after_ms: int) -> int:
    """The first instant of a job's grid after an instant."""
    shift = int(interval_ms * JITTER) + jitter_ms(job_id, interval_ms)
    return ((after_ms - shift) // interval_ms + 1) * interval_ms + shift


def rank(due_ms: int, claim_priority: int) -> int:
    """What jobs are ordered by: lower goes first.

    A job passes another that has waited up to ``AGEING_MS`` longer per point of priority, so that
    urgent jobs go first, and nobody waits for ever. Below zero nothing else counts.
    """
    return due_ms + claim_priority * (AGEING_MS if claim_priority >= 0 else _BEFORE_ALL_MS)


def wake_ms(reset_ms: int, ahead: int, serves: int, window_ms: int) -> int:
    """When a job that waits for budget wakes, if ``ahead`` others come before it.

    A window's budget serves so many; the others wait for the windows after it.
    """
    return reset_ms + ahead // max(1, serves) * window_ms
