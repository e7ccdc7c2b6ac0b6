"""Which statuses of a store are those of supervised processes."""

import os

from msgspec.structs import replace

from penstock.runtime.identity import identity_of
from penstock.runtime.status import GONE_MS, ProcessStatus, SeenProcess, this_machine
from penstock.supervisor.child import Child
from penstock.supervisor.model import ChildPlan, Rules, Seen
from penstock.supervisor.statuses import statuses_of
from penstock.telemetry import quiet


def working() -> ProcessStatus:
    host, pid = this_machine()
    return ProcessStatus(
        kind="work", name="0", host=host, pid=pid, folder="/data", started_ms=1, at_ms=5,
        state="running", doing="", last_data_ms=4, identity=identity_of(pid),
    )  # fmt: skip


def own() -> SeenProcess:
    return SeenProcess("up", replace(working(), kind="up", name="up"), 0)


def child(pid: int = 0) -> Child:
    found = Child(ChildPlan("work:0", "work", ("work",)), Rules(), lambda: 0.5, quiet)
    found.start(0)
    found.started(pid or os.getpid(), 0)
    return found


def seen(status: ProcessStatus, silent_ms: int = 0) -> SeenProcess:
    return SeenProcess(status.name, status, silent_ms)


def test_the_latest_status_of_a_process_counts() -> None:
    before = seen(replace(working(), at_ms=3, state="starting", last_data_ms=None), 2)

    assert statuses_of([child()], [seen(working()), before, own()]) == {"work:0": Seen(5, True, 4)}


def test_a_status_of_another_process_with_the_same_id_is_not_its_own() -> None:
    others = [
        replace(working(), identity="boot/pid:[1]/99"),
        replace(working(), host="another"),
        replace(working(), kind="keep"),
    ]

    assert statuses_of([child()], [*map(seen, others), own()]) == {}


def test_a_store_that_is_not_written_tells_nothing() -> None:
    assert statuses_of([child()], [seen(working())]) is None
    full = [seen(working(), GONE_MS + 1), own()._replace(silent_ms=GONE_MS + 1)]
    assert statuses_of([child()], full) is None
