"""Ensures that a subscriber gets every number of a topic and slot once and in order.

Pure: the input is the numbers that arrive; the output is which numbers are missing before each, and
whether it is to be delivered. The bus keeps the order of one slot's frames, so a skipped number was
dropped, and so was every number up to an announced last number that has not arrived by then.

A number may be wrong, because of a defect or a malicious publisher. So no single frame can end a
stream. A number far ahead is accepted only after the slot has announced it twice in a row, and a
jump of any length is remembered until an announcement or the log confirms it. A slot sends an
announcement every second: if two in a row are behind the subscriber's position, the position goes
back to where it was before the jump.
"""

from typing import Literal, NamedTuple

from penstock.publish.frames import Head

Start = Literal["last", "now"] | int
"""Begin with the last record of each stream, with new records only, or with a number."""

FARTHEST = 1_000_000
"""A number further ahead than this must be announced twice in a row to be accepted."""
_BELIEVED = 2
"""Announcements in a row that are needed to accept a number that contradicts the position."""


class FrameDecision(NamedTuple):
    """What to do with one frame."""

    missing: tuple[int, int] | None
    """The first and last missing number, to be read from the log before this frame."""
    deliver: bool
    """Whether the frame is to be delivered then."""
    doubted: bool = False
    """Whether its number is too far ahead to be accepted yet."""


_NOTHING = FrameDecision(None, deliver=False)
_DOUBTED = FrameDecision(None, deliver=False, doubted=True)


class _StreamPosition:
    __slots__ = ("ahead", "begun", "behind", "expected", "jumped_to", "resume", "run")

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.begun = False
        self.run = 0
        self.resume: int | None = None
        """The position before a jump that is not confirmed yet."""
        self.jumped_to = 0
        self.ahead = 0
        """Announcements in a row of a number far ahead."""
        self.behind = 0
        """Announcements in a row of a number behind the position."""


class Ordering:
    """The position in each topic and slot."""

    def __init__(self, start: Start = "last") -> None:
        self._start = start
        self._positions: dict[tuple[str, str], _StreamPosition] = {}

    def arrived(self, topic: str, slot: str, number: int, *, before: bool = False) -> FrameDecision:
        """Process a record; ``before``: it was sent before the subscriber joined."""
        position = self._positions.get((topic, slot))
        if position is None:
            skipped = before and self._start == "now"
            position = self._begin(topic, slot, number + 1 if skipped else number)
        if number < position.expected:
            return _NOTHING
        if position.begun and number - position.expected > FARTHEST:
            return _DOUBTED  # If correct, the slot announces it, and the log has the record.
        return FrameDecision(self._pass_over(position, number - 1, number), deliver=True)

    def announced(
        self, topic: str, slot: str, last: int, head: Head, *, before: bool = False
    ) -> FrameDecision:
        """Process an announced last number; ``before``: as of when the subscriber joined."""
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
            position.resume = None  # The slot is at the same position, which confirms the jump.
        return FrameDecision(self._pass_over(position, last, last), deliver=False)

    def filled(self, topic: str, slot: str, number: int) -> None:
        """Process a missing number that was read from the log; they are read in order."""
        position = self._positions[topic, slot]
        if position.resume is not None and number >= position.resume:
            # A log that has the last number before the jump confirms the jump.
            position.resume = number + 1 if number < position.jumped_to else None

    def _announced_behind(self, position: _StreamPosition, last: int, head: Head) -> FrameDecision:
        """Process an announced number behind the position.

        A single one may be late, from before a restart of the slot's process, or wrong.
        """
        position.ahead = 0
        position.behind += 1
        if position.behind < _BELIEVED:
            return _NOTHING
        position.behind = 0
        if position.resume is not None and position.resume <= last + 1:
            position.expected = position.resume
        elif 0 < position.run < head.run:
            position.expected = 1  # A newer process with a lower number: its log is a new one.
        else:
            position.expected = last + 1
        position.resume, position.run = None, head.run
        return FrameDecision(self._pass_over(position, last, last), deliver=False)

    def _begin(self, topic: str, slot: str, expected: int) -> _StreamPosition:
        first = self._start if isinstance(self._start, int) else expected
        position = self._positions[topic, slot] = _StreamPosition(first)
        # A requested start may be far from the slot's position; any other start is that position.
        position.begun = not isinstance(self._start, int)
        return position

    def _pass_over(
        self, position: _StreamPosition, missing_to: int, reached: int
    ) -> tuple[int, int] | None:
        """Advance past ``reached``; return the missing numbers up to ``missing_to``, if any."""
        first = position.expected
        if reached >= first:
            position.expected, position.begun = reached + 1, True
        if missing_to < first:
            return None
        position.jumped_to = missing_to
        if position.resume is None:
            position.resume = first
        return first, missing_to
