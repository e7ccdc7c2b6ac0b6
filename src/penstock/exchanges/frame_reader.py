"""Reads stream frames: many together where possible, else one by one and with care.

The two ways are the same for all dialects; a dialect provides what differs. Numbers are validated
together, after all frames have been decoded (``deferred_numbers.py``).
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frames import NOT_READ, malformed, unreadable
from penstock.market.events import AnyEvent
from penstock.streaming.dialect import Received


class ReadsFrames(Protocol):
    """What a dialect provides. All may raise one of ``NOT_READ``."""

    def events(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[AnyEvent]:
        """The events of frames in the exchange's usual format."""
        ...

    def answers(self, frame: bytes) -> list[Received] | None:
        """The contents of a frame without events; None if it has events."""
        ...

    def events_of(self, frame: bytes, received_at_ns: int) -> list[AnyEvent]:
        """The events of one frame in any format."""
        ...


def _unchanged(events: list[AnyEvent]) -> list[AnyEvent]:
    return events


class FrameReader:
    """Reads the frames of one connection."""

    def __init__(
        self,
        dialect: ReadsFrames,
        largest_frame: int,
        deferred: DeferredNumbers,
        accepted: Callable[[list[AnyEvent]], list[AnyEvent]] = _unchanged,
    ) -> None:
        """``accepted`` is called with valid events, and returns those to pass on."""
        self._dialect, self._events = dialect, dialect.events
        self._largest, self._deferred, self._accepted = largest_frame, deferred, accepted

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """See ``Dialect``."""
        events = self.read_many((frame,), (received_at_ns,))
        return [*events] if events is not None else self.read_carefully(frame, received_at_ns)

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[AnyEvent] | None:
        """See ``ReadsMany``."""
        if max(map(len, frames), default=0) <= self._largest:
            try:
                events = self._events(frames, received_at_ns)
            except NOT_READ:
                pass
            else:
                if self._deferred.are_plain():
                    return self._accepted(events)
        self._deferred.forget()
        return None

    def read_carefully(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """The contents of a frame of any kind, or what is wrong with it."""
        self._deferred.forget()
        if isinstance(frame, str):
            frame = frame.encode(errors="replace")
        if len(frame) > self._largest:
            return [malformed("too_large", f"{len(frame)} bytes", frame)]
        try:
            said = self._dialect.answers(frame)
            if said is not None:
                return said
            events = self._dialect.events_of(frame, received_at_ns)
        except NOT_READ as error:
            self._deferred.forget()
            return [unreadable(error, frame)]
        problem = self._deferred.problem()
        if problem is not None:
            return [malformed("not_a_number", problem, frame)]
        return [*self._accepted(events)]
