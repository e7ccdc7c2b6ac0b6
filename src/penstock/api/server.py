"""The server of the API, configured from the settings."""

from collections.abc import Callable

from litestar.types import ASGIApp

from penstock.config import Api
from penstock.web import Bounds, WebServer


class ApiServer(WebServer):
    """The API on its address."""

    def __init__(
        self, application: ASGIApp, settings: Api, holder_of: Callable[[int], str | None]
    ) -> None:
        bounds = Bounds(
            connections=settings.connections,
            headers_s=settings.headers_s,
            idle_s=settings.idle_s,
            write_s=settings.write_s,
            stop_s=settings.stop_s,
        )
        address = settings.host, settings.port
        super().__init__(application, address, holder_of, section="api", bounds=bounds)
