"""The demo's terminal view: one exchange in full, or a few lines for each of several."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.collector_view import describe_collector, draw_collector, missing, state, trimmed
from penstock.collect.status import CollectorStatus


def draw_demo(statuses: Mapping[str, CollectorStatus | None]) -> RenderableType:
    """The whole view, by exchange."""
    if len(statuses) == 1:
        return draw_collector(*statuses.values())
    return Group(*(_block(name, status) for name, status in statuses.items()))


def describe_demo(statuses: Mapping[str, CollectorStatus | None]) -> str:
    """The same, a line for each exchange."""
    return "\n".join(
        describe_collector(status) if status else f"{name}: starting"
        for name, status in statuses.items()
    )


def _block(name: str, status: CollectorStatus | None) -> RenderableType:
    """As few lines as tell how it is, so that several exchanges fit one screen."""
    if status is None:
        return Text.assemble((name, "bold"), ("  starting …", "dim"))
    title = Text.assemble((name, "bold"), "  ", (status.state, "cyan"))
    if status.weight_limit:
        title.append(f"  weight used {status.weight_used:,} of {status.weight_limit:,}")
    title.append(f"  missing ids {missing(status):,}")
    if status.reconnects:
        title.append(f"  reconnects {sum(status.reconnects.values())}")
    if status.trouble:
        title.append(f"  {status.trouble}", "red")
    return Group(title, _markets(status))


def _markets(status: CollectorStatus) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 2))
    table.add_column("symbol", no_wrap=True, min_width=10)
    for name in ("trades", "records/s", "price", "bid", "ask"):
        table.add_column(name, justify="right", no_wrap=True, min_width=9)
    table.add_column("book", no_wrap=True)
    books = {book.symbol: book for book in status.books}
    for symbol in dict.fromkeys(stream.symbol for stream in status.streams):
        streams = [stream for stream in status.streams if stream.symbol == symbol]
        trades = next((each for each in streams if each.channel == "trades"), None)
        book = books.get(symbol)
        table.add_row(
            symbol,
            f"{trades.records:,}" if trades else "",
            f"{sum(each.per_second for each in streams):,.0f}",
            trimmed(trades.last_price if trades else None),
            trimmed(book.bid if book else None),
            trimmed(book.ask if book else None),
            state(book),
        )
    return table
