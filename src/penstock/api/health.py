"""Routes for liveness, readiness and metrics."""

import asyncio
from contextlib import suppress
from typing import Literal

from litestar import Response, get
from msgspec import Struct

from penstock.api.app_state import AppState, GivenState, json_answer
from penstock.backup.outcome import read_outcomes
from penstock.connectors.breaker import all_breakers
from penstock.connectors.counters import fleet_counters
from penstock.errors import StorageError
from penstock.runtime.status import SeenProcess, read_processes
from penstock.stats.alert_store import read_alerts
from penstock.stats.fleet_metrics import FLEET_FAMILIES, fleet_text, store_text
from penstock.stats.inputs import open_gaps
from penstock.stats.merging import ProcessText, merge
from penstock.stats.metrics import CONTENT_TYPE
from penstock.stats.scraping import processes_text

_MOST_CONNECTORS = 1000
_STORE_S = 5.0
"""Time for the state store: Prometheus gives up after ten seconds."""


class Health(Struct, frozen=True):
    """The state of the server."""

    status: Literal["alive", "ready"]


@get("/healthz")
async def alive() -> Response[bytes]:
    """Report that the server is running."""
    return json_answer(Health("alive"))


@get("/readyz")
async def ready(app_state: GivenState) -> Response[bytes]:
    """Report whether the state store answers and has a supported version."""
    await app_state.store.check()
    return json_answer(Health("ready"))


@get("/metrics")
async def metrics(app_state: GivenState) -> Response[bytes]:
    """Return metrics in Prometheus format, also while the state store does not answer."""
    fleet: bytes | None = None
    seen: list[SeenProcess] | None = None
    with suppress(StorageError, TimeoutError):
        async with asyncio.timeout(_STORE_S):
            fleet = await fleet_metrics(app_state)
            seen = await read_processes(app_state.store)
    own, shared = app_state.metrics.text(), [fleet or b"", store_text(up=fleet is not None)]
    if app_state.scraper is None:
        return Response(own + b"".join(shared), media_type=CONTENT_TYPE)
    scraped = await app_state.scraper.scrape(seen)
    texts = [ProcessText("", text) for text in (*shared, processes_text(scraped))]
    texts += [ProcessText(scraped.own, own), *scraped.texts]
    # In a thread: of many processes it takes a while, and others are served meanwhile.
    merged = await asyncio.to_thread(merge, texts, FLEET_FAMILIES)
    return Response(merged, media_type=CONTENT_TYPE)


async def fleet_metrics(app_state: AppState) -> bytes:
    """The metrics of what all processes share.

    Raises:
        StorageError: the state store does not answer.
    """
    store = app_state.store
    connectors = await app_state.connectors.find(limit=_MOST_CONNECTORS)
    jobs, counters = await app_state.job_service.counts(), await fleet_counters(store)
    return fleet_text(
        connectors,
        jobs,
        counters,
        gaps=await open_gaps(store),
        breakers=await all_breakers(store),
        backups=await read_outcomes(store),
        alerts=(await read_alerts(store)).values(),
    )


ROUTES = [alive, ready, metrics]
