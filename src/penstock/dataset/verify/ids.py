"""Checks that all that the ledger calls complete or filled is there."""

from collections.abc import Iterable, Iterator

from penstock.coverage.id_runs import IdRuns
from penstock.coverage.ledger import Interval
from penstock.coverage.model import By
from penstock.dataset.merging import TIME
from penstock.dataset.reading import Part, Places, read
from penstock.dataset.times import Range
from penstock.dataset.verify.findings import Finding, finding
from penstock.market import channels
from penstock.market.interval import Interval as CandleInterval
from penstock.storage.lake.ids import runs_of
from penstock.storage.log.keys import Stream


def check_ids(
    places: Places, stream: Stream, by: By, intervals: Iterable[Interval]
) -> Iterator[Finding]:
    """Compare what the records hold of a series with its intervals."""
    row = channels.find(stream.channel)
    assert row is not None
    candle = CandleInterval.parse(row.suffix_in(stream.channel)) if by == "open_ms" else None
    held = IdRuns()
    for frame in read(places, Part(row, [stream]), Range(None, None)):
        if candle is None:
            for first, last in runs_of(frame["id"].drop_nulls()):
                held.add_run(first, last)
        else:
            for open_ms in (frame[TIME] // 1_000_000).to_list():
                held.add_run(open_ms, candle.next_open(open_ms) - 1)
    for interval in intervals:
        if is_held(interval):
            for first, last in held.lacking(interval.first, interval.last):
                yield _missing(stream, by, interval, first, last)


def is_held(interval: Interval) -> bool:
    """Whether the ledger says that the records of an interval are there."""
    return interval.state in ("complete", "filled")


def _missing(stream: Stream, by: By, interval: Interval, first: int, last: int) -> Finding:
    said = f"the ledger says {interval.state}"
    if by == "id":
        what = f"id {first} is" if first == last else f"ids {first} to {last} are"
        return finding("ids", stream, f"{what} missing, and {said}", ids=(first, last))
    return finding("ids", stream, f"candles are missing, and {said}", at_ms=first)
