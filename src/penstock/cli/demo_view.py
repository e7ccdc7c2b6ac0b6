"""The terminal view of a demo: an introduction, the phase, and the status of each exchange."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.cli.collector_view import collector_lines, describe_collector
from penstock.cli.fitting import Viewport, wrapped
from penstock.collect.status import CollectorStatus


def introduction(exchanges: Sequence[str], seconds: float) -> str:
    """A sentence that explains the demo."""
    names = " and ".join(filter(None, (", ".join(exchanges[:-1]), exchanges[-1])))
    return (
        f"Demo: penstock records simulated exchanges ({names}) on this machine for {seconds:g} s,"
        " then checks every record against what they sent."
    )


def draw_demo(
    statuses: Mapping[str, CollectorStatus | None],
    words: str,
    phase: str,
    viewport: Viewport,
    console: str = "",
) -> RenderableType:
    """The whole view: the introduction, the phase, the console, and a block for each exchange."""
    head = [*wrapped(words, viewport.width), *wrapped(phase, viewport.width, "bold cyan")]
    if console:
        head += wrapped(f"Console: {console}", viewport.width, "bold")
    left = None if viewport.height is None else viewport.height - len(head)
    return Group(*head, *_blocks(statuses, Viewport(viewport.width, left)))


def describe_demo(statuses: Mapping[str, CollectorStatus | None]) -> str:
    """The status as text, one line for each exchange."""
    return "\n".join(
        describe_collector(status) if status else f"{name}: starting"
        for name, status in statuses.items()
    )


def _blocks(statuses: Mapping[str, CollectorStatus | None], viewport: Viewport) -> list[Text]:
    """The blocks, one below another; if they do not all fit, the lines are divided among them."""
    brief = len(statuses) > 1
    wanted = {
        name: len(_block(name, status, Viewport(viewport.width), brief=brief))
        for name, status in statuses.items()
    }
    lines: list[Text] = []
    left = viewport.height
    # The shortest blocks first; lines that they do not need go to the others.
    shares: dict[str, int | None] = {}
    for number, name in enumerate(sorted(wanted, key=wanted.__getitem__)):
        if left is None:
            shares[name] = None
            continue
        shares[name] = min(wanted[name], left // (len(wanted) - number))
        left -= shares[name] or 0
    for name, status in statuses.items():
        lines += _block(name, status, Viewport(viewport.width, shares[name]), brief=brief)
    return lines


def _block(
    name: str, status: CollectorStatus | None, viewport: Viewport, *, brief: bool
) -> list[Text]:
    if status is None:
        return [Text.assemble((name, "bold"), ("  starting …", "dim"))]
    return collector_lines(status, viewport, brief=brief)
