"""The terminal view of an overview."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.fitting import Column, Row, Viewport, packed, table, wrapped
from penstock.cli.instants import instant
from penstock.cli.job_words import duration
from penstock.monitor.overview import AlertRow, BackupView, DiskView, ExchangeView, Overview

_COLUMNS = (
    Column("", 0, left=True),
    Column("exchange", 0, left=True),
    Column("records/s", 1, 9),
    Column("lag", 4, 6),
    Column("last data", 3, 9),
    Column("markets", 5),
    Column("gaps", 2),
    Column("connections", 6),
    Column("breaker", 7, left=True),
)
_COLOURS = {"ok": "green", "warning": "yellow", "bad": "red", "off": "dim"}
_TROUBLES = ("bad", "warning", "off")
_BARS = "▁▂▃▄▅▆▇█"
_LONGEST_HISTORY = 60
_LEAST_ROWS = 3


def draw_overview(
    shown: Overview, width: int, height: int | None, problem: str = ""
) -> RenderableType:
    """The overview in this space: exchanges that need attention first, then reasons and alerts."""
    head = [*(wrapped(problem, width, "red") if problem else ()), *packed(_totals(shown), width)]
    if not shown.exchanges:
        nothing = "Nothing is collected yet. Begin with: penstock collect EXCHANGE MARKET"
        return Group(*head, Text(nothing))
    below = [line for each in shown.exchanges for line in _why(each, width)]
    below += [line for each in shown.alerts for line in _alert(each, width)]
    rows = [_row(each, shown.at_ms) for each in shown.exchanges]
    if height is not None:
        room = height - len(head) - 1
        below = below[: max(0, room - max(_LEAST_ROWS, len(rows)) - 1)]
        height = max(_LEAST_ROWS, room - len(below))
    return Group(*head, Text(), *table(_COLUMNS, rows, _TROUBLES, Viewport(width, height)), *below)


def _totals(shown: Overview) -> list[Text]:
    totals = shown.totals
    parts = [
        Text(f"penstock {shown.version}  {instant(shown.at_ms)}", style="dim"),
        Text(f"{_number(totals.messages_per_s)} records/s"),
        Text(history([each.messages_per_s for each in shown.rates]), style="cyan"),
        Text(f"{totals.markets:,} markets"),
        Text(f"{totals.gaps_open:,} gaps open", style="yellow" if totals.gaps_open else ""),
        Text(f"{totals.processes:,} processes"),
        Text(f"{totals.jobs_running:,} jobs run"),
    ]
    if totals.processes_failed:
        parts.append(Text(f"{totals.processes_failed:,} processes failed", style="red"))
    if totals.jobs_failed:
        parts.append(Text(f"{totals.jobs_failed:,} jobs failed", style="red"))
    return [*(part for part in parts if part.plain), _disk(shown.disk), _backup(shown)]


def history(rates: Sequence[float]) -> str:
    """The rates as a line of bars, the newest at the right."""
    last = rates[-_LONGEST_HISTORY:]
    most = max(last, default=0) or 1
    return "".join(_BARS[min(len(_BARS) - 1, int(len(_BARS) * each / most))] for each in last)


def _disk(disk: DiskView | None) -> Text:
    if disk is None:
        return Text("disk: not measured", style="dim")
    days = "" if disk.days_left is None else f", full in {disk.days_left:,.0f} days"
    return Text(f"disk: {disk.free_bytes / 1e9:,.1f} GB free{days}")


def _backup(shown: Overview) -> Text:
    backup: BackupView | None = shown.backup
    if backup is None:
        return Text("backup: none", style="dim")
    age = duration(max(0, shown.at_ms - backup.at_ms) / 1000)
    if not backup.ok:
        return Text(f"backup: failed {age} ago", style="red")
    return Text(f"backup: {age} ago, {'verified' if backup.verified else 'not verified'}")


def _row(each: ExchangeView, now_ms: int) -> Row:
    age_ms = None if each.last_data_ms is None else max(0, now_ms - each.last_data_ms)
    breaker: str = "" if each.breaker == "closed" else each.breaker
    if each.blocked_until_ms is not None:
        breaker = f"stop for {duration(max(0, each.blocked_until_ms - now_ms) / 1000)}"
    cells = (
        Text("●", style=_COLOURS[each.light]),
        each.exchange,
        _number(each.messages_per_s),
        "" if each.lag_ms is None else f"{each.lag_ms:,} ms",
        "" if age_ms is None else f"{duration(age_ms / 1000)} ago",
        f"{each.markets:,}",
        Text(f"{each.gaps_open:,}", style="yellow" if each.gaps_open else ""),
        f"{each.connections_up}/{each.connections}" if each.connections else "",
        Text(breaker, style="red"),
    )
    return Row(cells, "" if each.light == "ok" else each.light)


def _why(each: ExchangeView, width: int) -> list[Text]:
    colour = _COLOURS[each.light]
    return [
        line for words in each.why for line in wrapped(f"! {each.exchange}: {words}", width, colour)
    ]


def _alert(alert: AlertRow, width: int) -> list[Text]:
    if alert.ended_ms is not None:
        return []
    colour = "red" if alert.severity == "critical" else "yellow"
    words = f"{instant(alert.since_ms)} {alert.rule} {alert.subject}: {alert.message}"
    return wrapped(words, width, colour)


def _number(per_s: float | None) -> str:
    return "–" if per_s is None else f"{per_s:,.0f}"
