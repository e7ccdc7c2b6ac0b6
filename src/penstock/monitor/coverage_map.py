"""Which parts of which series are complete, as a map: one character per series and day or hour."""

from msgspec import Struct


class MapSeries(Struct, frozen=True, kw_only=True):
    """One row of the map."""

    exchange: str
    channel: str
    symbol: str
    share: float | None
    """The share of the expected time that is complete, from 0 to 1; 1 only if nothing is missing.
    Null if nothing is expected in these columns."""
    cells: str
    """One character per column: ``.`` nothing is expected, ``g`` an open gap, ``u`` a gap that
    cannot be filled, ``f`` complete, ``F`` complete after filling, else the share that is complete
    in tenths: what is missing was not reported as a gap yet."""


class CoverageMap(Struct, frozen=True, kw_only=True):
    """A page of the map."""

    from_ms: int
    """The beginning of the first column."""
    step_ms: int
    columns: int
    series: list[MapSeries]
    """By exchange, channel and symbol."""
    more: str | None
    """The ``after`` of the next page; null on the last."""
