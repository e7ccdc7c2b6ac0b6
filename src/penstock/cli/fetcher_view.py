"""A fetcher's part of the terminal view: what is fetched, how often it worked, what is wrong."""

from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from penstock.collect.status import CollectorStatus, FetchStatus


def draw_fetches(status: CollectorStatus) -> Table:
    """One line for each thing that is fetched."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("fetched", "symbol"):
        table.add_column(name, no_wrap=True)
    for name in ("times", "records", "errors", "last"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for each in status.fetches:
        table.add_row(
            each.what,
            each.symbol,
            f"{each.fetches:,}",
            f"{each.records:,}",
            f"{each.errors:,}",
            _last(each),
            Text(each.reason, style="red"),
        )
    return table


def describe_fetcher(status: CollectorStatus | None) -> str:
    """The same in one line."""
    if status is None:
        return "starting"
    fetches, records, errors = (
        sum(getattr(each, name) for each in status.fetches)
        for name in ("fetches", "records", "errors")
    )
    failing = [f"{each.what} {each.symbol}".strip() for each in status.fetches if each.reason]
    wrong = f"; failing: {', '.join(failing)}" if failing else ""
    return f"{status.slot}: {fetches} fetches, {records} records, {errors} errors{wrong}"


def _last(fetch: FetchStatus) -> str:
    if fetch.last_ms is None:
        return "never"
    return f"{datetime.fromtimestamp(fetch.last_ms / 1000, UTC):%H:%M:%S}"
