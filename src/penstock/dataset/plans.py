"""How the rows of each kind of query are read and shown."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from penstock.dataset.books import BookReader
from penstock.dataset.candles import CandleBuilder, Empty, as_candles, candle_rows
from penstock.dataset.gaps import Coverage, OnGap
from penstock.dataset.listing import Listing
from penstock.dataset.merging import TIME
from penstock.dataset.pushdown import Narrowing
from penstock.dataset.query import Plan
from penstock.dataset.reading import Part, read, read_together
from penstock.dataset.source import Source
from penstock.dataset.times import Range, Time
from penstock.dataset.view import Names, Numbers, View, levels_as_rows
from penstock.errors import BadQuery
from penstock.market.channels import (
    BOOK_DELTAS,
    BOOK_SNAPSHOTS,
    BY_EVENT,
    CANDLES,
    DISCONNECTS,
    TRADES,
    Channel,
    find,
)
from penstock.market.codec import decode
from penstock.market.events import BookSnapshot, Event
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.storage.lake.columns import records_of, schema_of
from penstock.storage.log.keys import Stream

if TYPE_CHECKING:
    from penstock.dataset.sql import SqlTable


class Choices(NamedTuple):
    """A caller's choices, which every kind of query has."""

    times: Range
    on_gap: OnGap
    numbers: Numbers
    columns: Names


def channel_plan(
    source: Source, row: Channel, streams: Sequence[Stream], choices: Choices
) -> Plan[Any]:
    """The rows of some streams of one channel."""
    view = View(row, choices.numbers, choices.columns)

    def frames(narrowing: Narrowing) -> Iterator[pl.DataFrame]:
        only = _in_order(view.schema, narrowing.columns)
        part = Part(row, _narrowed(streams, narrowing), view.stored_for(only))
        for frame in read(source.places, part, narrowing.within(choices.times)):
            yield view.show(frame, only)

    def events() -> Iterator[Event]:
        for frame in read(source.places, Part(row, streams), choices.times):
            yield from events_of(row, frame)

    return Plan(
        view.schema,
        frames,
        events,
        lambda: source.missing(streams, choices.times),
        choices.on_gap,
    )


def books_plan(source: Source, streams: Sequence[Stream], choices: Choices) -> Plan[Any]:
    """Deltas and snapshots of order books, in one frame."""
    rows = [
        row
        for row in (BOOK_SNAPSHOTS, BOOK_DELTAS)
        if any(each.channel == row.name for each in streams)
    ] or [BOOK_DELTAS]
    tardis = choices.columns == "tardis"
    names: Names = "penstock" if tardis else choices.columns
    views = [View(row, choices.numbers, names, books=True) for row in rows]

    def parts(narrowing: Narrowing) -> list[Part]:
        wanted = _narrowed(streams, narrowing)
        return [Part(row, [s for s in wanted if s.channel == row.name]) for row in rows]

    def frames(narrowing: Narrowing) -> Iterator[pl.DataFrame]:
        # All columns are shown: the few bytes of the others do not matter beside the levels.
        shown_parts = [
            replace(part, columns=view.stored_for(None))
            for part, view in zip(parts(narrowing), views, strict=True)
        ]
        times = narrowing.within(choices.times)
        for found in read_together(source.places, shown_parts, times):
            shown = [view.show(frame) for view, frame in zip(views, found, strict=True)]
            both = pl.concat(shown).sort(TIME, "received_ns", maintain_order=True)
            yield levels_as_rows(both) if tardis else both

    def events() -> Iterator[Event]:
        yield from together(source, parts(Narrowing()), choices.times)

    schema = views[0].schema
    if tardis:
        schema = levels_as_rows(pl.DataFrame(schema=schema)).schema
    # Snapshots are taken now and then: only changes can be missing, where there are any.
    checked = [each for each in streams if each.channel == rows[-1].name]
    return Plan(
        schema, frames, events, lambda: source.missing(checked, choices.times), choices.on_gap
    )


@dataclass(frozen=True)
class Computed:
    """Candles that are computed from trades."""

    interval: Interval
    empty: Empty


def computed_plan(
    source: Source, computed: Computed, streams: Sequence[Stream], choices: Choices
) -> Plan[Any]:
    """Candles of any interval, from the trades of some streams."""
    view = View(CANDLES, choices.numbers, choices.columns)
    interval = computed.interval

    def candles(narrowing: Narrowing) -> pl.DataFrame:
        since_ns, until_ns = narrowing.within(choices.times)
        now_ms = source.clock.now_ms()
        times = _whole_candles(interval, Range(since_ns, until_ns))
        builder = CandleBuilder(interval)
        columns = ("exchange", "symbol", "id", "price", "quantity", "taker")
        part = Part(TRADES, _narrowed(streams, narrowing), columns)
        for frame in read(source.places, part, times):
            builder.add(frame)
        return candle_rows(builder.candles(now_ms, computed.empty), interval)

    def frames(narrowing: Narrowing) -> Iterator[pl.DataFrame]:
        yield view.show(candles(narrowing))

    def events() -> Iterator[Event]:
        yield from as_candles(candles(Narrowing()))

    return Plan(
        view.schema,
        frames,
        events,
        lambda: source.missing(streams, _whole_candles(interval, choices.times)),
        choices.on_gap,
    )


def book_reader(
    source: Source,
    symbol: str | Symbol,
    exchange: str | None,
    instant: Callable[[Time], int],
) -> BookReader:
    """The book of one market.

    Raises:
        NotCollected: the market or the exchange was never collected.
        BadQuery: it has no books, or several exchanges have it.
    """
    rows = (BOOK_DELTAS, BOOK_SNAPSHOTS, DISCONNECTS)
    streams = source.find([row.name for row in rows], symbol, exchange)
    found = sorted({each.exchange for each in streams})
    if len(found) != 1:
        problem = "has no order books here" if not found else f"is on {', '.join(found)}"
        remedy = "" if not found else " Name one: exchange=…"
        raise BadQuery(f"{symbol} {problem}.{remedy}")
    parts = [Part(row, [s for s in streams if s.channel == row.name]) for row in rows]

    def snapshots(times: Range) -> Iterator[BookSnapshot]:
        for frame in read(source.places, parts[1], times):
            for event in events_of(BOOK_SNAPSHOTS, frame):
                assert isinstance(event, BookSnapshot)
                yield event

    name = Symbol.parse(streams[0].symbol).unified
    return BookReader(found[0], name, partial(together, source, parts), snapshots, instant)


def events_of(row: Channel, frame: pl.DataFrame) -> Iterator[Event]:
    """The events of a frame of stored columns."""
    table = frame.drop(TIME).to_arrow().cast(schema_of(row))
    return map(decode, records_of(row, table))


def together(source: Source, parts: Sequence[Part], times: Range) -> Iterator[Event]:
    """The events of several channels in the order in which they were received, window by window."""
    for frames in read_together(source.places, parts, times):
        found = [
            event
            for part, frame in zip(parts, frames, strict=True)
            for event in events_of(part.row, frame)
        ]
        yield from sorted(found, key=lambda event: event.received_at_ns)


def _in_order(schema: pl.Schema, columns: Collection[str] | None) -> list[str] | None:
    return None if columns is None else [name for name in schema if name in columns]


def _narrowed(streams: Sequence[Stream], narrowing: Narrowing) -> list[Stream]:
    return [
        each
        for each in streams
        if narrowing.exchange in (None, each.exchange)
        and (narrowing.symbol is None or Symbol.parse(each.symbol).unified == narrowing.symbol)
    ]


def _whole_candles(interval: Interval, times: Range) -> Range:
    """The times of all trades of the candles that open in a range."""
    since_ns, until_ns = times
    if since_ns is not None:
        since_ms = -(-since_ns // 1_000_000)
        open_ms = interval.open_of(since_ms)
        since_ns = (open_ms if open_ms == since_ms else interval.next_open(open_ms)) * 1_000_000
    if until_ns is not None:
        until_ns = interval.next_open(interval.open_of((until_ns - 1) // 1_000_000)) * 1_000_000
    return Range(since_ns, until_ns)


@dataclass(frozen=True)
class FrameTable:
    """A frame as a table of a query."""

    frame: pl.DataFrame

    @property
    def schema(self) -> pl.Schema:
        return self.frame.schema

    def frames(self, _: Narrowing) -> Iterator[pl.DataFrame]:
        """The frame itself."""
        yield self.frame


def sql_tables(source: Source, choices: Choices) -> dict[str, "SqlTable"]:
    """A table for each channel that can be queried, by name, and the ledger of coverage."""
    streams = source.streams()
    names = {each.channel for each in streams} | {
        row.name for row in BY_EVENT.values() if row.suffix_of is None
    }
    tables: dict[str, SqlTable] = {}
    for name in sorted(names - {BOOK_DELTAS.name, BOOK_SNAPSHOTS.name}):
        row = find(name)
        assert row is not None
        mine = sorted(s for s in streams if s.channel == name)
        tables[name] = channel_plan(source, row, mine, choices)
    books = [s for s in streams if s.channel in (BOOK_DELTAS.name, BOOK_SNAPSHOTS.name)]
    tables["books"] = books_plan(source, sorted(books), choices)
    tables["coverage"] = FrameTable(Listing(Coverage, source.coverage()).polars())
    return tables
