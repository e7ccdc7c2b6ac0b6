"""The terminal view of a collector or fetcher: problems first, then one row per market."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli import fetcher_view, market_rows
from penstock.cli.fitting import Viewport, packed, table, wrapped
from penstock.cli.instants import instant
from penstock.cli.job_words import duration
from penstock.cli.limit_words import limit_words, main_limit
from penstock.cli.market_rows import missing_ids
from penstock.collect.status import CollectorStatus
from penstock.telemetry.printable import printable

_NAMED = 5
"""Maximum names shown of a list; the rest is counted."""
_LEAST_ROWS = 3
"""Minimum rows that problems leave room for."""
GONE = "gone: its process ended without stopping"


def draw_collector(
    status: CollectorStatus | None, viewport: Viewport, *, state: str = ""
) -> RenderableType:
    """The whole view; ``state`` replaces the state in the status."""
    if status is None:
        return Text("starting …", style="dim")
    return Group(*collector_lines(status, viewport, state=state))


def collector_lines(
    status: CollectorStatus, viewport: Viewport, *, state: str = "", brief: bool = False
) -> list[Text]:
    """The lines of the view, as many as fit; ``brief`` omits all notes."""
    head = packed(_title(status, state, brief=brief), viewport.width)
    height = None if viewport.height is None else max(1, viewport.height - len(head))
    trouble_lines = _fit_troubles(list(troubles(status)), Viewport(viewport.width, height))
    shown_notes = [] if brief else _notes(status)
    notes = [line for each in shown_notes for line in wrapped(each, viewport.width)]
    for note in notes:
        note.stylize("dim")
    columns, rows, wrong = (
        (fetcher_view.COLUMNS, fetcher_view.fetch_rows(status), fetcher_view.TROUBLES)
        if status.fetches
        else (market_rows.COLUMNS, market_rows.market_rows(status), market_rows.TROUBLES)
    )
    left = None if height is None else height - len(trouble_lines)
    if left is not None and len(rows) + 1 + len(notes) > left:
        notes = notes[: max(0, left // 8)]
    left = None if left is None else left - len(notes)
    body = table(columns, rows, wrong, Viewport(viewport.width, left)) if rows else []
    return [*head, *trouble_lines, *body, *notes]


def describe_collector(status: CollectorStatus | None) -> str:
    """The same in one line."""
    if status is None:
        return "starting"
    if status.trouble:
        return f"{status.slot}: {status.state}: {status.trouble}"
    if status.state == "stopped":
        return f"{status.slot}: stopped, {missing_ids(status)} ids missing"
    rate = sum(stream.per_second for stream in status.streams)
    return (
        f"{status.slot}: {status.connection}, {rate:.0f} records/s, {_synced(status)} of"
        f" {len(status.books)} books synced, {missing_ids(status)} ids missing,"
        f" {sum(status.malformed.values())} frames malformed"
    )


def _synced(status: CollectorStatus) -> int:
    return sum(book.state == "synced" for book in status.books)


def _title(status: CollectorStatus, state: str, *, brief: bool) -> Iterator[Text]:
    name = printable(status.exchange if brief else status.slot)
    said = state or status.state
    bad = said == GONE or status.state == "failed"
    ended = bad or status.state == "stopped"
    title = Text.assemble((name, "bold"), "  ", (said, "bold red" if bad else "cyan"))
    if ended and not brief:
        title.append(f"  last heard of at {instant(status.at_ms)}")
    elif not brief:
        title.append(f" for {duration((status.at_ms - status.started_ms) / 1000)}")
    yield title
    if not ended:
        if status.connection not in ("", "connected"):
            yield Text(printable(status.connection), style="yellow")
        if status.books:
            synced = _synced(status)
            style = "green" if synced == len(status.books) else "yellow"
            yield Text(f"{synced:,} of {len(status.books):,} books synced", style=style)
    if not brief and not status.fetches:
        lost = missing_ids(status)
        yield Text(f"{lost:,} ids missing", style="red" if lost else "")
    limit = main_limit(status.limits)
    if limit is not None and not ended:
        yield Text(limit_words(limit))


def troubles(status: CollectorStatus) -> Iterator[tuple[str, str]]:
    """(text, colour) of every problem, worst first."""
    if status.trouble:
        yield f"trouble: {status.trouble}", "red"
    if status.refused:
        yield f"refused by the exchange: {_some(status.refused, '; ')}", "red"
    for reason in fetcher_view.failing(status):
        yield reason, "red"
    if status.stalled:
        yield f"stalled, though their markets move: {_some(status.stalled)}", "red"
    for style, reason, symbols in _books_by_reason(status):
        yield f"{_some(symbols)}: {reason}", style
    if status.malformed:
        yield f"malformed frames: {_counted(status.malformed)}", "yellow"
    if status.bus_dropped:
        yield f"dropped by the bus {status.bus_dropped:,}; the log has them", "yellow"
    if status.pending:
        yield f"not answered yet by the exchange: {_some(status.pending)}", "yellow"


def _books_by_reason(status: CollectorStatus) -> Iterator[tuple[str, str, list[str]]]:
    """(colour, state and reason, symbols) of stale books, then of syncing ones."""
    groups = defaultdict[tuple[str, str], list[str]](list)
    for book in status.books:
        if book.state in ("stale", "syncing"):
            groups[book.state, book.reason].append(book.symbol)
    for (state, reason), symbols in sorted(groups.items()):
        style = "red" if state == "stale" else "yellow"
        yield style, ": ".join(filter(None, (state, reason))), symbols


def _fit_troubles(said: Sequence[tuple[str, str]], viewport: Viewport) -> list[Text]:
    """As many problems as leave room for some rows; the others are counted."""
    lines: list[Text] = []
    most = None if viewport.height is None else max(1, viewport.height - _LEAST_ROWS - 2)
    for number, (words, style) in enumerate(said):
        more = wrapped(f"! {words}", viewport.width, style)
        is_last = number == len(said) - 1
        if most is not None and len(lines) + len(more) + (not is_last) > most:
            left = len(said) - number
            kept = more[: most - 1] if not lines else []
            rest = f"! … and {left:,} more; all of it: penstock status --json"
            return [*lines, *kept, Text(rest, style="red", no_wrap=True)]
        lines += more
    return lines


def _notes(status: CollectorStatus) -> Iterator[str]:
    yield from _connections(status)
    if status.reconnects:
        yield f"reconnects: {_counted(status.reconnects)}"
    if audits := sum(book.audits for book in status.books):
        drifted = [f"{book.symbol} by {book.drift} levels" for book in status.books if book.drift]
        found = f"last wrong: {_some(drifted)}" if drifted else "right"
        yield f"books audited {audits:,} times, {found}"


def _connections(status: CollectorStatus) -> Iterator[str]:
    """The number of connections, the age of the youngest, and further counts if not zero."""
    members = [member for shard in status.shards for member in shard.members]
    if not members:
        return
    up_s = min((member.up_s for member in members if member.up_s is not None), default=None)
    words = [f"connections {len(members)}, the youngest for {_lasted(up_s)}"]
    if rotated := sum(sum(shard.rotations.values()) for shard in status.shards):
        words.append(f"replaced {rotated:,} times")
    if given_up := sum(sum(shard.given_up.values()) for shard in status.shards):
        words.append(f"in vain {given_up:,} times")
    if dropped := sum(shard.dropped for shard in status.shards):
        words.append(f"{dropped:,} copies dropped")
    yield ", ".join(words)


def _some(names: Sequence[str], separator: str = ", ") -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return separator.join(names[:_NAMED]) + more


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} × {reason}" for reason, count in counts.items())


def _lasted(seconds: int | None) -> str:
    if seconds is None:
        return "no time"
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
