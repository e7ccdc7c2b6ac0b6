"""``penstock tail``: prints records from the bus as they are written."""

import asyncio
import sys
from typing import Annotated

import msgspec
import typer

from penstock.app.bus import bus_endpoints, subscribe
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, SecondsOption
from penstock.cli.record_lines import record_line
from penstock.cli.typed import stream_name
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.errors import NotOurRecord, PenstockError
from penstock.market.codec import json_of
from penstock.publish.asking import ask_bus
from penstock.publish.frames import wanted_bytes
from penstock.publish.ordering import Start
from penstock.publish.registry import BusFacts
from penstock.publish.subscriber import Delivery, Missing, Subscriber
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.storage.log.spans import market_ns
from penstock.telemetry.printable import printable, printable_json

_BUS_START_S = 10.0
"""How long a bus that was started just before may take to answer, on a busy machine."""


def tail(
    context: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Argument(help="exchange.channel.symbol, or a prefix that ends with a dot."),
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after this many records.")] = None,
    start: Annotated[
        str, typer.Option(help="Where to begin: last (the last record), now, or a record number.")
    ] = "last",
    seconds: SecondsOption = None,
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print records as they are written, each once and in order; without a topic, all of them.

    Prints readable lines; --json prints the records themselves.

    Records that the bus drops are read from the log, in order; records that cannot be read are
    reported. Needs a running bus.

    Example: penstock tail binance.trades.btc_usdt --json --count 10
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    wanted = [stream_name(topic) for topic in topics or [""]]
    printing = _Printing(wanted, _start(start), count, as_json)
    asyncio.run(printing.run(settings, seconds))


class _Printing:
    def __init__(self, topics: list[str], start: Start, count: int | None, as_json: bool) -> None:
        self._topics, self._start = topics, start
        self._left, self._as_json = count, as_json

    async def run(self, settings: Settings, seconds: float | None) -> None:
        stop, clock = asyncio.Event(), SystemClock()
        stop_on_signals(stop)
        _note_unknown(self._topics, await ask_bus(bus_endpoints(settings), clock, _BUS_START_S))
        deadline = asyncio.create_task(stop_after(seconds, stop, clock))
        async with subscribe(self._topics, start=self._start, settings=settings) as found:
            printing = asyncio.create_task(self._print(found))
            printing.add_done_callback(lambda _: stop.set())
            await stop.wait()
            if printing.done():
                printing.result()
            printing.cancel()
        deadline.cancel()

    async def _print(self, found: Subscriber) -> None:
        async for each in found:
            typer.echo(_text(each, as_json=self._as_json))
            if self._left is not None:
                self._left -= 1
                if not self._left:
                    return


def _text(each: Delivery | Missing, *, as_json: bool) -> str:
    """The line for a delivery; an unreadable record is reported and raises no error."""
    try:
        return printable_json(_json(each)) if as_json else printable(_line(each))
    except (
        PenstockError,
        msgspec.MsgspecError,
        ValueError,
        ArithmeticError,
        RecursionError,
    ) as bad:
        return _unreadable(each, str(bad), as_json=as_json)


def _json(each: Delivery | Missing) -> str:
    if isinstance(each, Missing):
        return msgspec.json.encode({"missing": each}).decode()
    head = _head(each)
    record = json_of(each.record)
    if msgspec.json.decode(record, type=dict[str, msgspec.Raw]).keys() & head.keys():
        raise NotOurRecord(f"the record has a field named {' or '.join(head)}")
    # The record's own JSON on one line, preceded by its topic, slot and number.
    body = msgspec.json.format(record, indent=-1)[1:].decode()
    return msgspec.json.encode(head).decode()[:-1] + ("" if body == "}" else ",") + body


def _head(each: Delivery) -> dict[str, object]:
    return {"topic": each.topic, "slot": each.slot, "number": each.number, "filled": each.filled}


def _line(each: Delivery | Missing) -> str:
    if isinstance(each, Missing):
        numbers = f"numbers {each.first}–{each.last} of slot {each.slot}"
        return f"{each.topic}: {numbers} are missing: neither the bus nor the log has them"
    return record_line(each.event, market_ns(each.record))


def _unreadable(each: Delivery | Missing, why: str, *, as_json: bool) -> str:
    if isinstance(each, Missing):
        return printable(f"{each!r}: {why}")
    if as_json:
        return printable_json(msgspec.json.encode({**_head(each), "unreadable": why}).decode())
    return printable(
        f"{each.topic}: number {each.number} of slot {each.slot} cannot be read: {why}"
    )


def _note_unknown(topics: list[str], facts: BusFacts) -> None:
    known = [f"{topic}\0".encode() for slot in facts.slots for topic in slot.numbers]
    for wanted in topics:
        if not any(each.startswith(wanted_bytes(wanted)) for each in known):
            name = printable(wanted) or "any stream"
            sys.stderr.write(f"waiting for {name}: not published yet. See: penstock bus streams\n")


def _start(text: str) -> Start:
    if text == "last":
        return "last"
    if text == "now":
        return "now"
    if text.isdecimal():
        return int(text)
    raise typer.BadParameter(
        f"{text!r} is neither last, nor now, nor a number", param_hint="--start"
    )
