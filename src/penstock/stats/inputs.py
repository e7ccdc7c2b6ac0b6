"""Reads from the state store what the rules of alerts judge."""

from collections.abc import Sequence

from penstock.backup.outcome import read_outcomes
from penstock.config import Alerts
from penstock.connectors.breaker import all_breakers
from penstock.connectors.manager import ConnectorManager
from penstock.coverage.model import GapRow, as_gap
from penstock.runtime.status import read_processes
from penstock.stats.conditions import Inputs, StartCounter
from penstock.stats.statistics import read_statistics
from penstock.storage.state import StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import GAPS

MOST_GAPS = 1000
_MOST_CONNECTORS = 1000


async def read_inputs(store: StateStore, settings: Alerts, starts: StartCounter) -> Inputs:
    """All that the rules judge, as it is now.

    Raises:
        StorageError: the state store does not answer.
    """
    now_ms, processes = await store.now_ms(), await read_processes(store)
    return Inputs(
        now_ms,
        settings,
        processes,
        await open_gaps(store),
        await ConnectorManager(store).find(limit=_MOST_CONNECTORS),
        await all_breakers(store),
        await read_statistics(store),
        await read_outcomes(store),
        starts=starts.observe(processes, now_ms),
    )


async def open_gaps(store: StateStore) -> Sequence[GapRow]:
    """The open gaps, at most ``MOST_GAPS``.

    Raises:
        StoreUnreachable: the store does not answer.
    """
    query = [[Condition("state", "=", "open")]]
    return [as_gap(each) for each in await store.find(GAPS, query, limit=MOST_GAPS)]
