"""A client of Upbit's public REST API that reports whether a request was sent.

It sends nothing when it is created, unlike clients that download the exchange's definition first.
aiohttp would repeat a request by itself if a kept connection turns out to be closed; the repetition
would not be charged, so it is prevented here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Protocol

import aiohttp
import msgspec

from penstock import __version__
from penstock.errors import NeverSent, NoAnswer, UnexpectedAnswer

ADDRESS = "https://api.upbit.com"
_SECONDS_TO_CONNECT, _SECONDS_IN_ALL = 5.0, 10.0

# Fractions become Decimal: a binary float cannot represent 0.1 as the exchange sent it.
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, with any status."""

    path: str
    status: int
    headers: Mapping[str, str]
    """Names are case-insensitive."""
    body: bytes

    def read(self) -> Any:
        """The body, with whole numbers as int and fractions as Decimal.

        Raises:
            UnexpectedAnswer: it is not JSON.
        """
        try:
            return _decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            start = self.body[:80].decode(errors="replace")
            what = f"{self.path} was answered with {self.status} and {start!r}"
            raise UnexpectedAnswer(what) from error


class _Repeated(aiohttp.ClientError):
    """aiohttp tried to send a request a second time."""


class Client(Protocol):
    """Sends single GET requests to Upbit."""

    async def get(
        self, path: str, params: Mapping[str, str], leaving: Callable[[], None]
    ) -> Answer:
        """Send and wait for the whole response. If ``leaving`` raises, nothing is sent.

        Raises:
            NeverSent: it did not leave this machine.
            NoAnswer: it may have arrived, but no whole response came in time.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection."""
        ...


class UpbitClient:
    """Sends requests over kept connections. Opens none until the first request."""

    def __init__(self, base_url: str = ADDRESS) -> None:
        self._base_url = base_url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, path: str, params: Mapping[str, str], leaving: Callable[[], None]
    ) -> Answer:
        """See ``Client``."""
        left = False

        def mark() -> None:
            nonlocal left
            if left:
                raise _Repeated
            leaving()
            left = True

        try:
            async with self._open().get(
                self._base_url + path,
                params=params,
                allow_redirects=False,
                trace_request_ctx=mark,
            ) as response:
                return Answer(path, response.status, response.headers, await response.read())
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            what = f"{self._base_url}{path}: {str(error) or type(error).__name__}"
            if left:
                raise NoAnswer(f"No answer from {what}") from error
            raise NeverSent(f"Could not reach {what}. Is the network up?") from error

    async def aclose(self) -> None:
        """See ``Client``."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_leave)
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(_SECONDS_IN_ALL, sock_connect=_SECONDS_TO_CONNECT),
                # No Origin: it would limit all requests to one per ten seconds.
                headers={"Accept": "application/json", "User-Agent": f"penstock/{__version__}"},
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[trace],
            )
        return self._session


async def _leave(
    _session: aiohttp.ClientSession, context: SimpleNamespace, _headers: object
) -> None:
    """Called when a connection is established, before the first byte is written."""
    context.trace_request_ctx()
