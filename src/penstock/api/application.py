"""Builds the application from its routes, exception handlers and access checks."""

from collections.abc import Iterable
from functools import cache

import msgspec
from litestar import Litestar, Response, Router, get, route
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

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
from penstock.api.problems import exception_handlers
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


def routes_of(app_state: AppState, credentials: Credentials, listener: Listener) -> Litestar:
    """Return the routes, without the access checks."""

    async def provide() -> AppState:
        return app_state

    async def provide_credentials() -> Credentials:
        return credentials

    async def provide_listener() -> Listener:
        return listener

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
            "app_state": Provide(provide),
            "credentials": Provide(provide_credentials),
            "listener": Provide(provide_listener),
        },
        exception_handlers=exception_handlers(app_state.clock, listener),
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
    routes = routes_of(app_state, credentials, listener)
    return AccessPolicy(routes, rules, credentials, clock, listener, page)
