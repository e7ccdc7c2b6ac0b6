"""The collector's view: connections in a line, and what they wait for."""

from rich.console import Console

from penstock.cli.collector_view import draw_collector
from penstock.collect.status import CollectorStatus, LegStatus, ShardStatus


def drawn(shards: list[ShardStatus], pending: list[str]) -> str:
    status = CollectorStatus(
        exchange="toy", slot="collect-toy", pid=1, started_ms=0, at_ms=0, state="running",
        shards=shards, pending=pending,
    )  # fmt: skip
    console = Console(width=100, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(draw_collector(status))
    return captured.get()


def leg(number: int, up_s: int | None) -> LegStatus:
    return LegStatus(number=number, state="connected", leads=number == 1, up_s=up_s)


def test_connections_are_summed_up() -> None:
    shards = [
        ShardStatus(state="rotating", legs=[leg(1, 9000), leg(2, 130)], rotations={"old age": 3}),
        ShardStatus(state="connected", legs=[leg(1, None)], given_up={"refused": 1}, dropped=1234),
    ]
    view = drawn(shards, [f"s{number}@trade" for number in range(7)])

    assert "connections 3, the youngest for 2 min, replaced 3 times, in vain 1 times" in view
    assert "1,234 copies dropped" in view
    assert "s4@trade and 2 more" in view
    assert "s5@trade" not in view


def test_without_connections_nothing_is_said_of_them() -> None:
    assert "connections" not in drawn([], [])
    assert "for no time" in drawn([ShardStatus(state="connecting", legs=[leg(1, None)])], [])
    assert "for 7 s" in drawn([ShardStatus(state="connected", legs=[leg(1, 7)])], [])
    assert "for 3 h" in drawn([ShardStatus(state="connected", legs=[leg(1, 10_900)])], [])
