"""The rows of a fetcher's terminal view: what is fetched, successes, and problems."""

from rich.text import Text

from penstock.cli.fitting import Column, Row
from penstock.cli.instants import day_and_time
from penstock.collect.status import CollectorStatus, FetchStatus

COLUMNS = (
    Column("fetched", 0, least=8, left=True),
    Column("symbol", 1, least=10, left=True),
    Column("state", 2, least=7, left=True),
    Column("times", 4, least=7),
    Column("records", 3, least=9),
    Column("errors", 5),
    Column("last", 6, least=8),
)
TROUBLES = ("failing",)
"""The problems that a row can have."""


def fetch_rows(status: CollectorStatus) -> list[Row]:
    """One row for each periodic fetch."""
    return [_row(each) for each in status.fetches]


def failing(status: CollectorStatus) -> list[str]:
    """The reason of each fetch that is failing."""
    return [f"{_name(each)}: {each.reason}" for each in status.fetches if each.reason]


def describe_fetcher(status: CollectorStatus | None) -> str:
    """The status in one line."""
    if status is None:
        return "starting"
    fetches, records, errors = (
        sum(getattr(each, name) for each in status.fetches)
        for name in ("fetches", "records", "errors")
    )
    names = [_name(each) for each in status.fetches if each.reason]
    wrong = f"; failing: {', '.join(names)}" if names else ""
    return f"{status.slot}: {fetches} fetches, {records} records, {errors} errors{wrong}"


def _row(fetch: FetchStatus) -> Row:
    state = Text("failing", style="red") if fetch.reason else Text("fine", style="green")
    cells = (
        fetch.what,
        fetch.symbol,
        state,
        f"{fetch.fetches:,}",
        f"{fetch.records:,}",
        f"{fetch.errors:,}",
        _last(fetch),
    )
    return Row(cells, TROUBLES[0] if fetch.reason else "")


def _name(fetch: FetchStatus) -> str:
    return f"{fetch.what} {fetch.symbol}".strip()


def _last(fetch: FetchStatus) -> str:
    if fetch.last_ms is None:
        return "never"
    return day_and_time(fetch.last_ms / 1000)[-8:]
