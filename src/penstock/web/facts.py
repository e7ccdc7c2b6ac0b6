"""Facts about the requests that a server answers."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class RequestServed(Fact, frozen=True, kw_only=True):
    """The API answered a request."""

    method: str
    path: str
    status: int
    took_ms: int

    def logged_at(self) -> Level:
        return "error" if self.status >= 500 else self.level


class LoginFailed(Fact, frozen=True, kw_only=True):
    """A client sent the API a wrong token, ``times`` times in a row from this address."""

    level: ClassVar[Level] = "warning"

    client: str
    times: int


class RequestCrashed(Fact, frozen=True, kw_only=True):
    """The API failed with an unexpected error; the client received only this ``id``."""

    level: ClassVar[Level] = "error"

    id: str
    method: str
    path: str
    error: str
