"""What a status may contain, and how it is shown: short, without passwords, gone if it is."""

import pytest
from msgspec.structs import replace
from rich.console import Console

from penstock.cli.fitting import Viewport
from penstock.cli.fleet_view import draw_fleet
from penstock.runtime.status import GONE_MS, ProcessStatus, SeenProcess, State, shortened

STATUS = ProcessStatus(
    kind="bus", name="bus", host="h", pid=1, folder="/data", started_ms=0, at_ms=0, state="running"
)


@pytest.mark.parametrize(
    ("silent_ms", "state", "shown"),
    [
        (GONE_MS, "running", "running"),
        (GONE_MS + 1, "running", "gone"),
        (GONE_MS + 1, "starting", "gone"),
        (GONE_MS + 1, "stopped", "stopped"),
    ],
)
def test_a_process_that_ended_without_stopping_is_shown_as_gone(
    silent_ms: int, state: State, shown: str
) -> None:
    console = Console(width=80)
    seen = SeenProcess("x", replace(STATUS, state=state), silent_ms)

    with console.capture() as drawn:
        console.print(draw_fleet([seen], Viewport(80)))

    [_, row] = drawn.get().splitlines()
    assert row.split()[:2] == ["bus", shown]
    assert seen.gone == (shown == "gone")


def test_problems_are_few_short_and_without_passwords() -> None:
    url = "postgresql://penstock:secret@db/penstock"
    problems = (f"{url} does not answer", "x" * 1000, *map(str, range(8)))

    kept = shortened(problems)

    assert "secret" not in kept[0]
    assert "does not answer" in kept[0]
    assert max(map(len, kept)) <= 301
    assert kept[-1] == "and 5 more"
    assert len(kept) == 6
