"""An HTTP server for ASGI applications that one slow or silent client cannot hold up."""

from penstock.web.connections import Bounds
from penstock.web.hosts import Hosts, hosts_of, is_local, only_for
from penstock.web.server import WebServer

__all__ = ["Bounds", "Hosts", "WebServer", "hosts_of", "is_local", "only_for"]
