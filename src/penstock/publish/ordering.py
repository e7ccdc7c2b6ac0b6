"""Ordering: every number of a topic and slot once, in order, whatever the bus brought of them.

Pure: it is told which numbers arrive, and says what is missing before each and whether it is to be
delivered. The bus keeps the order of one slot's frames, so a number that was jumped over is lost,
and so is all below an announced last number that has not come by then.
"""

from typing import Literal, NamedTuple

from penstock.publish.frames import Head

Start = Literal["last", "now"] | int
"""Begin with the last record there is, with what comes from now on, or with a number."""


class Step(NamedTuple):
    """What to do about one frame."""

    missing: tuple[int, int] | None
    """Numbers, the last included, to be had elsewhere first."""
    deliver: bool
    """Whether the frame itself is then to be delivered."""


_NOTHING = Step(None, deliver=False)


class _Place:
    __slots__ = ("begun", "expected", "run")

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.begun = False
        self.run = 0


class Ordering:
    """Where each topic and slot stands."""

    def __init__(self, start: Start = "last") -> None:
        self._start = start
        self._places: dict[tuple[str, str], _Place] = {}

    def arrived(self, topic: str, slot: str, number: int, *, before: bool = False) -> Step:
        """A record arrived; ``before``: it was sent before we joined."""
        place = self._places.get((topic, slot))
        if place is None:
            skipped = before and self._start == "now"
            place = self._begin(topic, slot, number + 1 if skipped else number)
        if number < place.expected:
            return _NOTHING
        return Step(self._pass_over(place, number - 1, number), deliver=True)

    def announced(self, topic: str, slot: str, last: int, head: Head) -> Step:
        """This is the last number that was given."""
        place = self._places.get((topic, slot))
        if place is None:
            place = self._begin(topic, slot, last + (self._start == "now" or not last))
        if head.run > place.run:
            if place.begun and place.run and last < place.expected - 1:
                # A newer process counts from less than we have seen: its log was begun anew.
                place.expected = 1
            place.run = head.run
        return Step(self._pass_over(place, last, last), deliver=False)

    def _begin(self, topic: str, slot: str, expected: int) -> _Place:
        first = self._start if isinstance(self._start, int) else expected
        place = self._places[topic, slot] = _Place(first)
        # A number that was asked for may lie far ahead; anything else is where the slot stands.
        place.begun = not isinstance(self._start, int)
        return place

    def _pass_over(self, place: _Place, missing_to: int, reached: int) -> tuple[int, int] | None:
        """Go on behind ``reached``; the numbers up to ``missing_to`` that never came, if any."""
        first = place.expected
        if reached >= first:
            place.expected, place.begun = reached + 1, True
        return (first, missing_to) if missing_to >= first else None
