"""Routes for what a fleet does now: connections, rate limits and logs."""

from litestar import Response, get

from penstock.api.app_state import GivenState, json_answer
from penstock.monitor.connections import connections
from penstock.monitor.limits import limits


@get("/connections")
async def connected(app_state: GivenState) -> Response[bytes]:
    """List the stream connections of all processes, with their latest events."""
    return json_answer(await connections(app_state.store))


@get("/limits")
async def limited(app_state: GivenState) -> Response[bytes]:
    """List the usage of all rate limits, the exchanges' stops and the circuit breakers."""
    return json_answer(await limits(app_state.store, app_state.connectors))


ROUTES = [connected, limited]
