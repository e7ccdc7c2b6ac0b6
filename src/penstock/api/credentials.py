"""Checks the tokens and sessions that requests have.

Tokens are compared in constant time, and clients that send wrong ones have to wait (``logins.py``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from math import ceil
from typing import Any

from penstock.api.logins import Logins
from penstock.api.problems import Problem, plain_problem
from penstock.api.sessions import AccessScope, Sessions, session_id
from penstock.clock import Clock
from penstock.telemetry import Listener
from penstock.web.facts import LoginFailed

READS = {"GET", "HEAD", "OPTIONS"}
"""The methods that need no more than the scope ``read``."""
READ_ONLY = (
    "This token may only read (GET): it cannot create, change or delete anything."
    " Send the token of api.token instead."
)
_READ_ONLY_SESSION = (
    "This session may only read: it cannot create, change or delete anything."
    " Log in with the token of api.token instead."
)
_EXTENSION = "penstock.access"
_CHECK_S = 0.5
_CONSOLE = "x-penstock-console"
"""A header that pages of other origins cannot send. Changes with a cookie need it."""


@dataclass(frozen=True)
class Granted:
    """What a request may do."""

    scope: AccessScope
    in_session: bool = False
    is_valid: Callable[[], bool] = lambda: True
    """Whether it still may; a session can end while a WebSocket is open."""

    async def until_ended(self, clock: Clock) -> None:
        """Return when it may no more."""
        while self.is_valid():
            await clock.sleep(_CHECK_S)


@dataclass(frozen=True)
class Tokens:
    """The tokens of the settings; empty where there is none."""

    control: bytes
    read: bytes

    @property
    def are_needed(self) -> bool:
        """Whether clients must send one."""
        return bool(self.control or self.read)


class Credentials:
    """The tokens and sessions of one server."""

    def __init__(self, tokens: Tokens, session_s: float, clock: Clock, listener: Listener) -> None:
        self._tokens, self._listener = tokens, listener
        self._logins = Logins(clock)
        self.session_s = session_s
        self.sessions = Sessions(clock, session_s)

    @property
    def are_needed(self) -> bool:
        """Whether clients must send a token or log in."""
        return self._tokens.are_needed

    def wait_s(self, client: str) -> int:
        """Return the whole seconds until a token from a client is checked."""
        return ceil(self._logins.wait_s(client))

    def check_token(self, client: str, token: str, scheme: str = "bearer") -> AccessScope | Problem:
        """Return what a token permits, or why it is rejected."""
        if self._logins.wait_s(client):
            return plain_problem(429, "Too many wrong tokens from this address. Wait, then retry.")
        # Both are compared, so that the time does not show which one it is.
        given = token.encode("utf-8", "surrogatepass")
        controls = compare_digest(given, self._tokens.control)
        reads = compare_digest(given, self._tokens.read)
        if token and scheme == "bearer" and controls:
            self._logins.succeeded(client)
            return "control"
        if token and scheme == "bearer" and reads:
            # Wrong tokens stay counted: else its clients could guess the other token without delay.
            return "read"
        self._listener(LoginFailed(client=client, times=self._logins.failed(client)))
        return plain_problem(401, "The token is wrong. Send: Authorization: Bearer …")

    def check(self, client: str, headers: Mapping[str, str]) -> Granted | Problem:
        """Return what a request may do, or why it is rejected."""
        if not self.are_needed:
            return Granted("control")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if token := given.strip():
            scope = self.check_token(client, token, scheme.lower())
            return scope if isinstance(scope, Problem) else Granted(scope)
        id_ = session_id(headers)
        if id_ is None:
            return plain_problem(401, "The token is missing. Send: Authorization: Bearer …")
        session = self.sessions.find(id_)
        if session is None:
            return plain_problem(401, "The session has ended. Log in again.")
        return Granted(session.scope, True, lambda: self.sessions.find(id_) is not None)


def refusal_of(granted: Granted, method: str, headers: Mapping[str, str]) -> Problem | None:
    """Return why a request is rejected that was granted access; None if it is not."""
    if method in READS:
        return None
    if granted.scope == "read":
        return plain_problem(403, _READ_ONLY_SESSION if granted.in_session else READ_ONLY)
    if granted.in_session and headers.get(_CONSOLE) != "1":
        return plain_problem(403, "Changes with a cookie need the header X-Penstock-Console: 1.")
    return None


def granting(scope: Mapping[str, Any], granted: Granted) -> dict[str, Any]:
    """Return the scope of a request with what it may do."""
    return {**scope, "extensions": {**scope.get("extensions", {}), _EXTENSION: granted}}


def granted_to(scope: Mapping[str, Any]) -> Granted:
    """Return what a request may do."""
    granted: Granted = scope["extensions"][_EXTENSION]
    return granted
