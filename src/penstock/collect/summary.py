"""The status of a collector or fetcher in short, for the state store."""

from collections.abc import Iterator, Sequence

from penstock.collect.status import CollectorStatus
from penstock.runtime.reports import ConnectionReport
from penstock.runtime.status import ExchangeActivity, Report


def summarize(
    status: CollectorStatus | None, connections: Sequence[ConnectionReport] = ()
) -> Report:
    """What it does in one line, its problems, and its connections."""
    if status is None:
        return Report(doing="", state="starting")
    doing = _fetching(status) if status.fetches else _collecting(status)
    return Report(
        doing=doing,
        problems=tuple(_problems(status)),
        state=status.state,
        exchanges=(_activity(status),),
        connections=connections,
    )


def _activity(status: CollectorStatus) -> ExchangeActivity:
    members = [member for shard in status.shards for member in shard.members]
    connections, up = len(members), sum(member.up_s is not None for member in members)
    if not members and status.connection:  # the sockets of a feed are not known
        connections, up = 1, int(status.connection == "connected")
    return ExchangeActivity(
        exchange=status.exchange,
        messages=sum(stream.records for stream in status.streams),
        counted_ms=status.at_ms,
        markets=len({stream.symbol for stream in status.streams}),
        connections=connections,
        connections_up=up,
        lag_ms=status.lag_ms,
    )


def _collecting(status: CollectorStatus) -> str:
    markets = len({stream.symbol for stream in status.streams})
    rate = sum(stream.per_second for stream in status.streams)
    synced = sum(book.state == "synced" for book in status.books)
    missing = sum(last - first + 1 for ids in status.ids for first, last in ids.missing)
    books = f", {synced:,} of {len(status.books):,} books synced" if status.books else ""
    named = "1 market" if markets == 1 else f"{markets:,} markets"
    return f"{named}, {rate:,.0f} records/s{books}, {missing:,} ids missing"


def _fetching(status: CollectorStatus) -> str:
    fetches = sum(each.fetches for each in status.fetches)
    records = sum(each.records for each in status.fetches)
    return f"{fetches:,} fetches, {records:,} records"


def _problems(status: CollectorStatus) -> Iterator[str]:
    if status.trouble:
        yield status.trouble
    if status.refused:
        yield f"the exchange refused {len(status.refused):,} requests: {status.refused[0]}"
    for fetch in status.fetches:
        if fetch.reason:
            yield f"{fetch.what} {fetch.symbol}".strip() + f": {fetch.reason}"
    if status.stalled:
        yield f"{len(status.stalled):,} streams stalled"
    if stale := sum(book.state == "stale" for book in status.books):
        yield f"{stale:,} books stale"
    if status.bus_dropped:
        yield f"{status.bus_dropped:,} messages dropped by publishers; the log has them"
