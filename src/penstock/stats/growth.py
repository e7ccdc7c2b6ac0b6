"""How fast data grows, and when a disk will be full, from samples of its size.

Sizes rise with every record and fall with every compaction and deletion. So the growth is that of a
straight line through the samples of a day, not the difference of two of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

DAY_MS = 86_400_000
EVERY_MS = 600_000
"""Time between two samples that are kept."""
_KEPT_MS = 7 * DAY_MS
DATASET_EVERY_MS = 3_600_000
"""The same for each dataset, of which there may be many."""
_LEAST_MS = 3_600_000
"""Growth is not known before samples cover this time."""


class Sample(NamedTuple):
    """The size of data at a time."""

    at_ms: int
    size_bytes: int


def with_sample(
    samples: Sequence[Sample], new: Sample, every_ms: int = EVERY_MS, kept_ms: int = _KEPT_MS
) -> list[Sample]:
    """The samples to keep, with a new one if the last is old enough.

    Those that are later than the new one are dropped: the clock was set back.
    """
    kept = [each for each in samples if new.at_ms - kept_ms <= each.at_ms <= new.at_ms]
    if not kept or new.at_ms - kept[-1].at_ms >= every_ms:
        kept.append(new)
    return kept


def growth_per_day(samples: Sequence[Sample], now: Sample) -> float | None:
    """Bytes per day, from the samples of the last day and the size now; None if it is not known."""
    points = [each for each in samples if now.at_ms - DAY_MS <= each.at_ms < now.at_ms]
    if not points or now.at_ms - points[0].at_ms < _LEAST_MS:
        return None
    points.append(now)
    middle_ms = sum(each.at_ms for each in points) / len(points)
    middle = sum(each.size_bytes for each in points) / len(points)
    covariance = sum((p.at_ms - middle_ms) * (p.size_bytes - middle) for p in points)
    return covariance / sum((p.at_ms - middle_ms) ** 2 for p in points) * DAY_MS


def days_until_full(free_bytes: int, per_day: float | None) -> float | None:
    """Days until a disk is full; None if data does not grow, or the growth is not known."""
    return None if per_day is None or per_day <= 0 else free_bytes / per_day
