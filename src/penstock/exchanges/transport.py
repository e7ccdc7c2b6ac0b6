"""Transports: the ports of what sends a request and returns its response.

Apart from ``http``, since aiohttp is imported for a fifth of a second.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from penstock.exchanges.raw_request import RawRequest


class Answer(NamedTuple):
    """A response with any status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Transport(Protocol):
    """Sends single GET requests to an exchange."""

    async def send(
        self, path: str, params: Mapping[str, str | int], leaving: Callable[[], None]
    ) -> Answer:
        """Send a request and return the whole response.

        If ``leaving`` raises, nothing is sent and the exception is passed on.

        Raises:
            NeverSent: the request did not leave this machine.
            NoAnswer: the request may have arrived, but no whole response came in time.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


@runtime_checkable
class SendsRaw(Protocol):
    """A transport that also sends raw requests, built by another client."""

    async def send_raw(self, raw: RawRequest, leaving: Callable[[], None]) -> Answer:
        """As ``Transport.send``."""
        ...
