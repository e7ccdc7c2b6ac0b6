"""``penstock log``: reads the log."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.context import read_settings
from penstock.cli.instants import day_and_time
from penstock.cli.log_repair import repair
from penstock.cli.options import DataOption, JsonOption, SecondsOption, note, say
from penstock.cli.typed import instant_ns, stream_name
from penstock.clock import SystemClock
from penstock.errors import MissingExtra, UnknownExchange, UnknownStream
from penstock.exchanges import registry
from penstock.market.codec import json_of
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.runtime.stores import configured_log
from penstock.storage.log import LogReader, SlotStats, Span, Stored
from penstock.storage.log.keys import Stream, key_of_id, key_text
from penstock.telemetry.printable import printable

log = typer.Typer(help="Read and repair the log of records.", no_args_is_help=True)
log.command()(repair)

StreamArgument = Annotated[
    str, typer.Argument(help="exchange.channel.symbol; penstock log stats lists them.")
]
_Range = tuple[int | None, int | None]
_LOOK_S = 0.5
_WIDE = 130
"""Minimum terminal width at which a table shows keys."""


@log.command()
def stats(context: typer.Context, data_dir: DataOption = None, as_json: JsonOption = False) -> None:
    """Show every stream of the log: number of records, first and last record, size on disk.

    Example: penstock log stats --data-dir ~/market-data
    """
    with closing(_open(context, data_dir)) as reader:
        slots = reader.stats()
    if not as_json:
        _draw(slots)
        return
    for slot in slots:
        for each in slot.streams:
            say(
                {
                    "slot": slot.slot,
                    "slot_bytes": slot.size_bytes,
                    "stream": str(each.stream),
                    "records": each.records,
                    "last_number": each.last_number,
                    "first": key_text(each.first_key),
                    "last": key_text(each.last_key),
                    "first_received_ns": each.first_received_ns,
                    "last_received_ns": each.last_received_ns,
                }
            )


@log.command()
def scan(
    context: typer.Context,
    stream: StreamArgument,
    since: Annotated[str | None, typer.Option(help="Market time at or after this.")] = None,
    until: Annotated[str | None, typer.Option(help="Market time before this.")] = None,
    received_since: Annotated[
        str | None, typer.Option(help="Received at or after this time.")
    ] = None,
    received_until: Annotated[str | None, typer.Option(help="Received before this time.")] = None,
    first: Annotated[int | None, typer.Option(min=0, help="From this id on.")] = None,
    last: Annotated[int | None, typer.Option(min=0, help="Up to this id.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum number of records. Default: all.", show_default=False),
    ] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Newest first.")] = False,
    data_dir: DataOption = None,
) -> None:
    """Print records of one stream as JSON lines, oldest first.

    Times are ISO 8601, in UTC unless they have an offset. --since and --until are market time: the
    exchange's timestamp, or the open time of a candle; the time of receipt where the exchange gives
    no timestamp.

    Example: penstock log scan binance.trades.btc_usdt --since 2026-11-01T12:00 --limit 10
    """
    market = _range(since, until, ("--since", "--until"))
    received = _range(received_since, received_until, ("--received-since", "--received-until"))
    if first is not None and last is not None and first > last:
        raise typer.BadParameter(f"{first} is above --last {last}", param_hint="--first")
    with closing(_open(context, data_dir)) as reader:
        found = _find(reader, stream)
        span = Span(
            None if first is None else key_of_id(first),
            None if last is None else key_of_id(last + 1),
            *received,
            *market,
            rising=_ids_rise(found),
        )
        # One more than is shown, to detect whether there are more.
        most = None if limit is None else limit + 1
        for count, stored in enumerate(reader.scan(found, span, reverse=reverse, limit=most)):
            if count == limit:
                note(f"penstock: there are more records; --limit {limit} was reached.")
                break
            _print(stored)
    sys.stdout.flush()


@log.command()
def tail(
    context: typer.Context,
    stream: StreamArgument,
    lines: Annotated[int, typer.Option("-n", min=0, help="Number of records to begin with.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new ones too.")] = False,
    seconds: SecondsOption = None,
    data_dir: DataOption = None,
) -> None:
    """Print the newest records of one stream as JSON lines; --follow prints new ones too.

    Example: penstock log tail binance.trades.btc_usdt -n 5 --follow
    """
    with closing(_open(context, data_dir)) as reader:
        found = _find(reader, stream)
        # A slot without any of the newest records is also followed from its end.
        numbers = _last_numbers(reader, found)
        newest = list(reader.scan(found, reverse=True, limit=max(1, lines)))[::-1]
        for stored in newest[len(newest) - lines :] if lines else []:
            _print(stored)
        if follow:
            for stored in newest:
                numbers[stored.slot] = max(numbers.get(stored.slot, 0), stored.number)
            sys.stdout.flush()
            asyncio.run(_follow(reader, found, numbers, seconds))


async def _follow(
    reader: LogReader, stream: Stream, numbers: dict[str, int], seconds: float | None
) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    while not stop.is_set():
        print_new(reader, stream, numbers)
        sys.stdout.flush()
        await clock.sleep(_LOOK_S)
    deadline.cancel()


def print_new(reader: LogReader, stream: Stream, numbers: dict[str, int]) -> None:
    """Print records after ``numbers``, the last number of each slot, and update ``numbers``."""
    for slot in reader.slots():
        fresh = list(reader.numbers(stream, slot, numbers.get(slot, 0) + 1))
        for stored, shown in zip(fresh, reader.shown(fresh), strict=True):
            numbers[slot] = stored.number
            # Skipped if another slot has the same candle, or has corrected it.
            if (shown.slot, shown.number) == (stored.slot, stored.number):
                _print(stored)


def _open(context: typer.Context, data_dir: str | None) -> LogReader:
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    return configured_log(settings).reader()


def _find(reader: LogReader, name: str) -> Stream:
    streams = {str(stream): stream for stream in reader.streams()}
    found = streams.get(stream_name(name))
    if found is None:
        raise UnknownStream(name, streams)
    return found


def _last_numbers(reader: LogReader, stream: Stream) -> dict[str, int]:
    """Return the last number of a stream, by slot."""
    return {
        slot.slot: each.last_number
        for slot in reader.stats()
        for each in slot.streams
        if each.stream == stream
    }


def _draw(slots: Sequence[SlotStats]) -> None:
    """Print a table for each slot; columns that do not fit a narrow terminal are only in --json."""
    console = Console()
    if not slots:
        console.print("The log is empty. Begin with: penstock collect")
    for slot in slots:
        table = Table(box=None, header_style="dim", title_justify="left")
        table.title = f"[bold]{slot.slot}[/]  {slot.size_bytes:,} bytes on disk"
        table.add_column("stream", no_wrap=True)
        table.add_column("records", justify="right", no_wrap=True)
        table.add_column("last received, UTC", no_wrap=True)
        wide = console.width >= _WIDE
        for name in ("first", "last") if wide else ():
            table.add_column(name, no_wrap=True)
        for each in slot.streams:
            keys = (key_text(each.first_key), key_text(each.last_key))
            table.add_row(
                Text(printable(str(each.stream))),
                f"{each.records:,}",
                _when(each.last_received_ns),
                *(keys if wide else ()),
            )
        console.print(table)


def _print(stored: Stored) -> None:
    # The record's own JSON, preceded by its slot and number.
    head = msgspec.json.encode({"slot": stored.slot, "number": stored.number}).decode()
    sys.stdout.write(f"{head[:-1]},{json_of(stored.record)[1:].decode()}\n")


def _range(since: str | None, until: str | None, names: tuple[str, str]) -> _Range:
    since_ns, until_ns = instant_ns(since, names[0]), instant_ns(until, names[1])
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        problem = f"{since} is not before {names[1]} {until}: the range is empty"
        raise typer.BadParameter(problem, param_hint=names[0])
    return since_ns, until_ns


def _ids_rise(stream: Stream) -> bool:
    """Whether the exchange numbers the events of this channel consecutively."""
    try:
        return stream.channel in registry.load(stream.exchange).consecutive
    except (UnknownExchange, MissingExtra):
        return False


def _when(at_ns: int) -> str:
    return day_and_time(at_ns / 1e9)
