"""Runs all checks at the same time, each within its time limit."""

import asyncio
from collections.abc import Sequence

from penstock.doctor.backups import check_backup
from penstock.doctor.exchanges import check_exchanges
from penstock.doctor.fleet import (
    check_budgets,
    check_live_store,
    check_locks,
    check_processes,
    read_fleet,
)
from penstock.doctor.folder import check_partial_files, check_permissions
from penstock.doctor.machine import check_hot_path, check_python, check_space, check_syncs
from penstock.doctor.model import Check, Finding, Subject, problem
from penstock.doctor.ports import check_ports

CHECKS: dict[str, Check] = {
    "python": check_python,
    "hot path": check_hot_path,
    "disk": check_space,
    "fsync": check_syncs,
    "permissions": check_permissions,
    "partial files": check_partial_files,
    "ports": check_ports,
    "live values": check_live_store,
    "processes": check_processes,
    "locks": check_locks,
    "budget": check_budgets,
    "exchange": check_exchanges,
    "backup": check_backup,
}
"""By name, in the order in which they are shown."""

TIMEOUT_S = 15.0


async def examine(subject: Subject, timeout_s: float = TIMEOUT_S) -> list[Finding]:
    """Run all checks. Without names, the exchanges of the settings and connectors are checked."""
    try:
        async with asyncio.timeout(timeout_s):
            fleet, stored = await read_fleet(subject)
    except TimeoutError:
        fleet, stored = None, _late("state store", timeout_s)
    names = subject.exchanges or exchanges_of(subject._replace(fleet=fleet))
    subject = subject._replace(fleet=fleet, exchanges=names)
    found = await asyncio.gather(
        *(_in_time(name, check, subject, timeout_s) for name, check in CHECKS.items())
    )
    return [stored, *(finding for findings in found for finding in findings)]


def exchanges_of(subject: Subject) -> tuple[str, ...]:
    """The exchanges that the settings and the state store name."""
    up = subject.settings.up
    fleet = subject.fleet.connectors if subject.fleet is not None else ()
    names = (
        *up.exchanges,
        *up.per_exchange,
        *subject.settings.connectors,
        *(each.exchange_id for each in fleet),
    )
    return tuple(dict.fromkeys(names))


async def _in_time(
    name: str, check: Check, subject: Subject, timeout_s: float
) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(timeout_s):
            return list(await check(subject))
    except TimeoutError:
        return [_late(name, timeout_s)]
    except Exception as error:
        # Whatever it is: the other checks are shown.
        words = f"the check failed: {type(error).__name__}: {error}"
        return [problem(name, words, "Report it as a bug if the message does not say why.")]


def _late(name: str, timeout_s: float) -> Finding:
    words = f"no result within {timeout_s:g} s"
    return problem(name, words, "A disk or a server hangs, or the machine is overloaded.")
