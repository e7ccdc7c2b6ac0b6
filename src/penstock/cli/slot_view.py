"""The content of a slot of the log, for processes that write no status."""

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.fitting import Column, Row, Viewport, table
from penstock.cli.instants import instant
from penstock.storage.log import SlotStats, StreamStats
from penstock.storage.log.keys import key_text
from penstock.telemetry.printable import printable

_COLUMNS = (
    Column("market", 0, least=20, left=True),
    Column("data", 1, least=10, left=True),
    Column("records", 2, least=9),
    Column("last recorded", 3, least=23, left=True),
    Column("first", 4, left=True),
    Column("last", 5, left=True),
)


def draw_slot(slot: SlotStats, viewport: Viewport) -> RenderableType:
    """The number of records, by stream."""
    total = sum(each.records for each in slot.streams)
    title = Text.assemble(
        (printable(slot.slot), "bold"),
        f"  {total:,} records of {len(slot.streams):,} streams, {slot.size_bytes / 1e6:,.1f} MB",
    )
    height = None if viewport.height is None else viewport.height - 1
    rows = [Row(_cells(each)) for each in slot.streams]
    return Group(title, *table(_COLUMNS, rows, (), Viewport(viewport.width, height)))


def slot_facts(slot: SlotStats) -> dict[str, Any]:
    """The same for JSON output."""
    return {
        "slot": slot.slot,
        "size_bytes": slot.size_bytes,
        "streams": [
            {
                "stream": str(each.stream),
                "records": each.records,
                "last_number": each.last_number,
                "first": key_text(each.first_key),
                "last": key_text(each.last_key),
                "last_received_ns": each.last_received_ns,
            }
            for each in slot.streams
        ],
    }


def _cells(found: StreamStats) -> list[str]:
    stream = found.stream
    return [
        f"{stream.exchange} {stream.symbol}",
        stream.channel,
        f"{found.records:,}",
        instant(found.last_received_ns // 1_000_000),
        key_text(found.first_key),
        key_text(found.last_key),
    ]
