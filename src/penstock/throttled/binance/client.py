"""Wraps binance-connector, and records whether and when a request was sent, and its headers.

The connector blocks, so each call runs in a thread. It does not return the headers of a response,
and drops those of a server error. An adapter around the sending one records all of them, changes
nothing, and detects whether anything was sent. Connections are kept open, one per thread.
"""

import threading
from asyncio import Future, get_running_loop
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from penstock.clock import Clock
from penstock.errors import MissingExtra

_SECONDS_IN_ALL = 10.0
_SCHEMES = ("https://", "http://")


class GrantExpired(Exception):
    """The charged window closed before the request could be sent. Nothing was sent."""


@dataclass(slots=True)
class RequestTrace:
    """When one request was sent, and its response. Times are this machine's, in ms."""

    good: Callable[[], bool]
    """Whether it may still be sent."""
    left: bool = False
    sent_ms: int = 0
    received_ms: int = 0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


def connect(base_url: str | None) -> Any:
    """A new client of binance-connector.

    Raises:
        MissingExtra: the connector is not installed.
    """
    try:
        spot = import_module("binance.spot")
    except ModuleNotFoundError as error:
        raise MissingExtra("binance-connector", "binance") from error
    address = {"base_url": base_url.rstrip("/")} if base_url else {}
    return spot.Spot(timeout=_SECONDS_IN_ALL, **address)


class ThreadedClient:
    """Runs a client's calls in threads, on a separate session.

    The given client is not changed and can still be used directly.
    """

    def __init__(self, client: Any, connections: int, clock: Clock) -> None:
        self._client, self._here = copy(client), threading.local()
        self._threads = ThreadPoolExecutor(connections, "penstock-carrier")
        self._client.session = session = copy(client.session)
        plain = import_module("requests.adapters").HTTPAdapter
        session.adapters = type(session.adapters)()
        for prefix, sender in client.session.adapters.items():
            if type(sender) is plain:
                # As many kept connections as threads; the default is ten.
                sender = plain(pool_connections=1, pool_maxsize=connections)  # noqa: PLW2901
            session.mount(prefix, _TracingAdapter(sender, self._here, clock))
        # A redirected request would not be charged.
        session.max_redirects = 0

    def methods(self) -> list[str]:
        """All public methods of the client."""
        named = (name for name in dir(self._client) if not name.startswith("_"))
        return [name for name in named if callable(getattr(self._client, name))]

    def call(
        self,
        trace: RequestTrace,
        method: str,
        arguments: tuple[object, ...],
        options: Mapping[str, object],
    ) -> "Future[Any]":
        """Call the client's method in a thread; its result or exception, unchanged."""

        def call() -> Any:
            self._here.trace = trace
            return getattr(self._client, method)(*arguments, **options)

        return get_running_loop().run_in_executor(self._threads, call)

    def close(self) -> None:
        """Close connections. Calls in progress still complete; no new one begins."""
        self._threads.shutdown(wait=False)
        self._client.session.close()


class _TracingAdapter:
    """Wraps the adapter that sends, and fills in the ``RequestTrace``."""

    def __init__(self, sender: Any, here: threading.local, clock: Clock) -> None:
        self._sender, self._here, self._clock = sender, here, clock

    def send(self, request: object, **options: object) -> Any:
        trace: RequestTrace = self._here.trace
        if not trace.good():
            raise GrantExpired
        trace.left, trace.sent_ms = True, self._clock.now_ms()
        try:
            response = self._sender.send(request, **options)
        except OSError as error:  # the base of all the library's errors
            trace.left = not _never_connected(error)
            raise
        trace.received_ms = self._clock.now_ms()
        trace.status, trace.headers = response.status_code, response.headers
        return response

    def close(self) -> None:
        self._sender.close()


def _never_connected(error: OSError) -> bool:
    """Whether no connection was established. After any other error, part may have arrived."""
    causes = import_module("urllib3.exceptions")
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, causes.NewConnectionError | causes.ConnectTimeoutError)
