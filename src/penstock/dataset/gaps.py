"""Reports what is missing in the range that a query reads."""

import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Literal, get_args

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from penstock.coverage.ledger import Interval
from penstock.coverage.model import By
from penstock.dataset.times import Range, iso
from penstock.errors import BadQuery, GapError
from penstock.errors.reading import GapWarning
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

OnGap = Literal["warn", "raise", "ignore"]
"""What to do where data of the range is missing."""
_MOST_NAMED = 5
_MS_NS = 1_000_000


class Coverage(Struct, frozen=True, kw_only=True):
    """A range of one channel of one market in one state, both ends included."""

    exchange: str
    channel: str
    symbol: str
    state: Literal["complete", "gap", "filled", "unfillable"]
    since_ms: int | None
    """Market time; None if it is not known."""
    until_ms: int | None
    by: By
    """What ``first`` and ``last`` are: ids, open times in milliseconds, or receive times in
    nanoseconds."""
    first: int
    last: int
    cause: str = ""
    origin: str = ""
    """Who is responsible for a gap: ours, exchange or unknown."""
    reason: str = ""
    source: str = ""


def check_on_gap(on_gap: str) -> None:
    """Check a caller's choice.

    Raises:
        BadQuery: there is no such choice.
    """
    if on_gap not in get_args(OnGap):
        raise BadQuery(f"on_gap={on_gap!r}: use one of {', '.join(get_args(OnGap))}.")


def coverage_row(stream: Stream, by: By, interval: Interval) -> Coverage:
    """An interval with the names of its series."""
    return Coverage(
        exchange=stream.exchange,
        channel=stream.channel,
        symbol=Symbol.parse(stream.symbol).unified,
        state=interval.state,
        since_ms=interval.since_ms,
        until_ms=interval.until_ms,
        by=by,
        first=interval.first,
        last=interval.last,
        cause=interval.cause,
        origin=interval.origin,
        reason=interval.reason,
        source=interval.source,
    )


def coverage_rows(stored: pl.DataFrame, streams: Collection[Stream] | None) -> list[Coverage]:
    """The intervals of these streams, or of all, as they are stored in a lake."""
    found = []
    for row in stored.sort("exchange", "channel", "symbol", "by", "first").iter_rows(named=True):
        since, until = (row.pop(name) for name in ("since", "until"))
        symbol = Symbol.parse(row.pop("symbol"))
        if streams is None or Stream(row["exchange"], row["channel"], symbol.slug) in streams:
            row |= {"symbol": symbol.unified, "since_ms": _ms(since), "until_ms": _ms(until)}
            found.append(Coverage(**row))
    return found


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def overlaps(row: Coverage, times: Range) -> bool:
    """Whether an interval may have records in a range; an unknown end is open."""
    since_ns, until_ns = times
    starts_late = until_ns is not None and row.since_ms is not None
    if starts_late and row.since_ms * _MS_NS >= until_ns:  # type: ignore[operator]
        return False
    ends_early = since_ns is not None and row.until_ms is not None
    return not (ends_early and (row.until_ms + 1) * _MS_NS <= since_ns)  # type: ignore[operator]


def missing_of(stream: Stream, rows: Sequence[Coverage], times: Range) -> list[str]:
    """What is missing of one stream in a range, in words."""
    market = f"{stream.exchange} {stream.channel} {Symbol.parse(stream.symbol).unified}"
    known = [each for each in rows if each.since_ms is not None and each.until_ms is not None]
    found: list[str] = []
    if not rows:
        found.append(f"{market}: nothing is recorded about its coverage, so gaps are not known")
    if known:
        first_ms = min(each.since_ms for each in known)  # type: ignore[type-var]
        last_ms = max(each.until_ms for each in known)  # type: ignore[type-var]
        assert first_ms is not None
        assert last_ms is not None
        if times.since_ns is not None and times.since_ns < first_ms * _MS_NS:
            found.append(f"{market}: nothing before {iso(first_ms)} was collected")
        if times.since_ns is not None and times.since_ns > (last_ms + 1) * _MS_NS:
            found.append(f"{market}: nothing after {iso(last_ms)} was collected")
    for each in (*rows, *_unreported(rows)):
        if each.state in ("gap", "unfillable") and overlaps(each, times):
            found.append(f"{market}: {_words(each)}")
    return found


def _unreported(rows: Sequence[Coverage]) -> Iterator[Coverage]:
    """What is missing between intervals, and is not known as a gap yet."""
    for before, after in pairwise(rows):
        if before.by == after.by != "received_ns" and after.first > before.last + 1:
            yield replace(
                before,
                state="gap",
                first=before.last + 1,
                last=after.first - 1,
                since_ms=before.until_ms,
                until_ms=after.since_ms,
                cause="not examined yet",
                reason="",
            )


def report(missing: Iterable[str], on_gap: OnGap, stacklevel: int) -> None:
    """Warn or raise, if anything is missing.

    Raises:
        GapError: something is, and ``on_gap`` is ``"raise"``.
    """
    found = list(missing)
    if not found or on_gap == "ignore":
        return
    named = "; ".join(found[:_MOST_NAMED])
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    text = f"data is missing: {named}{more}"
    if on_gap == "raise":
        raise GapError(f"{text}. Read it nevertheless with on_gap='warn'.")
    warnings.warn(f"{text}. All: gaps()", GapWarning, stacklevel=stacklevel)


def _words(row: Coverage) -> str:
    ends = [None if each is None else iso(each) for each in (row.since_ms, row.until_ms)]
    when = f"{ends[0] or 'unknown'} to {ends[1] or 'unknown'}"
    ids = f"ids {row.first} to {row.last}" if row.first < row.last else f"id {row.first}"
    ids = f" ({ids})" if row.by == "id" else ""
    why = ", ".join(filter(None, (row.state, row.cause, row.reason)))
    return f"{when}{ids}: {why}"
