"""Connections as they are shown: those of processes that are gone are closed."""

import platform

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.monitor.connections import connections, connections_of
from penstock.runtime.reports import MOST_CONNECTIONS, MOST_EVENTS, ConnectionReport, bounded
from penstock.runtime.status import GONE_MS, ProcessStatus, SeenProcess, write_process
from penstock.storage.state import open_store
from penstock.streaming.history import ConnectionEvent

OPEN = ConnectionReport(
    exchange="toy",
    name="1.1",
    state="connected",
    since_ms=5_000,
    messages=100,
    messages_per_s=12.5,
    last_message_ms=9_990,
    asked=4,
    pending=1,
    lifetime_ms=86_400_000,
    reconnects=1,
    events=[ConnectionEvent(4_000, "closed", "<img onerror=x>"), ConnectionEvent(5_000, "opened")],
)
STATUS = ProcessStatus(
    kind="collect",
    name="collect-toy",
    host="elsewhere",
    pid=1,
    folder="/data",
    started_ms=0,
    at_ms=10_000,
    state="running",
    connections=[OPEN],
)


def test_a_connection_is_shown_as_it_was_reported() -> None:
    [shown] = connections_of([SeenProcess("x", STATUS, 0)]).items

    assert (shown.exchange, shown.process, shown.connection) == ("toy", "collect-toy", "1.1")
    assert (shown.state, shown.since_ms, shown.messages_per_s) == ("connected", 5_000, 12.5)
    assert (shown.asked, shown.acked, shown.limit_age_ms) == (4, 3, 86_400_000)
    assert [each.reason for each in shown.events] == ["<img onerror=x>", ""]


@pytest.mark.parametrize(
    ("state", "silent_ms"), [("running", GONE_MS + 1), ("stopped", 0), ("failed", 0)]
)
def test_connections_of_a_process_that_ended_are_closed_since_its_last_report(
    state: str, silent_ms: int
) -> None:
    status = replace(STATUS, state=state)
    [shown] = connections_of([SeenProcess("x", status, silent_ms)]).items

    assert (shown.state, shown.since_ms, shown.acked) == ("closed", 10_000, 0)
    assert shown.messages_per_s == 0


def test_what_a_library_subscribes_to_is_not_known_to_be_acknowledged() -> None:
    status = replace(STATUS, connections=[replace(OPEN, messages=None)])

    [shown] = connections_of([SeenProcess("x", status, 0)]).items

    assert (shown.asked, shown.acked) == (4, None)


def test_one_that_was_lost_before_is_closed_since_then() -> None:
    lost = replace(OPEN, state="reconnecting", since_ms=7_000)
    status = replace(STATUS, connections=[lost])
    [shown] = connections_of([SeenProcess("x", status, GONE_MS + 1)]).items

    assert (shown.state, shown.since_ms) == ("closed", 7_000)


def test_they_are_in_the_order_of_their_numbers() -> None:
    named = [replace(OPEN, name=name) for name in ("10.1", "2.11", "2.2", "1")]
    status = replace(STATUS, connections=named)

    shown = connections_of([SeenProcess("x", status, 0)]).items
    assert [each.connection for each in shown] == ["1", "2.2", "2.11", "10.1"]


async def test_they_are_read_from_the_state_store_with_statuses_of_older_versions() -> None:
    store = await open_store("memory:")
    old = msgspec.to_builtins(replace(STATUS, name="old", connections=[]))
    for name in ("connections", "gates"):
        del old[name]
    await write_process(store, "a", replace(STATUS, host=platform.node()))
    await write_process(store, "b", msgspec.convert(old, ProcessStatus))

    [shown] = (await connections(store)).items
    assert shown.process == "collect-toy"
    assert shown.events[0].at_ms == 4_000
    await store.close()


@example([[*range(50)]] * 120)
@example([[7] * 50] * 7)
@given(st.lists(st.lists(st.integers(0, 5_000), max_size=50), max_size=130))
def test_what_a_process_reports_is_bounded_and_keeps_the_newest(times: list[list[int]]) -> None:
    reported = [
        replace(
            OPEN, name=str(number), events=[ConnectionEvent(at, "opened") for at in sorted(some)]
        )
        for number, some in enumerate(times)
    ]
    kept = bounded(reported)

    assert len(kept) == min(len(reported), MOST_CONNECTIONS)
    left = [event.at_ms for each in kept for event in each.events]
    all_ms = sorted(at for some in times[:MOST_CONNECTIONS] for at in some)
    assert len(left) == min(len(all_ms), MOST_EVENTS)
    assert sorted(left) == all_ms[len(all_ms) - len(left) :], "the newest"
    assert len(msgspec.json.encode(kept)) < 100_000
