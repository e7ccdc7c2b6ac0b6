"""Ordering: every number of a topic and slot once, in order, whatever the bus brought of them.

Pure: it is told which numbers arrive, and says what is missing before each and whether it is to be
delivered. The bus keeps the order of one slot's frames, so a number that was jumped over is lost,
and so is all below an announced last number that has not come by then.

A number may be wrong: a defect, or somebody who may publish and should not. So no single frame can
end a stream. A number far ahead is not believed before the slot has announced it twice in a row,
and a jump of any length is remembered until an announcement or the log confirms it. A slot
announces itself every second: where it says twice in a row that it is not as far as we are, we go
back to where we jumped from.
"""

from typing import Literal, NamedTuple

from penstock.publish.frames import Head

Start = Literal["last", "now"] | int
"""Begin with the last record there is, with what comes from now on, or with a number."""

FARTHEST = 1_000_000
"""A number so much further ahead is not believed at once."""
_BELIEVED = 2
"""How often in a row a slot must announce what contradicts what we have seen."""


class Step(NamedTuple):
    """What to do about one frame."""

    missing: tuple[int, int] | None
    """Numbers, the last included, to be had elsewhere first."""
    deliver: bool
    """Whether the frame itself is then to be delivered."""
    doubted: bool = False
    """Whether its number is too far ahead to be believed yet."""


_NOTHING = Step(None, deliver=False)
_DOUBTED = Step(None, deliver=False, doubted=True)


class _Place:
    __slots__ = ("ahead", "begun", "behind", "expected", "jumped_to", "resume", "run")

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.begun = False
        self.run = 0
        self.resume: int | None = None
        """Where we were before a jump that nothing has confirmed yet."""
        self.jumped_to = 0
        self.ahead = 0
        """How often in a row a number far ahead was announced …"""
        self.behind = 0
        """… and one behind us."""


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
        if place.begun and number - place.expected > FARTHEST:
            return _DOUBTED  # If the slot is there, it announces so, and the log has the record.
        return Step(self._pass_over(place, number - 1, number), deliver=True)

    def announced(
        self, topic: str, slot: str, last: int, head: Head, *, before: bool = False
    ) -> Step:
        """This is the last number that was given; ``before``: as it was when we joined."""
        place = self._places.get((topic, slot))
        if place is None:
            place = self._begin(topic, slot, last + (self._start == "now" or not last))
            place.run = head.run
        if place.begun and last < place.expected - 1:
            return _NOTHING if before else self._announced_behind(place, last, head)
        place.behind = 0
        if place.begun and last - place.expected > FARTHEST:
            place.ahead += 1
            if place.ahead < _BELIEVED:
                return _DOUBTED
        place.ahead = 0
        place.run = max(place.run, head.run)
        if last < place.expected:
            place.resume = None  # It is as far as we are: whatever we jumped over, it did too.
        return Step(self._pass_over(place, last, last), deliver=False)

    def filled(self, topic: str, slot: str, number: int) -> None:
        """The log gave one of the numbers that were missing; they are asked for in order."""
        place = self._places[topic, slot]
        if place.resume is not None and number >= place.resume:
            # A log that has the last number before the jump confirms the jump.
            place.resume = number + 1 if number < place.jumped_to else None

    def _announced_behind(self, place: _Place, last: int, head: Head) -> Step:
        """The slot says that it is not as far as we are.

        One such word may be late, from before the slot's process was restarted; or it is wrong.
        """
        place.ahead = 0
        place.behind += 1
        if place.behind < _BELIEVED:
            return _NOTHING
        place.behind = 0
        if place.resume is not None and place.resume <= last + 1:
            place.expected = place.resume
        elif 0 < place.run < head.run:
            place.expected = 1  # A newer process counts from less: its log was begun anew.
        else:
            place.expected = last + 1
        place.resume, place.run = None, head.run
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
        if missing_to < first:
            return None
        place.jumped_to = missing_to
        if place.resume is None:
            place.resume = first
        return first, missing_to
