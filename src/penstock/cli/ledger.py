"""Reads the ledger for commands: from the state store, and from the log of the data folder."""

import asyncio
from collections.abc import Collection
from functools import cache

from penstock.cli.options import note
from penstock.clock import SystemClock
from penstock.config import Settings
from penstock.coverage.reading import Ledger, caught_up, read_ledger
from penstock.errors import MissingExtra, StorageError, UnknownExchange
from penstock.exchanges import registry
from penstock.publish.endpoints import find_log_id
from penstock.runtime.stores import configured_log, open_state


def stored_ledger(settings: Settings) -> Ledger:
    """What the state store says; empty, with a note, if it cannot be read."""
    try:
        return asyncio.run(_read(settings))
    except StorageError as error:
        note(f"penstock: coverage and gaps in the state store are left out: {error}")
        return Ledger([], [])


async def _read(settings: Settings) -> Ledger:
    async with open_state(settings, SystemClock(), read_only=True) as store:
        return await read_ledger(store)


def whole_ledger(settings: Settings) -> Ledger:
    """What the state store says, and what the local log holds beyond that."""
    ledger, log = stored_ledger(settings), configured_log(settings)
    if log.folder is None or not (log.folder / "log").is_dir():
        return ledger
    log_id = find_log_id(log.folder) or 0
    found = caught_up(ledger, log, log_id, consecutive)
    if found.skipped:
        note(f"penstock: {len(found.skipped)} streams are not read up to their end, start penstock")
    return found.ledger


@cache
def consecutive(exchange: str) -> Collection[str]:
    """The channels of an exchange whose ids are consecutive."""
    try:
        return registry.load(exchange).consecutive
    except (UnknownExchange, MissingExtra):
        return ()
