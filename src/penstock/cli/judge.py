"""``penstock judge``: compares collected data with a simulator's ledger."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import msgspec
import typer
from msgspec.structs import replace

from penstock.cli.context import read_settings
from penstock.cli.options import DataOption, JsonOption, say
from penstock.clock import SystemClock
from penstock.collect.status import read_all
from penstock.config import Settings
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.id_runs import IdRuns
from penstock.errors import PenstockError
from penstock.exchanges import registry as exchanges
from penstock.market.channels import BOOK_SNAPSHOTS, TRADES
from penstock.market.events import BookSnapshot, Trade
from penstock.runtime.stores import configured_log, open_state
from penstock.simulator.judge import Evidence, Findings, Judge, SeenBook, SeenTrade
from penstock.storage.log import EventLog, LogReader
from penstock.storage.log.keys import Stream, id_of_key


def judge(
    context: typer.Context,
    address: Annotated[str, typer.Argument(help="Address of the simulator: http://…")],
    data_dir: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare a data folder with the ledger of the simulator it was collected from.

    Checks every trade, every book that was marked synced, and the list of gaps. Records of other
    exchanges than the simulated one are ignored. Exits 0 if all are correct, whether or not there
    are gaps; exits 1 if not, or if there is nothing to compare.

    Example: penstock judge http://127.0.0.1:8790 --data-dir penstock-data
    """
    settings = read_settings(context, {"collect.data_dir": data_dir}).settings
    findings = asyncio.run(_judge(address, settings))
    if as_json:
        say(findings)
    else:
        typer.echo(summary(findings))
    raise typer.Exit(0 if findings.honest and not findings.empty else 1)


def gather(folder: Path, log: EventLog, exchange: str) -> dict[str, Evidence]:
    """Return the evidence of an exchange in a data folder and its log, by slug."""
    consecutive = TRADES.name in exchanges.load(exchange).consecutive
    markets = defaultdict[str, Evidence](lambda: Evidence(consecutive=consecutive))
    with closing(log.reader()) as reader:
        for stream in reader.streams():
            gather_record = _GATHERED.get(stream.channel)
            if stream.exchange == exchange and gather_record is not None:
                _gather_records(reader, stream, markets[stream.symbol], gather_record)
        for status in read_all(folder):
            if status.exchange != exchange:
                continue
            for ids in status.ids:
                if ids.channel == TRADES.name:
                    filled = _held_elsewhere(reader, exchange, ids.symbol, status.slot)
                    left = (part for gap in ids.missing for part in filled.lacking(*gap))
                    markets[ids.symbol].missing += left
            for book in status.books:
                markets[book.symbol].synced = book.state == "synced" or book.was_synced
    return dict(markets)


def _held_elsewhere(log: LogReader, exchange: str, symbol: str, slot: str) -> IdRuns:
    """The trades of a market that slots other than a collector's hold, such as filled gaps."""
    stream, held = Stream(exchange, TRADES.name, symbol), IdRuns()
    for other in log.slots():
        if other != slot:
            for stored in log.numbers(stream, other, 1):
                held.add(id_of_key(stored.key) or 0)
    return held


def _gather_records(
    log: LogReader, stream: Stream, evidence: Evidence, gather_record: "_Gather"
) -> None:
    for slot in log.slots():
        # Readers show records that several slots hold, such as a collector's and a fetcher's, once.
        elsewhere = {trade.id for trade in evidence.trades}
        # By number, not by key, so that a record that was numbered twice is found.
        for stored in log.numbers(stream, slot, 1):
            gather_record(stored.event, evidence, elsewhere)


def _gather_trade(trade: Trade, evidence: Evidence, elsewhere: set[int]) -> None:
    if trade.id not in elsewhere:
        taker_buys = trade.taker == "buy"
        evidence.trades.append(
            SeenTrade(trade.id, trade.at_ms, trade.price, trade.quantity, taker_buys)
        )


def _gather_book(book: BookSnapshot, evidence: Evidence, _: set[int]) -> None:
    # On exchanges without update ids, a book is identified by its time. One without either, as at
    # the start of some streams, cannot be found in the ledger.
    if book.update_id or book.at_ns:
        at_ms = None if book.update_id else book.at_ms
        evidence.books.append(SeenBook(book.update_id, book.bids, book.asks, at_ms))


_Gather = Callable[[Any, Evidence, set[int]], None]
_GATHERED: dict[str, _Gather] = {TRADES.name: _gather_trade, BOOK_SNAPSHOTS.name: _gather_book}
"""The channels that a ledger can prove, with what to take from each record."""


async def _judge(address: str, settings: Settings) -> Findings:
    folder, log = Path(settings.collect.data_dir), configured_log(settings)
    try:
        async with aiohttp.ClientSession() as http:
            court = Judge(http, address.rstrip("/"))
            exchange = await court.exchange()
            findings = await court.judge(gather(folder, log, exchange))
            return replace(findings, gaps_open=await _gaps_open(settings, exchange))
    except (aiohttp.ClientError, msgspec.DecodeError) as error:
        raise PenstockError(
            f"No simulator with these markets answers at {address}: {error}."
            " Give the address of the simulator that was collected from; it must still run."
        ) from error


async def _gaps_open(settings: Settings, exchange: str) -> int:
    async with open_state(settings, SystemClock(), read_only=True) as store:
        return len(await GapRows(store).find(exchange=exchange, state="open"))


def summary(findings: Findings) -> str:
    """The findings as text."""
    if findings.empty:
        verdict = "nothing was collected"
    elif findings.clean:
        verdict = "complete and correct"
    elif findings.honest and findings.gaps_unknowable:
        verdict = "incomplete; every gap that ids can show is listed"
    elif findings.honest:
        verdict = "incomplete; every gap is listed"
    else:
        verdict = "NOT correct"
    not_known = findings.gaps_unlisted + findings.gaps_unknowable
    return (
        f"{findings.trades:,} trades: {findings.trades_missing} missing"
        f" ({not_known} of them not listed), {findings.trades_duplicated} duplicated,"
        f" {findings.trades_wrong} wrong\n"
        f"{findings.books_synced} books synced; {findings.books_checked} snapshots checked,"
        f" {findings.book_mismatches} wrong\n"
        f"{findings.requests} requests: {findings.http_429} × 429, {findings.http_418} × 418\n"
        f"{verdict}"
    )
