"""A collector's terminal view: streams, books, budget, and what is missing."""

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.cli.fetcher_view import draw_fetches
from penstock.collect.status import BookStatus, CollectorStatus

_PENDING = 5
"""Streams that are named while they wait for an answer."""
_STATES = {"synced": "green", "syncing": "yellow", "stale": "red"}


def draw_collector(status: CollectorStatus | None, *, gone: bool = False) -> RenderableType:
    """The whole view."""
    if status is None:
        return Text("starting …", style="dim")
    state = "gone: its process ended without stopping" if gone else status.state
    title = Text.assemble(
        (status.exchange, "bold"), f"  {status.slot}  ", (state, "red" if gone else "cyan")
    )
    parts: list[RenderableType] = [_streams(status), "", _notes(status)]
    if status.fetches:
        parts = [draw_fetches(status), "", *parts]
    return Panel(Group(*parts), title=title, title_align="left", border_style="cyan", width=100)


def describe_collector(status: CollectorStatus | None) -> str:
    """The same in one line."""
    if status is None:
        return "starting"
    if status.trouble:
        return f"{status.slot}: {status.state}: {status.trouble}"
    synced = sum(book.state == "synced" for book in status.books)
    rate = sum(stream.per_second for stream in status.streams)
    return (
        f"{status.slot}: {status.connection}, {rate:.0f} records/s,"
        f" {synced} of {len(status.books)} books synced, {missing(status)} ids missing,"
        f" {sum(status.malformed.values())} frames malformed"
    )


def missing(status: CollectorStatus) -> int:
    """How many ids are known to be missing."""
    return sum(last - first + 1 for ids in status.ids for first, last in ids.missing)


def _streams(status: CollectorStatus) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("symbol", "channel"):
        table.add_column(name, no_wrap=True)
    for name in ("records", "per s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("price, or bid and ask", overflow="fold")
    table.add_column("book", no_wrap=True)
    books = {book.symbol: book for book in status.books}
    for stream in status.streams:
        book = books.get(stream.symbol) if stream.channel == "book_deltas" else None
        table.add_row(
            stream.symbol,
            stream.channel,
            f"{stream.records:,}",
            f"{stream.per_second:,.1f}",
            f"{trimmed(book.bid)} {trimmed(book.ask)}" if book else trimmed(stream.last_price),
            state(book),
        )
    return table


def state(book: BookStatus | None) -> Text:
    """How it is with a book, in its colour."""
    return Text() if book is None else Text(book.state, style=_STATES[book.state])


def trimmed(number: str | None) -> str:
    """Without the zeros at the end that nobody reads."""
    if number is None:
        return ""
    return number.rstrip("0").rstrip(".") if "." in number else number


def _notes(status: CollectorStatus) -> Text:
    lines = []
    if status.weight_limit:
        lines.append(f"weight used {status.weight_used:,} of {status.weight_limit:,}")
    if not status.fetches:  # a fetcher counts none, so it claims nothing
        lines.append(f"missing ids {missing(status):,}")
    lines += _connections(status)
    if status.bus_dropped:
        lines.append(f"dropped by the bus {status.bus_dropped:,}; the log has them")
    if status.reconnects:
        lines.append("reconnects " + ", ".join(f"{n} × {r}" for r, n in status.reconnects.items()))
    if status.malformed:
        lines.append("malformed " + ", ".join(f"{n} × {r}" for r, n in status.malformed.items()))
    stale = [book for book in status.books if book.reason]
    lines += [f"{book.symbol}: {book.state}: {book.reason}" for book in stale]
    if audits := sum(book.audits for book in status.books):
        drifted = {book.symbol: book.drift for book in status.books if book.drift}
        words = ", ".join(f"{symbol} by {levels} levels" for symbol, levels in drifted.items())
        lines.append(
            f"books audited {audits:,} times, {'last wrong: ' + words if words else 'right'}"
        )
    if status.refused:
        lines.append("refused " + "; ".join(status.refused))
    if status.mute:
        lines.append("mute " + ", ".join(status.mute))
    if status.trouble:
        lines.append(f"trouble: {status.trouble}")
    return Text("\n".join(lines))


def _connections(status: CollectorStatus) -> list[str]:
    """How many connections there are and how it is with them; of those that are well, no more."""
    legs = [leg for shard in status.shards for leg in shard.legs]
    if not legs:
        return []
    up_s = min((leg.up_s for leg in legs if leg.up_s is not None), default=None)
    words = [f"connections {len(legs)}, the youngest for {_lasted(up_s)}"]
    if rotated := sum(sum(shard.rotations.values()) for shard in status.shards):
        words.append(f"replaced {rotated:,} times")
    if given_up := sum(sum(shard.given_up.values()) for shard in status.shards):
        words.append(f"in vain {given_up:,} times")
    if dropped := sum(shard.dropped for shard in status.shards):
        words.append(f"{dropped:,} copies dropped")
    lines = [", ".join(words)]
    if status.pending:
        more = (
            f" and {len(status.pending) - _PENDING} more" if len(status.pending) > _PENDING else ""
        )
        lines.append("not answered yet " + ", ".join(status.pending[:_PENDING]) + more)
    return lines


def _lasted(seconds: int | None) -> str:
    if seconds is None:
        return "no time"
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
