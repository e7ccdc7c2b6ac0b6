"""A live value, and the two rules for it: the newest wins, and it expires. Pure.

Ages are measured by the clock of the store, so that clocks of machines are never compared.
"""

from msgspec import Struct
from msgspec.structs import replace

MAX_NUMBER = 2**63 - 1


class LiveValue(Struct, frozen=True, gc=False):
    """The latest value of a key, as it is written and as it is read."""

    key: str
    value: bytes
    """A JSON document."""
    ttl_ms: int
    """It is not served once it is as old as this."""
    age_ms: int = 0
    """Its age when it is passed to the store, or when it was read."""
    line: str = ""
    """Which values ``number`` may be compared with: those of the same line. Letters only."""
    number: int = 0
    """Grows with every newer value of a line, such as an exchange's update id."""

    @property
    def expired(self) -> bool:
        return self.age_ms >= self.ttl_ms

    @property
    def order(self) -> "Order":
        """What decides which of two values is the newer, both read at the same moment."""
        return Order(self.line, self.number, -self.age_ms)

    def aged(self, more_ms: int) -> "LiveValue":
        """The same value, so much later."""
        return replace(self, age_ms=self.age_ms + more_ms)


class Order(Struct, frozen=True, gc=False):
    """The position of a value among those of its key."""

    line: str
    number: int
    at: int
    """A time; only compared with that of values that were timed by the same clock."""


def replaces(new: Order, old: Order) -> bool:
    """Whether a value takes the place of another.

    Within a line numbers decide, otherwise times. The later of two equal ones wins.
    """
    if new.line and new.line == old.line:
        return new.number >= old.number
    return new.at >= old.at


def checked(value: LiveValue) -> LiveValue:
    """Return a value that every store can hold.

    Raises:
        ValueError: it is none.
    """
    if not 0 <= value.number <= MAX_NUMBER:
        raise ValueError(f"{value.key}: {value.number} is no number of a live value")
    line = value.line
    if value.age_ms < 0 or (line and not (line.isascii() and line.isalpha())):
        raise ValueError(f"{value.key}: an age is not negative, and a line has letters only")
    return value
