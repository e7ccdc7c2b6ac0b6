"""The gaps of all series, and why each can be filled or not."""

from msgspec import Struct

from penstock.coverage.model import By, GapState, Origin


class GapView(Struct, frozen=True, kw_only=True):
    """A gap. Positions are those of ``by``, both ends included."""

    id: str
    exchange: str
    channel: str
    symbol: str
    by: By
    first: int
    last: int
    size: int
    since_ms: int | None
    """The market time of the record before it."""
    until_ms: int | None
    """The market time of the record after it."""
    state: GapState
    cause: str
    origin: Origin
    reason: str
    source: str
    """What filled it."""
    opened_ms: int
    closed_ms: int | None
    job_id: str | None
    """The job that fills it."""
    fillable: bool
    """Whether a job can be made for it."""
    why_not: str
    """Why not; empty if it can be filled."""


class Gaps(Struct, frozen=True, kw_only=True):
    """A page of gaps, by series and position."""

    items: list[GapView]
    more: str | None
    """The ``after`` of the next page; null on the last."""


class GapCounts(Struct, frozen=True, kw_only=True):
    """The number of gaps, by state."""

    changed_ms: int
    """When one of the numbers was last seen to change."""
    gaps_open: int
    gaps_filled: int
    gaps_unfillable: int
