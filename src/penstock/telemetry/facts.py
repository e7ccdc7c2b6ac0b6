"""What a fact is. Each part of penstock has its own, in ``facts`` beside it."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct

Level = Literal["debug", "info", "warning", "error"]
"""How a fact is logged.

``debug``: there may be thousands, and they are counted elsewhere. ``warning``: something is wrong
and is being handled, or data is missing. ``error``: it persists until an operator acts.
"""


class Fact(Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """Something that happened. Subclasses say what."""

    level: ClassVar[Level] = "info"
    logger: ClassVar[str] = "penstock"
    """The name of its logger: ``penstock``, or one below it."""

    def logged_at(self) -> Level:
        """The level of this one, which may depend on its fields."""
        return self.level


class CountedFact(Fact, frozen=True, kw_only=True):
    """A fact about an exchange that is counted for all processes together."""

    exchange: str

    def counts(self) -> Mapping[str, int]:
        """What to add to their counters."""
        raise NotImplementedError
