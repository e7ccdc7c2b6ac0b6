"""Corrects the ledger after a repair: what was lost with damaged files is missing from then on."""

from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from penstock.coverage.candle_gaps import report_candles
from penstock.coverage.candles import CandleGap, HeldCandles
from penstock.coverage.id_runs import IdGap
from penstock.coverage.id_scan import IdScan, ScannedStores, read_listed
from penstock.coverage.model import By
from penstock.coverage.series import Consecutive, kind_of
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream, id_of_key
from penstock.storage.log.repair import Lost


class LostRange(NamedTuple):
    """Records that the ledger listed, both ends included."""

    stream: Stream
    by: By
    first: int
    last: int


def by_stream(
    lost: Iterable[Lost], consecutive: Consecutive
) -> Iterator[tuple[Stream, By, list[Lost]]]:
    """The losses of streams of which it is known what is missing."""
    ordered = sorted(lost, key=lambda each: each.stream)
    for stream, parts in groupby(ordered, lambda each: each.stream):
        by = kind_of(stream, consecutive)
        if by is not None and by != "received_ns":
            yield stream, by, list(parts)


async def correct_ledger(
    lost: Iterable[Lost], stores: ScannedStores, consecutive: Consecutive
) -> list[LostRange]:
    """Report what a slot has lost as gaps; return it.

    Raises:
        StorageError: the log, the lake or the state store failed.
        MissingExtra: records are sealed, and the libraries of the lake are not installed.
    """
    found: list[LostRange] = []
    for stream, by, parts in by_stream(lost, consecutive):
        if by == "id":
            found += [LostRange(stream, by, *gap) async for gap in _ids(stores, stream, parts)]
        else:
            gaps = await _candles(stores, stream, parts)
            found += [LostRange(stream, by, since, until - 1) for since, until in gaps]
    return found


async def _ids(
    stores: ScannedStores, stream: Stream, parts: Iterable[Lost]
) -> AsyncIterator[IdGap]:
    scan = await IdScan.begin(stores, stream)
    next_id = min(_bounds(part)[0] for part in parts)
    while (scanned := await scan.batch(next_id)) is not None:
        for gap in scanned.gaps:
            yield gap
        next_id = scanned.next_id


async def _candles(stores: ScannedStores, stream: Stream, parts: Iterable[Lost]) -> list[CandleGap]:
    known = await read_listed(stores.store, stream, stores.log_id, "open_ms")
    begin, end = known.recorded.first, known.recorded.last
    if begin is None or end is None:
        return []
    interval = Interval.parse(stream.channel.partition("_")[2])
    held = HeldCandles(stores.log, stream.exchange, Symbol.parse(stream.symbol), interval)
    gaps: list[CandleGap] = []
    for part in parts:
        low, high = _bounds(part)
        gaps += await held.gaps(
            max(low, begin), end + 1 if high is None else min(high, end + 1), stores.clock
        )
    return await report_candles(stores.store, stores.log_id, stream, gaps, only_lost=True)


def _bounds(lost: Lost) -> tuple[int, int | None]:
    """The lowest position that may be lost, and one above the highest; None: not known.

    The records beside a loss have adjacent numbers, but not always rising ids.
    """
    beside = [id_of_key(key) for key in (lost.after, lost.before) if key is not None]
    known = [each for each in beside if each is not None]
    low = min(known) if lost.after is not None and known else 0
    high = max(known) if lost.before is not None and known else None
    return low, high
