"""Checks of what all processes share: stores, budgets, locks, and the processes themselves."""

from collections.abc import Iterable

from penstock.connectors import ConnectorManager
from penstock.connectors.model import Connector
from penstock.doctor.model import Finding, Fleet, Subject, ok, problem, warning
from penstock.errors import PenstockError, mask_urls
from penstock.jobs.product_locks import held_locks
from penstock.live import is_there, live_url
from penstock.runtime.identity import identity_of
from penstock.runtime.status import SeenProcess, read_processes, this_machine
from penstock.runtime.stores import open_state, state_url
from penstock.storage.cache import open_live_store

_LOW = 0.1
_MOST = 1000


async def read_fleet(subject: Subject) -> tuple[Fleet | None, Finding]:
    """What the state store says, and whether it can be read. Nothing is created or changed."""
    settings = subject.settings
    try:
        async with open_state(settings, subject.clock, read_only=True) as store:
            fleet = Fleet(
                await ConnectorManager(store).find(limit=_MOST),
                await held_locks(store),
                await read_processes(store),
                await store.now_ms(),
            )
    except PenstockError as error:
        remedy = "Start the server of state.url, or correct it; see docs/state.md."
        return None, problem("state store", str(error), remedy)
    url = state_url(settings)
    words = f"{mask_urls(url)} can be read" if is_there(url) else "there is none yet"
    return fleet, ok("state store", words)


async def check_live_store(subject: Subject) -> Iterable[Finding]:
    """Whether the store of live values answers."""
    settings = subject.settings
    if not is_there(live_url(settings)):
        return [ok("live values", "there are none yet")]
    try:
        store = await open_live_store(live_url(settings), timeout_s=settings.live.timeout)
    except PenstockError as error:
        remedy = "Start the server of live.url, or correct it; see docs/live.md."
        return [problem("live values", str(error), remedy)]
    await store.close()
    return [ok("live values", f"{store.where} answers")]


def headroom(fleet: Fleet | None, exchange: str) -> float:
    """The share of an exchange's limits that is left: the least of all; 0 during a stop."""
    for each in fleet.connectors if fleet is not None else ():
        if each.exchange_id == exchange:
            return _left(each)
    return 1.0


def _left(connector: Connector) -> float:
    if connector.blocked_until is not None or connector.status != "active":
        return 0.0
    shares = (1 - each.used / (each.burst or each.amount) for each in connector.limits)
    return max(min(shares, default=1.0), 0.0)


async def check_budgets(subject: Subject) -> Iterable[Finding]:
    """How much of each exchange's limits is left now."""
    return [_budget(each) for each in (subject.fleet or Fleet()).connectors]


def _budget(connector: Connector) -> Finding:
    name, left = connector.exchange_id, _left(connector)
    if connector.blocked_until is not None:
        why = f": {connector.blocked_by.words}" if connector.blocked_by is not None else ""
        words = f"{name} has ordered a stop{why}"
        return problem("budget", words, f"Wait for its end; see: penstock connectors show {name}")
    if connector.status == "paused":
        return warning("budget", f"{name} is paused", f"penstock connectors resume {name}")
    if left < _LOW and not connector.active_jobs_count:
        words = f"{name}: {left:.0%} of its limits is left, though no job runs"
        remedy = "Fetch less often, or see who else sends from this address; docs/connectors.md."
        return warning("budget", words, remedy)
    return ok("budget", f"{name}: {left:.0%} of its limits is left")


async def check_locks(subject: Subject) -> Iterable[Finding]:
    """Whether a product is locked by a worker of this machine that has ended."""
    if subject.fleet is None:
        return []
    stale = [each for each in subject.fleet.locks if _holder_ended(each.holder)]
    if not stale:
        return [ok("locks", f"{len(subject.fleet.locks):,} held, none of them stale")]
    return [
        warning(
            "locks",
            f"{each.id} is held by {each.holder}, which has ended",
            f"It is free when the lease of its job ends, or by: penstock jobs unlock {each.id}",
        )
        for each in stale
    ]


def _holder_ended(holder: str) -> bool:
    """Whether a holder, ``HOST/SLOT/PID``, was a process of this machine that does not run."""
    host, pid = holder.partition("/")[0], holder.rpartition("/")[2]
    return host == this_machine()[0] and pid.isdigit() and not identity_of(int(pid))


async def check_processes(subject: Subject) -> Iterable[Finding]:
    """Whether every process that should run does."""
    if subject.fleet is None:
        return []
    bad = [each for each in subject.fleet.processes if each.gone or each.status.state == "failed"]
    if not bad:
        running = [each for each in subject.fleet.processes if each.status.state == "running"]
        return [ok("processes", f"{len(running):,} running")]
    return [_process(each) for each in bad]


def _process(seen: SeenProcess) -> Finding:
    status = seen.status
    how = "is gone: it ended without stopping, or hangs" if seen.gone else "has failed"
    why = f": {status.problems[0]}" if status.problems else ""
    words = f"{status.name} on {status.host} {how}{why}"
    return problem("processes", words, f"Start it again: penstock {status.kind}")
