"""Routes for circuit breakers, one per connector."""

from typing import Literal

from litestar import Response, get, post
from litestar.params import FromPath
from msgspec import Struct

from penstock.api.app_state import GivenState, json_answer
from penstock.api.problems import AnyRequest
from penstock.api.reading import body_of
from penstock.api.views import Date, date
from penstock.resilience.breaker import Breaker


class TransitionView(Struct, frozen=True, kw_only=True):
    """A change of a circuit breaker."""

    at: Date
    to: Literal["closed", "open", "half_open", "forced open", "forced closed", "automatic"]
    reason: str


class BreakerView(Struct, frozen=True, kw_only=True):
    """The circuit breaker of an exchange, shared by all processes."""

    exchange_id: str
    state: Literal["closed", "open", "half_open"]
    forced: Literal["open", "closed"] | None
    """An operator's order, which replaces the state."""
    reason: str | None
    """Why it was opened last."""
    retry_at: int | None
    """When the next probe may be sent, in milliseconds, if it is open."""
    probe_by: str | None
    """The process that probes the exchange now."""
    failures_in_a_row: int
    transitions: tuple[TransitionView, ...]
    """The latest changes, the newest last."""


class BreakerOrder(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request that forces a circuit breaker."""

    force: Literal["open", "closed"] | None
    """None makes it automatic again."""


def breaker_view(exchange_id: str, breaker: Breaker) -> BreakerView:
    """Return a circuit breaker in the API's form."""
    return BreakerView(
        exchange_id=exchange_id,
        state=breaker.phase,
        forced=breaker.forced,
        reason=breaker.reason or None,
        retry_at=breaker.retry_at_ms if breaker.phase == "open" else None,
        probe_by=breaker.probe_by or None,
        failures_in_a_row=breaker.tally.in_a_row,
        transitions=tuple(
            TransitionView(at=date(each.at_ms), to=each.to, reason=each.reason)
            for each in breaker.transitions
        ),
    )


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
