"""Checks Host headers against the names of this server, as protection from DNS rebinding.

A page in a browser can reach a server on this machine under a name that resolves to it. Such a
request has that name in its Host header, so every server here checks it.
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
    """The host names that a server accepts."""

    names: frozenset[str]
    any_address: bool
    """Whether all numeric addresses are accepted; names are accepted only if listed."""

    def accept(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = _name_of(host)
        if name is None:
            return False
        return name in self.names or (self.any_address and _is_address(name))


def hosts_of(host: str, further: Iterable[str]) -> Hosts:
    """Return the hosts of a server that listens on ``host``, and those that an operator lists."""
    names = {*_LOCAL_NAMES, host, *further}
    return Hosts(frozenset(name.lower().strip("[]") for name in names), host in _EVERY_ADDRESS)


def only_for(hosts: Hosts, inner: Application, setting: str) -> Application:
    """Return an application that rejects other hosts; ``setting`` is where names are listed."""

    async def checked(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        named = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(named) == 1 and hosts.accept(named[0]):
            await inner(scope, receive, send)
            return
        text = f"The host {', '.join(named)!r} is not accepted. To allow it, add it to {setting}."
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": 421, "headers": headers})
        await send({"type": "http.response.body", "body": f"{text}\n".encode()})

    return checked


def is_local(host: str) -> bool:
    """Whether only programs on this machine can connect to a host."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def _name_of(host: str) -> str | None:
    """Return the name in a Host header, without the port."""
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
