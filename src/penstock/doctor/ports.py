"""Checks whether the ports of the settings can be used."""

import errno
import socket
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from penstock.doctor.model import Finding, Subject, in_thread, ok, problem
from penstock.net.port_owner import port_owner


class Port(NamedTuple):
    """A port that a command listens on."""

    setting: str
    host: str
    number: int


def ports_of(subject: Subject) -> list[Port]:
    """The fixed ports of the settings."""
    settings = subject.settings
    found = [
        Port("api.port", settings.api.host, settings.api.port),
        Port("metrics.port", settings.metrics.host, settings.metrics.port),
    ]
    for name in ("publish", "subscribe"):
        scheme, _, address = getattr(settings.bus, name).partition("://")
        host, _, number = address.rpartition(":")
        if scheme == "tcp" and number.isdigit():
            found.append(Port(f"bus.{name}", host.strip("[]").replace("*", ""), int(number)))
    return [port for port in found if port.number]


async def check_ports(subject: Subject) -> Iterable[Finding]:
    """Whether each port is free, or used by a process of this data folder."""
    ours = {
        each.status.pid
        for each in (subject.fleet.processes if subject.fleet is not None else ())
        if not each.gone
    }
    return [await in_thread(partial(_port, port, ours)) for port in ports_of(subject)]


def _port(port: Port, ours: set[int]) -> Finding:
    remedy = f"Stop that program, or set {port.setting} to another port."
    words = f"{port.setting} {port.number}"
    try:
        _bind(port)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:  # a broker of another machine, or a wrong address
            return ok("ports", f"{words} is on another machine: {port.host}")
        if error.errno != errno.EADDRINUSE:
            return problem("ports", f"{words} cannot be used: {error.strerror}", remedy)
        owner = port_owner(port.number) or "another program"
        if any(f"(pid {pid})" in owner for pid in ours):
            return ok("ports", f"{words} is used by penstock: {owner}")
        return problem("ports", f"{words} is used by {owner}", remedy)
    return ok("ports", f"{words} is free")


def _bind(port: Port) -> None:
    """Bind a port as a server would, and release it.

    Raises:
        OSError: it cannot be bound.
    """
    family, kind, _, _, address = socket.getaddrinfo(
        port.host or None, port.number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
