"""Reads stream frames: many together where possible, else one by one and with care.

The two ways are the same for all dialects; a dialect provides what differs, as functions that may
raise one of ``NOT_READ``. Numbers are validated together, after all frames have been decoded
(``deferred_numbers.py``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.frames import NOT_READ, malformed, unreadable
from penstock.exchanges.layouts import Layouts, Reads, usual_first
from penstock.market.events import Event
from penstock.streaming.dialect import Received


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameReader:
    """Reads the frames of one connection."""

    largest_frame: int
    deferred: DeferredNumbers
    events: Callable[[Sequence[bytes | str], Sequence[int]], list[Event]]
    """(frames, received_at_ns) → the events of frames in the exchange's usual format."""
    answers: Callable[[bytes], list[Received] | None]
    """The contents of a frame without events; None if it has events."""
    with_care: Callable[[bytes | str, int], list[Event]]
    """(frame, received_at_ns) → the events of a frame in any format."""
    accepted: Callable[[list[Event]], list[Event]] | None = None
    """Is called with valid events, and returns those to pass on; None passes on all."""

    def after(self, exchange: str, layouts: Layouts) -> Reads:
        """What reads frames with these layouts, and leaves all others to this reader."""
        otherwise = Reads(self.read, self.read_many)
        return usual_first(exchange, self.largest_frame, layouts, otherwise, self.accepted)

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """See ``Dialect``."""
        if len(frame) <= self.largest_frame:
            try:
                # Any: mypy does not take a list of events for one of ``Received``.
                events: list[Any] = self.with_care(frame, received_at_ns)
            except NOT_READ:
                pass
            else:
                if self.deferred.are_plain():
                    return events if self.accepted is None else [*self.accepted(events)]
        return self.read_carefully(frame, received_at_ns)

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[Event] | None:
        """See ``ReadsMany``."""
        if max(map(len, frames), default=0) <= self.largest_frame:
            try:
                events = self.events(frames, received_at_ns)
            except NOT_READ:
                pass
            else:
                if self.deferred.are_plain():
                    return events if self.accepted is None else self.accepted(events)
        self.deferred.forget()
        return None

    def read_carefully(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """The contents of a frame of any kind, or what is wrong with it."""
        self.deferred.forget()
        if isinstance(frame, str):
            frame = frame.encode(errors="replace")
        if len(frame) > self.largest_frame:
            return [malformed("too_large", f"{len(frame)} bytes", frame)]
        try:
            said = self.answers(frame)
            if said is not None:
                return said
            events = self.with_care(frame, received_at_ns)
        except NOT_READ as error:
            self.deferred.forget()
            return [unreadable(error, frame)]
        problem = self.deferred.problem()
        if problem is not None:
            return [malformed("not_a_number", problem, frame)]
        return [*events] if self.accepted is None else [*self.accepted(events)]
