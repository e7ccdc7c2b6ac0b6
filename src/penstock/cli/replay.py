"""``penstock replay``: replays recorded data."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Annotated

import msgspec
import typer

from penstock.app.replay import replay as build_replay
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, SecondsOption, note, say
from penstock.cli.record_lines import record_line
from penstock.cli.typed import instant_ns
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.market.codec import json_of
from penstock.playback.player import Batch, Replay
from penstock.playback.publishing import ReplayPublisher
from penstock.publish.by_url import prepare_publishers
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.storage.log import Received
from penstock.telemetry.printable import printable, printable_json

Sink = Callable[[Batch], Awaitable[None]]

_FASTEST = "max"
_ADDRESSES = ("tcp://", "ipc://")


def replay(
    context: typer.Context,
    streams: Annotated[
        list[str] | None,
        typer.Argument(
            help="exchange.channel.symbol, with * for any text, or a prefix that ends with a dot."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Received at or after this time.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Received before this time.")] = None,
    speed: Annotated[
        str | None,
        typer.Option(
            help="1 for the speed of the recording, 10 for ten times that, or max.",
            show_default="1 with --to-url, otherwise max",
        ),
    ] = None,
    to_url: Annotated[
        str | None,
        typer.Option(
            help="Publish to the bus, under the same topics: zeromq: for the bus of the settings,"
            " zeromq:tcp://HOST:PORT for another, or the URL of any publisher.",
        ),
    ] = None,
    digest: Annotated[
        bool, typer.Option("--digest", help="Print only the SHA-256 of what was replayed.")
    ] = False,
    seconds: SecondsOption = None,
    data_dir: DataOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print records as JSON lines.")] = False,
) -> None:
    """Replay recorded streams in the order in which they were received.

    Prints readable lines; --json prints the records themselves. Every replay of the same records
    has the same order and the same SHA-256, at any speed. Times are ISO 8601, in UTC unless they
    have an offset. Ctrl-C stops it.

    Example: penstock replay 'binance.trades.*' --from 2026-11-01 --to 2026-11-02 --speed 10
    """
    options = {"collect.data_dir": data_dir, "publish.urls": _urls(to_url)}
    settings = read_settings(context, options).settings
    since_ns, until_ns = instant_ns(since, "--from"), instant_ns(until, "--to")
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        problem = f"{since} is not before --to {until}: the range is empty"
        raise typer.BadParameter(problem, param_hint="--from")
    playing = build_replay(
        streams or (),
        since=since_ns,
        until=until_ns,
        speed=_speed(speed, 1.0 if to_url else None),
        settings=settings,
    )
    publishes = to_url is not None
    printing = None if digest or (publishes and not as_json) else _printing(as_json=as_json)
    asyncio.run(_run(playing, settings, seconds, printing, publishes=publishes))
    if digest:
        facts = {"records": playing.emitted, "sha256": playing.digest}
        say(facts) if as_json else typer.echo(playing.digest)
        return
    note(f"replayed {playing.emitted:,} records, SHA-256 {playing.digest}")


async def _run(
    playing: Replay,
    settings: Settings,
    seconds: float | None,
    printing: Callable[[Received], str] | None,
    *,
    publishes: bool,
) -> None:
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    task = asyncio.create_task(_play(playing, settings, clock, printing, publishes=publishes))
    task.add_done_callback(lambda _: stop.set())
    await stop.wait()
    deadline.cancel()
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return
    task.result()


async def _play(
    playing: Replay,
    settings: Settings,
    clock: Clock,
    printing: Callable[[Received], str] | None,
    *,
    publishes: bool,
) -> None:
    prepared = prepare_publishers(settings) if publishes else []
    with closing(ReplayPublisher(prepared, clock)) as publisher:
        async for batch in playing.abatches():
            if printing is not None:
                sys.stdout.write("".join(map(printing, batch)))
                sys.stdout.flush()
            if publishes:
                await publisher.publish(batch)


def _printing(*, as_json: bool) -> Callable[[Received], str]:
    return _json_line if as_json else _line


def _json_line(each: Received) -> str:
    # The record's own JSON, preceded by its topic, slot and number.
    head = msgspec.json.encode({"topic": each.topic, "slot": each.slot, "number": each.number})
    return printable_json(f"{head[:-1].decode()},{json_of(each.record)[1:].decode()}") + "\n"


def _line(each: Received) -> str:
    return printable(record_line(each.event, each.received_at_ns)) + "\n"


def _speed(text: str | None, default: float | None) -> float | None:
    if text is None:
        return default
    if text == _FASTEST:
        return None
    try:
        return float(text)
    except ValueError:
        problem = f"{text!r} is neither a number, such as 1 or 10, nor {_FASTEST}"
        raise typer.BadParameter(problem, param_hint="--speed") from None


def _urls(url: str | None) -> list[str] | None:
    if url is None:
        return None
    return [f"zeromq:{url}" if url.startswith(_ADDRESSES) else url]
