"""``penstock replay``: replays recorded data."""

import asyncio
import sys
from collections.abc import Coroutine, Iterable
from contextlib import closing, suppress
from typing import Annotated, Any

import msgspec
import typer

from penstock.app.replay import replay as build_replay
from penstock.app.replay_server import ReplayServer, build_replay_server
from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, HostOption, PortOption, SecondsOption, note, say
from penstock.cli.record_lines import record_line, record_time
from penstock.cli.typed import instant_ns
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.market.codec import json_of
from penstock.playback.books import BookFeed, RebuiltBook
from penstock.playback.player import Batch, Replay
from penstock.playback.publishing import ReplayPublisher
from penstock.publish.by_url import prepare_publishers
from penstock.runtime.stopping import stop_after, stop_on_signals
from penstock.storage.log import Received
from penstock.telemetry.printable import printable, printable_json

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
            show_default="1 with --to-url or --serve, otherwise max",
        ),
    ] = None,
    to_url: Annotated[
        str | None,
        typer.Option(
            help="Publish to the bus, under the same topics: zeromq: for the bus of the settings,"
            " zeromq:tcp://HOST:PORT for another, or the URL of any publisher.",
        ),
    ] = None,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the records as the exchange itself, on one port."),
    ] = False,
    host: HostOption = None,
    port: PortOption = None,
    books: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="Print whole books instead of records: at this interval in seconds, or 0 for"
            " after each change.",
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
    have an offset. What was moved from the log to the lake is replayed too; --data-dir may also be
    a lake itself, a folder or a URL. Ctrl-C stops it.

    With --serve, a bot connects to this port as to the exchange. The replay begins when it has
    subscribed.

    Example: penstock replay 'binance.trades.*' --from 2026-11-01 --to 2026-11-02 --speed 10
    """
    options = {
        "collect.data_dir": data_dir,
        "publish.urls": _urls(to_url),
        "simulator.host": host,
        "simulator.port": port,
    }
    settings = read_settings(context, options).settings
    since_ns, until_ns = instant_ns(since, "--from"), instant_ns(until, "--to")
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        problem = f"{since} is not before --to {until}: the range is empty"
        raise typer.BadParameter(problem, param_hint="--from")
    if serve and to_url is not None:
        raise typer.BadParameter("cannot be combined with --to-url", param_hint="--serve")
    playing = build_replay(
        streams or (),
        since=since_ns,
        until=until_ns,
        speed=_speed(speed, 1.0 if to_url or serve else None),
        settings=settings,
    )
    silent = digest or ((serve or to_url is not None) and not as_json and books is None)
    printing = None if silent else _Printing(as_json=as_json, books=books)
    if serve:
        served = build_replay_server(settings, streams or (), SystemClock(), since_ns, until_ns)
        asyncio.run(_serve(served, playing, seconds, as_json=as_json))
    else:
        publishes = to_url is not None
        main = _play(playing, settings, printing, publishes=publishes)
        asyncio.run(_until_stopped(main, seconds))
    if digest:
        facts = {"records": playing.emitted, "sha256": playing.digest}
        say(facts) if as_json else typer.echo(playing.digest)
        return
    note(f"replayed {playing.emitted:,} records, SHA-256 {playing.digest}")


async def _until_stopped(main: Coroutine[Any, Any, None], seconds: float | None) -> None:
    """Run to the end, until a signal, or for some seconds."""
    stop, clock = asyncio.Event(), SystemClock()
    stop_on_signals(stop)
    deadline = asyncio.create_task(stop_after(seconds, stop, clock))
    task = asyncio.create_task(main)
    task.add_done_callback(lambda _: stop.set())
    await stop.wait()
    deadline.cancel()
    if task.done():
        task.result()
        return
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _play(
    playing: Replay, settings: Settings, printing: "_Printing | None", *, publishes: bool
) -> None:
    prepared = prepare_publishers(settings) if publishes else []
    with closing(ReplayPublisher(prepared, SystemClock())) as publisher:
        async for batch in playing.abatches():
            if printing is not None:
                sys.stdout.write(printing.text(batch))
                sys.stdout.flush()
            if publishes:
                await publisher.publish(batch)
    if printing is not None:
        sys.stdout.write(printing.rest())


async def _serve(
    served: ReplayServer, playing: Replay, seconds: float | None, *, as_json: bool
) -> None:
    async def main() -> None:
        await served.server.start()
        try:
            address = f"http://{served.server.address}"
            if as_json:
                say({"listening": address, "exchange": served.exchange})
            else:
                typer.echo(f"{served.exchange} is at {address}; Ctrl-C stops")
            sys.stdout.flush()
            await served.play(playing)
            note("everything was sent; connections stay open until this is stopped")
            await asyncio.Event().wait()
        finally:
            await served.server.stop()

    await _until_stopped(main(), seconds)


class _Printing:
    """Records, or the books that they make, as lines."""

    def __init__(self, *, as_json: bool, books: float | None) -> None:
        self._as_json = as_json
        self._books = None if books is None else BookFeed(books)

    def text(self, batch: Batch) -> str:
        """The lines for some records."""
        if self._books is None:
            return "".join(map(_json_line if self._as_json else _line, batch))
        return self._lines(self._books.add(batch))

    def rest(self) -> str:
        """The last lines."""
        return "" if self._books is None else self._lines(self._books.rest())

    def _lines(self, books: Iterable[RebuiltBook]) -> str:
        return "".join(map(_book_json if self._as_json else _book_line, books))


def _book_json(book: RebuiltBook) -> str:
    return printable_json(_encode_book(book).decode()) + "\n"


def _book_line(book: RebuiltBook) -> str:
    when = record_time(book.received_at_ns)
    best = ", ".join(
        f"{name} {side[0][1]} at {side[0][0]}"
        for name, side in (("bid", book.bids), ("ask", book.asks))
        if side
    )
    state = book.state if book.state == "synced" else f"{book.state} ({book.reason})"
    size = f"{len(book.bids)} bids and {len(book.asks)} asks"
    return printable(f"{when}  {book.exchange} {book.symbol}  {state}: {size}: {best}") + "\n"


_encode_book = msgspec.json.Encoder(enc_hook=str).encode


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
