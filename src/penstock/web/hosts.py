"""Host headers: whether a client asked for this server, or for a name that was made to point here.

A page in a browser can reach a server on this machine under a name of its own. Such a request names
that host, so every server here looks at the Host header.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from penstock.web.asgi import Application

_EVERY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 (compared with, not bound to)
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Hosts:
    """The names under which a server may be asked."""

    names: frozenset[str]
    any_address: bool
    """Whether every numeric address is one of ours; a name never is unless it is listed."""

    def accept(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = _name_of(host)
        if name is None:
            return False
        return name in self.names or (self.any_address and _is_address(name))


def hosts_of(host: str, further: Iterable[str]) -> Hosts:
    """Those of a server that listens on ``host``, with the names an operator lists."""
    names = {*_LOCAL_NAMES, host, *further}
    return Hosts(frozenset(name.lower().strip("[]") for name in names), host in _EVERY_ADDRESS)


def only_for(hosts: Hosts, inner: Application, setting: str) -> Application:
    """An application that sees only what was asked of this server; ``setting`` lists its names."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(named) == 1 and hosts.accept(named[0]):
            await inner(scope, receive, send)
            return
        said = (
            f"This server is not {', '.join(named)!r}. List the name in {setting} if it should be."
        )
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": 421, "headers": headers})
        await send({"type": "http.response.body", "body": f"{said}\n".encode()})

    return checked


def is_local(host: str) -> bool:
    """Whether only programs on this machine reach what listens there."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _name_of(host: str) -> str | None:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
