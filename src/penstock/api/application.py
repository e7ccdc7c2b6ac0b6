"""Builds the application from its routes, exception handlers and access checks."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, cast

import msgspec
from litestar import Litestar, Response, Router, get, route
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from penstock.api import (
    breakers,
    connectors,
    coverage,
    data,
    fleet,
    health,
    jobs,
    live,
    locks,
    login,
    market,
    markets,
    monitoring,
    observing,
    ticks,
)
from penstock.api.access import LARGEST_BODY_BYTES, AccessPolicy, AccessRules, Page
from penstock.api.app_state import PREFIX, AppState
from penstock.api.credentials import Credentials
from penstock.api.document import document
from penstock.api.problems import AnyRequest, exception_handlers
from penstock.clock import Clock
from penstock.telemetry import Listener


@get("/openapi.json")
async def described() -> Response[bytes]:
    """Return the OpenAPI description."""
    return Response(_description(), media_type="application/json")


@cache
def _description() -> bytes:
    # Cached: building it takes as long as answering a hundred requests.
    return msgspec.json.encode(document())


def _options_handlers(handlers: Iterable[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """Return handlers for OPTIONS; the framework's own lists the methods of one handler only."""
    methods: dict[str, set[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            named = methods.setdefault(path, {"OPTIONS"})
            named.update(map(str, handler.http_methods))
            if "GET" in named:
                named.add("HEAD")
    return [_answering(path, ", ".join(sorted(named))) for path, named in methods.items()]


def _answering(path: str, allowed: str) -> HTTPRouteHandler:
    @route(path, http_method=["OPTIONS"], status_code=204)
    async def answer() -> Response[None]:
        return Response(None, headers={"Allow": allowed})

    return answer


class _Served(NamedTuple):
    """What one server's routes receive."""

    app_state: AppState
    credentials: Credentials
    listener: Listener


_SERVED = "penstock.served"
"""The key of ``_Served`` in a request's scope."""


async def _provide_app_state(scope: Scope) -> AppState:
    return _served(scope).app_state


async def _provide_credentials(scope: Scope) -> Credentials:
    return _served(scope).credentials


async def _provide_listener(scope: Scope) -> Listener:
    return _served(scope).listener


def _served(scope: Mapping[str, Any]) -> _Served:
    served: _Served = scope[_SERVED]
    return served


def _reporting(request: AnyRequest) -> tuple[Clock, Listener]:
    served = _served(request.scope)
    return served.app_state.clock, served.listener


@cache
def routes() -> Litestar:
    """Return the routes, without the access checks.

    Built once per process, because that takes a tenth of a second: what a server's routes receive
    is in the scope of its requests.
    """
    modules = (
        connectors, breakers, jobs, locks, market, markets, ticks, data, monitoring, fleet,
        observing, coverage, login, live,
    )  # fmt: skip
    inside = [*(each for module in modules for each in module.ROUTES), described]
    return Litestar(
        [
            *_options_handlers(health.ROUTES),
            *health.ROUTES,
            Router(PREFIX, route_handlers=[*_options_handlers(inside), *inside]),
        ],
        dependencies={
            "app_state": Provide(_provide_app_state),
            "credentials": Provide(_provide_credentials),
            "listener": Provide(_provide_listener),
        },
        exception_handlers=exception_handlers(_reporting),
        openapi_config=None,
        logging_config=None,
        request_max_body_size=LARGEST_BODY_BYTES,
    )


def build_application(
    app_state: AppState, rules: AccessRules, listener: Listener, page: Page | None = None
) -> ASGIApp:
    """Return the whole API, and a page beside it, as an ASGI application."""
    clock = app_state.clock
    credentials = Credentials(rules.tokens, rules.session_s, clock, listener)
    application, served = routes(), _Served(app_state, credentials, listener)

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        await application(cast(Scope, {**scope, _SERVED: served}), receive, send)

    return AccessPolicy(inner, rules, credentials, clock, listener, page)
