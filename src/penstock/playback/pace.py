"""Decides when replayed records are due, without a clock of its own.

All instants are computed from the first record, so errors do not add up: a replay that falls
behind, because its receiver is slow, catches up as soon as it can.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from penstock.clock import Clock
from penstock.errors import BadSpeed
from penstock.storage.log import Received

_SECOND_NS = 1_000_000_000
_RECEIVED = attrgetter("received_at_ns")


def check_speed(speed: float | None) -> float | None:
    """The speed itself.

    Raises:
        BadSpeed: it is not a number above zero.
    """
    if speed is not None and not 0 < speed < float("inf"):
        raise BadSpeed(speed)
    return speed


class Pace:
    """Splits records into batches that are due, and waits between them."""

    def __init__(self, speed: float | None, clock: Clock) -> None:
        """``speed``: seconds of the recording per second; None: as fast as possible."""
        self._speed, self._clock = check_speed(speed), clock
        self._began: tuple[int, int] | None = None
        """When the first record was received, and when it was replayed."""

    def steps(self, records: list[Received]) -> Iterator[float | Sequence[Received]]:
        """The records in batches; before each batch that is not due yet, the seconds to wait."""
        if self._speed is None:
            yield records
            return
        if self._began is None:
            self._began = records[0].received_at_ns, self._clock.monotonic_ns()
        first_ns, began_ns = self._began
        place = 0
        while place < len(records):
            passed_ns = self._clock.monotonic_ns() - began_ns
            reached_ns = first_ns + int(passed_ns * self._speed)
            end = bisect_right(records, reached_ns, place, key=_RECEIVED)
            if end > place:
                yield records[place:end]
                place = end
                continue
            due_ns = (records[place].received_at_ns - first_ns) / self._speed
            yield max(due_ns - passed_ns, 0) / _SECOND_NS
