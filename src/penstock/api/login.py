"""Routes to log in and out: a browser sends a token once, and has a session from then on."""

from collections.abc import Mapping
from typing import Annotated

from litestar import Response, delete, get, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import SkipValidation
from msgspec import Meta, Struct

from penstock.api.app_state import json_answer
from penstock.api.credentials import Credentials
from penstock.api.problems import AnyRequest, Problem
from penstock.api.reading import body_of
from penstock.api.sessions import AccessScope, session_cookie, session_id

PATH = "/session"
GivenCredentials = NamedDependency[SkipValidation[Credentials]]


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to begin a session with."""

    token: Annotated[str, Meta(min_length=1, max_length=1000)]
    """``api.token``, or ``api.read_token`` for a session that may only read."""


class SessionView(Struct, frozen=True, kw_only=True):
    """What the client may do."""

    needed: bool
    """Whether the server needs a token or a session."""
    scope: AccessScope | None
    """None: the client has to log in."""


@get(PATH)
async def shown(request: AnyRequest, credentials: GivenCredentials) -> Response[bytes]:
    """Show whether a login is needed, and what the client may do."""
    scope: AccessScope | None = None
    if not credentials.are_needed or _has_credentials(request.headers):
        granted = credentials.check(client_of(request), request.headers)
        scope = None if isinstance(granted, Problem) else granted.scope
    return json_answer(SessionView(needed=credentials.are_needed, scope=scope))


@post(PATH, status_code=204)
async def begun(request: AnyRequest, credentials: GivenCredentials) -> Response[None]:
    """Log in: begin a session, whose id is set as a cookie."""
    login = await body_of(request, Login)
    if not credentials.are_needed:
        return Response(None, status_code=204)
    client = client_of(request)
    scope = credentials.check_token(client, login.token)
    if isinstance(scope, Problem):
        wait = {"Retry-After": str(max(1, credentials.wait_s(client)))}
        raise HTTPException(
            detail="The token is wrong." if scope.status == 401 else scope.detail,
            status_code=scope.status,
            headers=wait if scope.status == 429 else {},
        )
    if known := session_id(request.headers):
        credentials.sessions.end(known)
    id_ = credentials.sessions.open(scope)
    return _answer(request, id_, credentials.session_s)


@delete(PATH, status_code=204)
async def ended(request: AnyRequest, credentials: GivenCredentials) -> Response[None]:
    """Log out: end the session of the cookie, if it has one."""
    if known := session_id(request.headers):
        credentials.sessions.end(known)
    return _answer(request, "", 0)


ROUTES = [shown, begun, ended]


def client_of(request: AnyRequest) -> str:
    """Return the address of a client."""
    return request.client.host if request.client else ""


def _has_credentials(headers: Mapping[str, str]) -> bool:
    return "authorization" in headers or session_id(headers) is not None


def _answer(request: AnyRequest, id_: str, lifetime_s: float) -> Response[None]:
    # The server itself has no TLS; a page that was loaded through a proxy with TLS says so.
    secure = request.headers.get("origin", "").lower().startswith("https:")
    host = request.headers.get("host", "")
    cookie = session_cookie(host, id_, lifetime_s, secure=secure)
    return Response(None, status_code=204, headers={"Set-Cookie": cookie})
