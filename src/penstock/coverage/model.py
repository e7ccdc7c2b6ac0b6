"""What is complete and what is missing of a series, as it is stored in the state store.

A series is one channel of one market. Its records have positions that rise: their ids where the
exchange's ids are consecutive, the open time of candles in milliseconds, the receive time in
nanoseconds for all else. Ranges of positions include both ends; a candle has all milliseconds up
to the next one.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from penstock.storage.log.keys import Stream

By = Literal["id", "open_ms", "received_ns"]
"""What positions are."""
GapState = Literal["open", "filled", "unfillable"]
Origin = Literal["ours", "exchange", "unknown"]
"""Who is responsible for a gap."""
LOST = "lost"
"""The cause of a gap without a disconnect: the connection was open."""
MISSING = "missing"
"""The cause of a gap of candles that a scan found."""
DAMAGED = "damaged"
"""The cause of a gap of records that were lost after they were recorded."""

MOST_POSITION = (1 << 63) - 1
"""The greatest position that all databases can store."""


class Run(NamedTuple):
    """A range that is complete, and the times of its first and last record."""

    first: int
    last: int
    since_ms: int
    until_ms: int


class SlotCoverage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one slot of one log holds of a series. Only the owner of the slot writes it."""

    exchange: str
    channel: str
    symbol: str
    log_id: int
    slot: str
    number: int
    """All records up to this broadcast number are in it. It may lag behind the log, never lead."""
    by: By
    runs: tuple[Run, ...]
    above: int = 0
    """A number that the slot had assigned before it was replaced by an older copy, if it was."""

    @property
    def stream(self) -> Stream:
        return Stream(self.exchange, self.channel, self.symbol)

    @property
    def id(self) -> str:
        return f"{self.stream}/{self.log_id:x}/{self.slot}"


class GapRow(Struct, frozen=True, kw_only=True):
    """A range of a series that must exist and was not received."""

    exchange: str
    channel: str
    symbol: str
    by: By
    first: int
    last: int
    since_ms: int | None = None
    """The market time of the record before it; None if there is none."""
    until_ms: int | None = None
    """The market time of the record after it; None if there is none."""
    state: GapState = "open"
    cause: str
    """That of a disconnect (``events.Cause``), or one of the above."""
    origin: Origin = "unknown"
    reason: str = ""
    """The words of the disconnect; for an unfillable gap, those of the exchange."""
    source: str = ""
    """What filled it."""
    slot: str = ""
    """The slot that reported it, and its log."""
    log_id: int = 0
    opened_ms: int = 0
    closed_ms: int | None = None
    job_id: str = ""
    """The job that fills it; empty if none does."""
    filled_rows: int = 0

    @property
    def stream(self) -> Stream:
        return Stream(self.exchange, self.channel, self.symbol)

    @property
    def id(self) -> str:
        return f"{self.stream}/{self.by}/{self.first}"

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def as_document(row: GapRow | SlotCoverage) -> dict[str, Any]:
    """The document that is stored."""
    return {**msgspec.to_builtins(row), "id": row.id}


def as_gap(document: Mapping[str, Any]) -> GapRow:
    """The gap of a document.

    Raises:
        ValidationError: a newer version wrote it.
    """
    return msgspec.convert(document, GapRow)


def as_coverage(document: Mapping[str, Any]) -> SlotCoverage:
    """The coverage of a document.

    Raises:
        ValidationError: a newer version wrote it.
    """
    return msgspec.convert(document, SlotCoverage)
