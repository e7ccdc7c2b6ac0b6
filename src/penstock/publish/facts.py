"""Facts about messages and subscribers that a bus lost."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class MessagesDropped(Fact, frozen=True, kw_only=True):
    """The bus dropped ``count`` messages since this was last logged; the log has them."""

    level: ClassVar[Level] = "warning"

    slot: str
    count: int


class BusFell(Fact, frozen=True, kw_only=True):
    """Subscribers did not keep up since this was last logged; the log has what they missed."""

    level: ClassVar[Level] = "warning"

    overflows: int
    """How often one's queue was found full."""
    missed: int
    """Messages that they say they missed."""


class BusRefused(Fact, frozen=True, kw_only=True):
    """The broker refused or closed connections since this was last logged."""

    level: ClassVar[Level] = "warning"

    count: int
    why: str
    """For the last one of them."""
