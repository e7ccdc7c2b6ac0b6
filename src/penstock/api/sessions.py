"""Sessions of browsers: a cookie in place of a token.

A session's id is random and is kept only as a hash. Sessions are in memory, so they end when the
server is started again, as it is for a new token. Their number is bounded: the oldest is removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe
from typing import Literal

from penstock.clock import Clock

_COOKIE = "penstock_session"
MOST_SESSIONS = 1024
SESSION_ENDED = 4401
"""The code with which WebSockets are closed that a session opened."""
_ID_BYTES = 32

AccessScope = Literal["read", "control"]
"""What a client may do: read, or also change things."""


@dataclass(frozen=True)
class Session:
    """A browser that sent a valid token."""

    scope: AccessScope
    until_ns: int
    """When it expires, on the monotonic clock."""


class Sessions:
    """The sessions of one server."""

    def __init__(self, clock: Clock, lifetime_s: float) -> None:
        self._clock, self._lifetime_ns = clock, round(lifetime_s * 1_000_000_000)
        self._by_hash: dict[bytes, Session] = {}
        """By the hash of its id, the oldest first."""

    def __len__(self) -> int:
        return len(self._by_hash)

    def open(self, scope: AccessScope) -> str:
        """Begin a session; return its id."""
        while len(self._by_hash) >= MOST_SESSIONS:
            del self._by_hash[next(iter(self._by_hash))]
        id_ = token_urlsafe(_ID_BYTES)
        until_ns = self._clock.monotonic_ns() + self._lifetime_ns
        self._by_hash[_hash(id_)] = Session(scope, until_ns)
        return id_

    def find(self, id_: str) -> Session | None:
        """Return a session; None if it never began, has ended or has expired."""
        found = self._by_hash.get(_hash(id_))
        if found is not None and found.until_ns <= self._clock.monotonic_ns():
            self.end(id_)
            return None
        return found

    def end(self, id_: str) -> None:
        """End a session, if there is one."""
        self._by_hash.pop(_hash(id_), None)


def cookie_name(host: str) -> str:
    """Return the name of the cookie for a Host header.

    Browsers send the cookies of a host to all its ports, so the port is in the name: else a login
    at one server would replace the session of another one on the same host.
    """
    port = host.rpartition(":")[2]
    return f"{_COOKIE}_{port}" if port.isdecimal() else _COOKIE


def session_id(headers: Mapping[str, str]) -> str | None:
    """Return the id that a request has in its cookie."""
    wanted = cookie_name(headers.get("host", ""))
    for each in headers.get("cookie", "").split(";"):
        name, _, value = each.strip().partition("=")
        if name == wanted and value:
            return value
    return None


def session_cookie(host: str, id_: str, lifetime_s: float, *, secure: bool) -> str:
    """Return the value of Set-Cookie for a session; an empty id removes the cookie."""
    limits = f"Path=/api/v1; Max-Age={round(lifetime_s)}; HttpOnly; SameSite=Strict"
    return f"{cookie_name(host)}={id_}; {limits}{'; Secure' if secure else ''}"


def _hash(id_: str) -> bytes:
    return sha256(id_.encode("utf-8", "surrogateescape")).digest()
