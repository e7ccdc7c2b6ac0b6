"""Routes for circuit breakers, one per connector."""

from typing import Literal

from litestar import Response, get, post
from litestar.params import FromPath
from msgspec import Struct

from penstock.api.app_state import GivenState, json_answer
from penstock.api.problems import AnyRequest
from penstock.api.reading import body_of
from penstock.api.views import breaker_view


class BreakerOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that forces a circuit breaker."""

    force: Literal["open", "closed"] | None
    """None makes it automatic again."""


@get("/connectors/{exchange_id:str}/breaker")
async def shown(app_state: GivenState, exchange_id: FromPath[str]) -> Response[bytes]:
    """Show the circuit breaker of an exchange."""
    breaker = await app_state.connectors.breaker(exchange_id)
    return json_answer(breaker_view(exchange_id, breaker))


@post("/connectors/{exchange_id:str}/breaker")
async def forced(
    request: AnyRequest, app_state: GivenState, exchange_id: FromPath[str]
) -> Response[bytes]:
    """Keep the circuit breaker of an exchange open or closed, or make it automatic again."""
    order = await body_of(request, BreakerOrder)
    breaker = await app_state.connectors.force_breaker(exchange_id, order.force)
    return json_answer(breaker_view(exchange_id, breaker))


ROUTES = [shown, forced]
