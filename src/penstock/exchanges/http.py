"""HTTP transport on aiohttp, which sends one request and returns its response.

It distinguishes a request that never left this machine from one without a response, because only
tokens of the first are returned. ``leaving`` is called when the connection is open and nothing has
been written yet; it may raise to cancel the request. aiohttp repeats a request by itself when a
kept-alive connection turns out to be closed; no tokens were acquired for the repetition, so it is
prevented here.
"""

from collections.abc import Callable, Mapping

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.connector import Connection
from yarl import URL

from penstock import __version__
from penstock.config import Requests
from penstock.errors import NeverSent, NoAnswer
from penstock.exchanges.raw_request import RawRequest
from penstock.exchanges.transport import Answer

# The largest response needed, a full market listing, is a quarter of this.
LARGEST_ANSWER = 64_000_000


class _PaidRequest(ClientRequest):
    """A request that calls ``leaving`` before it writes its first byte."""

    leaving: Callable[[], None] | None = None

    async def send(self, conn: Connection) -> ClientResponse:
        if self.leaving is not None:
            self.leaving()
        return await super().send(conn)


class _Repeated(aiohttp.ClientError):
    """aiohttp tried to send a request a second time."""


class HttpTransport:
    """Sends requests to one exchange over kept-alive connections. Connects on the first request."""

    def __init__(self, base_url: str, settings: Requests) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(
            total=settings.total_timeout,
            connect=settings.connect_timeout,
            sock_connect=settings.connect_timeout,
            sock_read=settings.read_timeout,
        )
        self._session: aiohttp.ClientSession | None = None
        self.sign: Callable[[str], Mapping[str, str]] | None = None
        """(path with query) → headers that sign a request; None: they are not signed."""

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        """See ``Transport``."""
        url = URL(self._base_url + path).extend_query(params)
        headers = self.sign(url.raw_path_qs) if self.sign else {}
        raw = RawRequest(str(url), headers=headers)
        return await self._send(raw, f"{self._base_url}{path}", leaving)

    async def send_raw(self, raw: RawRequest, leaving: Callable[[], None]) -> Answer:
        """See ``SendsRaw``."""
        return await self._send(raw, raw.url.partition("?")[0], leaving)

    async def _send(self, raw: RawRequest, what: str, leaving: Callable[[], None]) -> Answer:
        left = False

        def mark() -> None:
            nonlocal left
            if left:
                raise _Repeated
            leaving()
            left = True

        async def guard(request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
            assert isinstance(request, _PaidRequest)
            request.leaving = mark
            return await send(request)

        try:
            async with self._open().request(
                raw.method,
                URL(raw.url, encoded=True),
                headers=raw.headers,
                data=raw.body,
                allow_redirects=False,
                middlewares=(guard,),
            ) as response:
                return Answer(
                    response.status,
                    {name.lower(): value for name, value in response.headers.items()},
                    await _body_of(response),
                )
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            words = f"{what}: {str(error) or type(error).__name__}"
            if left:
                raise NoAnswer(f"No answer from {words}") from error
            raise NeverSent(f"Could not reach {words}. Is the network up?") from error

    async def close(self) -> None:
        """See ``Transport``."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                request_class=_PaidRequest,
                headers={"User-Agent": f"penstock/{__version__}"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


async def _body_of(response: ClientResponse) -> bytes:
    chunks, size = [], 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST_ANSWER:
            raise aiohttp.ClientPayloadError(f"the answer is longer than {LARGEST_ANSWER} bytes")
    return b"".join(chunks)
