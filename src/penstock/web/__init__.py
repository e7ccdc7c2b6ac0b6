"""An HTTP server for ASGI applications that one slow or silent client cannot hold up."""

from penstock.web.connections import Bounds
from penstock.web.server import WebServer

__all__ = ["Bounds", "WebServer"]
