"""An HTTP server for ASGI applications; slow or silent clients do not block others."""

from penstock.web.connections import Bounds
from penstock.web.hosts import Hosts, hosts_of, is_local, only_for
from penstock.web.server import WebServer
from penstock.web.websockets import WebSocket, websocket_of

__all__ = [
    "Bounds",
    "Hosts",
    "WebServer",
    "WebSocket",
    "hosts_of",
    "is_local",
    "only_for",
    "websocket_of",
]
