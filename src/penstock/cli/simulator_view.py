"""The terminal view of a simulator: traffic, clients and rejections."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from penstock.cli.fitting import Viewport
from penstock.simulator.engine.server import State


def draw_state(state: State, viewport: Viewport) -> RenderableType:
    """The whole view."""
    title = Text.assemble((f"simulated {state.exchange}", "bold"), f"  http://{state.address}")
    parts: list[RenderableType] = [_traffic(state), "", _limits(state)]
    if state.faults:
        parts += ["", _faults(state.faults, state.injected)]
    if state.bans:
        parts += ["", _bans(state.bans, state.at_ms)]
    width = min(88, viewport.width)
    return Panel(Group(*parts), title=title, title_align="left", border_style="cyan", width=width)


def describe_state(state: State) -> str:
    """The same in one line, for logs and pipes."""
    used = " ".join(f"{name}={state.used[name]}/{state.limits[name]}" for name in state.used)
    return (
        f"simulated {state.exchange} on http://{state.address}: {state.clients} clients,"
        f" {state.streams} streams, {state.frames_per_s} frames/s, {state.requests} requests,"
        f" {state.refusals} refused, {used}"
    )


def _traffic(state: State) -> Table:
    table = Table.grid(padding=(0, 3))
    table.add_row(
        *(_figure(name, value) for name, value in (
            ("clients", f"{state.clients}"),
            ("streams", f"{state.streams}"),
            ("frames/s", f"{state.frames_per_s:,}"),
            ("frames", f"{state.frames_sent:,}"),
            ("requests", f"{state.requests:,}"),
            ("refused", f"{state.refusals:,}"),
            ("loop lag", f"{state.lag_ms} ms"),
        ))
    )  # fmt: skip
    return table


def _figure(name: str, value: str) -> Text:
    return Text.assemble((f"{value}\n", "bold"), (name, "dim"))


def _limits(state: State) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, used in state.used.items():
        limit = state.limits[name]
        style = "green" if used <= limit // 2 else "yellow" if used <= limit else "red"
        bar = ProgressBar(limit, min(used, limit), width=30, complete_style=style)
        table.add_row(name, bar, f"{used:,} of {limit:,}")
    return table


def _faults(plan: str, injected: Mapping[str, int]) -> Text:
    counts = ", ".join(f"{kind} × {count}" for kind, count in injected.items()) or "none yet"
    return Text.assemble(("faults  ", "bold"), plan, ("\ncounts  ", "bold"), counts)


def _bans(bans: Mapping[str, int], at_ms: int) -> Text:
    lines = [f"{ip} for {max(0, until - at_ms) // 1000} s more" for ip, until in bans.items()]
    return Text.assemble(("banned  ", "bold red"), "; ".join(lines))
