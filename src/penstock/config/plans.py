"""The sections of settings that ``penstock apply`` reads: what to set up for each exchange."""

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct

Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*$")]


class LimitPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit in addition to, or below, the exchange's own."""

    amount: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    """Amount allowed per period."""
    period_ms: Annotated[int, Meta(ge=1, le=31 * 86_400_000)]
    """Length of the period in milliseconds."""
    unit: Literal["weight", "request"] = "weight"
    """Whether a request counts as its weight, or as one."""
    category: Text = ""
    """Category of requests that it applies to; empty: all."""
    kind: Literal["aligned", "paced"] = "aligned"
    """``aligned`` counts in windows of the exchange's clock; ``paced`` spaces requests evenly."""
    burst: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """For ``paced``: the amount allowed at once."""


class ConnectorPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``penstock apply`` sets up for one exchange; NAME is the exchange's name."""

    symbols: tuple[str, ...] = ()
    """Markets whose candles are fetched, in any spelling."""
    timeframes: tuple[str, ...] = ()
    """Candle lengths to fetch for each market: 1m, 1h, 1d."""
    interval: Annotated[float, Meta(ge=1)] | None = None
    """Seconds between fetches of new candles; default: the length of a candle."""
    backfill: bool | date = False
    """Whether to fetch history too: all of it (``true``), or from a day on (``2024-01-01``)."""
    markets_refresh: Annotated[float, Meta(ge=1)] = 43200.0
    """Seconds between fetches of the exchange's market listing."""
    limits: tuple[LimitPlan, ...] = ()
    """Limits in addition to, or below, the exchange's own: tables of ``amount``, ``period_ms``,
    ``unit``, ``category``, ``kind`` and ``burst``."""
    notes: Text = ""
    """Free text for operators."""
