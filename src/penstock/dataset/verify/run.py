"""Runs the checks over a dataset's streams."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from penstock.coverage.id_runs import IdRuns
from penstock.coverage.ledger import Interval, by_series
from penstock.coverage.model import DAMAGED, By, GapRow
from penstock.dataset.gaps import as_interval
from penstock.dataset.names import Exchanges, Symbols
from penstock.dataset.plans import together
from penstock.dataset.reading import Part
from penstock.dataset.source import Source
from penstock.dataset.state import Ledger
from penstock.dataset.times import Range
from penstock.dataset.verify.books import BookCheck
from penstock.dataset.verify.candles import CandleCheck, candle_streams
from penstock.dataset.verify.files import check_files
from penstock.dataset.verify.findings import CHECKS, CheckName, Finding, Report, finding
from penstock.dataset.verify.ids import check_ids, is_held
from penstock.dataset.verify.records import SlotNumbers, check_records
from penstock.errors import NotOurRecord, StorageError
from penstock.exchanges.registry import book_rules
from penstock.market import channels
from penstock.market.channels import (
    BOOK_DELTAS,
    BOOK_SNAPSHOTS,
    BY_EVENT,
    DISCONNECTS,
    TRADES,
)
from penstock.market.events import Disconnect
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

_Ledger = dict[tuple[Stream, By], list[Interval]]
_ALWAYS = Range(None, None)


def verify(
    source: Source,
    symbols: Symbols = None,
    exchanges: Exchanges = None,
    checks: Collection[CheckName] = CHECKS,
    most: int = 1000,
) -> Report:
    """Check a dataset; at most so many findings are listed. Nothing is changed.

    Raises:
        NotCollected: a market or an exchange was never collected.
    """
    report = Report()
    lake = source.places.lake
    if lake is not None:  # always: the other checks cannot read a damaged table
        report.add(check_files(lake, report), most)
    damaged = {each.channel for each in report.findings}
    report.not_checked += [f"{each}: its table in the lake is damaged" for each in sorted(damaged)]
    streams = source.find(None, symbols, exchanges, without=damaged)
    trimmed = _trimmed(source, damaged)
    ledger = _ledger(source, streams, trimmed, report)
    run: dict[CheckName, Callable[[Report], Iterator[Finding]]] = {
        "records": partial(_records, source, streams, trimmed, ledger),
        "ids": partial(_ids, source, streams, ledger),
        "candles": partial(_candles, source, streams, ledger),
        "books": partial(_books, source, streams),
    }
    for check, findings in run.items():
        if check in checks:
            report.add(findings(report), most)
    return report


def _trimmed(source: Source, damaged: Collection[str]) -> set[str]:
    """The tables from which retention has deleted rows, but those that cannot be read."""
    lake = source.places.lake
    return {
        row.name
        for row in BY_EVENT.values()
        if row.name not in damaged and (table := lake and lake.table(row)) and table.trimmed()
    }


def _ledger(
    source: Source, streams: Sequence[Stream], trimmed: Collection[str], report: Report
) -> _Ledger:
    """What is complete by the ledger and must be readable here, by series.

    Of a fleet, that is what the slots of this log hold, or have sealed; of a lake alone, what its
    own table of coverage says. Tables that are ``trimmed`` are left out.
    """
    if source.state is not None and (log_id := source.log_id()) is not None:
        stored = source.state.ledger()
        held = (each for each in stored.held if each.log_id == log_id)
        found = by_series(held, _lost(stored, log_id))
    else:
        found = {}
        for row in source.lake_coverage(streams):
            stream = Stream(row.exchange, row.channel, Symbol.parse(row.symbol).slug)
            found.setdefault((stream, row.by), []).append(as_interval(row))
    if not found:
        report.not_checked.append("ids and candles: there is no ledger of coverage here")
    report.not_checked += [f"ids of {each}: retention has deleted rows" for each in sorted(trimmed)]
    return {
        (stream, by): intervals
        for (stream, by), intervals in found.items()
        if (channel := channels.find(stream.channel)) and channel.name not in trimmed
    }


def _lost(stored: Ledger, log_id: int) -> Iterator[GapRow]:
    """The gaps of records that were lost later.

    What was filled by a worker with another log is still missing here.
    """
    elsewhere: dict[tuple[Stream, By], IdRuns] = {}
    for each in stored.held:
        if each.log_id != log_id:
            runs = elsewhere.setdefault((each.stream, each.by), IdRuns())
            for run in each.runs:
                runs.add_run(run.first, run.last)
    for row in stored.gaps:
        if row.cause != DAMAGED:
            continue
        others = elsewhere.get((row.stream, row.by))
        if row.state != "filled" or others is None:
            yield row
            continue
        here = IdRuns()
        for part in others.lacking(row.first, row.last):
            here.add_run(*part)
            yield replace(row, first=part[0], last=part[1])
        for first, last in here.lacking(row.first, row.last):
            yield replace(row, first=first, last=last, state="open")


def _records(
    source: Source,
    streams: Sequence[Stream],
    trimmed: Collection[str],
    ledger: _Ledger,
    report: Report,
) -> Iterator[Finding]:
    for stream in streams:
        row = channels.find(stream.channel)
        if row is not None:
            found = SlotNumbers()
            # Where records were lost and that is known, numbers have breaks. Ids are checked.
            is_known = any(each.cause == DAMAGED for each in ledger.get((stream, "id"), ()))

            def breaks(
                stream: Stream = stream, known: bool = is_known or row.name in trimmed
            ) -> bool:
                return known or _is_marked(source, stream)

            yield from check_records(source.places, row, stream, found, breaks)
            report.compared["records"] += len(found)


def _is_marked(source: Source, stream: Stream) -> bool:
    """Whether a marker says that records were lost after they were recorded."""
    part = Part(DISCONNECTS, [stream._replace(channel=DISCONNECTS.name)])
    return any(
        isinstance(event, Disconnect)
        and event.cause == DAMAGED
        and stream.channel in event.channels
        for event in together(source, [part], _ALWAYS)
    )


def _ids(
    source: Source, streams: Sequence[Stream], ledger: _Ledger, report: Report
) -> Iterator[Finding]:
    for (stream, by), intervals in ledger.items():
        if stream in streams and by != "received_ns":
            checked = partial(check_ids, source.places, stream, by, intervals)
            yield from _readable("ids", stream, checked)
            if by == "id":
                report.compared["ids"] += sum(each.size for each in intervals if is_held(each))


def _candles(
    source: Source, streams: Sequence[Stream], ledger: _Ledger, report: Report
) -> Iterator[Finding]:
    for stream in candle_streams(streams):
        trades = stream._replace(channel=TRADES.name)
        intervals = ledger.get((trades, "id"))
        if intervals is None:
            if ledger:
                report.not_checked.append(
                    f"candles of {stream.exchange} {stream.symbol}: whether its trades are complete"
                    " is not known"
                )
            continue
        check = CandleCheck(source.places, stream)
        yield from _readable("candles", stream, partial(check.run, intervals))
        report.compared["candles"] += check.compared


def _books(source: Source, streams: Sequence[Stream], report: Report) -> Iterator[Finding]:
    for stream in streams:
        rules = book_rules(stream.exchange) if stream.channel == BOOK_DELTAS.name else None
        if rules is None:
            continue
        rows = (BOOK_DELTAS, BOOK_SNAPSHOTS, DISCONNECTS)
        parts = [Part(row, [stream._replace(channel=row.name)]) for row in rows]
        check = BookCheck(stream, rules)
        events = together(source, parts, _ALWAYS)
        yield from _readable("books", stream, partial(check.run, events))
        report.compared["snapshots"] += check.compared


def _readable(
    check: CheckName, stream: Stream, run: Callable[[], Iterable[Finding]]
) -> Iterator[Finding]:
    """The findings of a check; records that cannot be read are one."""
    try:
        yield from run()
    except (StorageError, NotOurRecord) as error:
        yield finding(check, stream, f"records cannot be read: {error}")
