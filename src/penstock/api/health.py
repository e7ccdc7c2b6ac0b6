"""Routes for liveness, readiness and metrics."""

from typing import Literal

from litestar import Response, get
from msgspec import Struct

from penstock.api.app_state import GivenState, json_answer
from penstock.connectors.counters import fleet_counters
from penstock.errors import StorageError
from penstock.stats.metrics import CONTENT_TYPE, fleet_text, store_text

_MOST_CONNECTORS = 1000


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
    try:
        connectors = await app_state.connectors.find(limit=_MOST_CONNECTORS)
        fleet = fleet_text(
            connectors, await app_state.job_service.counts(), await fleet_counters(app_state.store)
        )
    except StorageError:
        fleet = None
    text = app_state.metrics.text() + (fleet or b"") + store_text(up=fleet is not None)
    return Response(text, media_type=CONTENT_TYPE)


ROUTES = [alive, ready, metrics]
