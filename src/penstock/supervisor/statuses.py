"""Finds the statuses of supervised processes among all that a store has. Pure but for /proc."""

from collections.abc import Iterable, Sequence

from penstock.runtime.identity import identity_of
from penstock.runtime.status import GONE_MS, SeenProcess, this_machine
from penstock.supervisor.child import Child
from penstock.supervisor.model import Seen


def statuses_of(children: Iterable[Child], seen: Sequence[SeenProcess]) -> dict[str, Seen] | None:
    """The latest status of each process that runs, by name; None if the store takes none.

    A store that can be read but not written, as on a full disk, makes all processes look hung. It
    is known by the supervisor's own status, which is not written then either.
    """
    host, own_pid = this_machine()
    latest = {
        (each.status.kind, each.status.pid): each
        for each in sorted(seen, key=lambda each: each.status.at_ms)
        if each.status.host == host
    }
    own = latest.get(("up", own_pid))
    if own is None or own.silent_ms > GONE_MS:
        return None
    found: dict[str, Seen] = {}
    for child in children:
        each = latest.get((child.plan.kind, child.pid)) if child.pid else None
        # In a container, a process may have the id of one that ended before a restart.
        if each is not None and each.status.identity == identity_of(each.status.pid):
            status = each.status
            is_running = status.state == "running"
            found[child.plan.name] = Seen(status.at_ms, is_running, status.last_data_ms)
    return found
