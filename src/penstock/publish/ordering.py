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


class FrameDecision(NamedTuple):
    """What to do about one frame."""

    missing: tuple[int, int] | None
    """Numbers, the last included, to be had elsewhere first."""
    deliver: bool
    """Whether the frame itself is then to be delivered."""
    doubted: bool = False
    """Whether its number is too far ahead to be believed yet."""


_NOTHING = FrameDecision(None, deliver=False)
_DOUBTED = FrameDecision(None, deliver=False, doubted=True)


class _StreamPosition:
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
        self._positions: dict[tuple[str, str], _StreamPosition] = {}

    def arrived(self, topic: str, slot: str, number: int, *, before: bool = False) -> FrameDecision:
        """A record arrived; ``before``: it was sent before we joined."""
        position = self._positions.get((topic, slot))
        if position is None:
            skipped = before and self._start == "now"
            position = self._begin(topic, slot, number + 1 if skipped else number)
        if number < position.expected:
            return _NOTHING
        if position.begun and number - position.expected > FARTHEST:
            return _DOUBTED  # If the slot is there, it announces so, and the log has the record.
        return FrameDecision(self._pass_over(position, number - 1, number), deliver=True)

    def announced(
        self, topic: str, slot: str, last: int, head: Head, *, before: bool = False
    ) -> FrameDecision:
        """This is the last number that was given; ``before``: as it was when we joined."""
        position = self._positions.get((topic, slot))
        if position is None:
            position = self._begin(topic, slot, last + (self._start == "now" or not last))
            position.run = head.run
        if position.begun and last < position.expected - 1:
            return _NOTHING if before else self._announced_behind(position, last, head)
        position.behind = 0
        if position.begun and last - position.expected > FARTHEST:
            position.ahead += 1
            if position.ahead < _BELIEVED:
                return _DOUBTED
        position.ahead = 0
        position.run = max(position.run, head.run)
        if last < position.expected:
            position.resume = None  # It is as far as we are: whatever we jumped over, it did too.
        return FrameDecision(self._pass_over(position, last, last), deliver=False)

    def filled(self, topic: str, slot: str, number: int) -> None:
        """The log gave one of the numbers that were missing; they are asked for in order."""
        position = self._positions[topic, slot]
        if position.resume is not None and number >= position.resume:
            # A log that has the last number before the jump confirms the jump.
            position.resume = number + 1 if number < position.jumped_to else None

    def _announced_behind(self, position: _StreamPosition, last: int, head: Head) -> FrameDecision:
        """The slot says that it is not as far as we are.

        One such word may be late, from before the slot's process was restarted; or it is wrong.
        """
        position.ahead = 0
        position.behind += 1
        if position.behind < _BELIEVED:
            return _NOTHING
        position.behind = 0
        if position.resume is not None and position.resume <= last + 1:
            position.expected = position.resume
        elif 0 < position.run < head.run:
            position.expected = 1  # A newer process counts from less: its log was begun anew.
        else:
            position.expected = last + 1
        position.resume, position.run = None, head.run
        return FrameDecision(self._pass_over(position, last, last), deliver=False)

    def _begin(self, topic: str, slot: str, expected: int) -> _StreamPosition:
        first = self._start if isinstance(self._start, int) else expected
        position = self._positions[topic, slot] = _StreamPosition(first)
        # A number that was asked for may lie far ahead; anything else is where the slot stands.
        position.begun = not isinstance(self._start, int)
        return position

    def _pass_over(
        self, position: _StreamPosition, missing_to: int, reached: int
    ) -> tuple[int, int] | None:
        """Go on behind ``reached``; the numbers up to ``missing_to`` that never came, if any."""
        first = position.expected
        if reached >= first:
            position.expected, position.begun = reached + 1, True
        if missing_to < first:
            return None
        position.jumped_to = missing_to
        if position.resume is None:
            position.resume = first
        return first, missing_to
