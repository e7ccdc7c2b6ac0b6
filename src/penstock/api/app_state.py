"""The state that the API's routes receive, and helpers for their responses."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar import Response
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from penstock.api.live_feeds import LiveFeeds
from penstock.api.live_ticks import LiveTicks
from penstock.api.problems import AnyRequest, ProblemError
from penstock.api.reading import etag, is_among, names_version, page_token
from penstock.clock import Clock
from penstock.connectors.manager import ConnectorManager
from penstock.ingest.admin import FleetAdmin
from penstock.jobs.service import JobService
from penstock.monitor.markets import Markets
from penstock.monitor.monitor import FleetMonitor
from penstock.stats.metrics import Metrics
from penstock.stats.scraping import FleetScraper
from penstock.storage.state import StateStore

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset

PREFIX = "/api/v1"
_READERS = 2
"""How many requests read collected data at the same time."""


@dataclass(frozen=True)
class AppState:
    """The objects that the API's routes use."""

    admin: FleetAdmin
    metrics: Metrics
    clock: Clock
    open_data: Callable[[], "Dataset"] | None = None
    """Opens the collected data that the server offers; None if it offers none."""
    ticks: LiveTicks | None = None
    """The latest ticks; None if the server offers none."""
    scraper: FleetScraper | None = None
    """Reads the metrics of other processes; None if the server has only its own."""
    monitor: FleetMonitor = field(default_factory=FleetMonitor)
    """Reads the documents that show the fleet."""
    market_pages: Markets | None = None
    """The markets of the data folder, live and as charts; None if the server offers none."""
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READERS))
    """Held while collected data is read, so that memory is bounded."""
    reading_logs: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    """Held while log files are read: a search opens many files and takes a processor."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server is about to stop, so that event streams end."""

    live: LiveFeeds = field(init=False)
    """The topics that are watched; closed with the server."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "live", LiveFeeds(self.clock))

    @property
    def store(self) -> StateStore:
        return self.admin.job_service.store

    @property
    def connectors(self) -> ConnectorManager:
        return self.admin.connectors

    @property
    def job_service(self) -> JobService:
        return self.admin.job_service


GivenState = NamedDependency[SkipValidation[AppState]]
"""The type of a route's parameter ``app_state``, which receives the state."""


T = TypeVar("T")


def json_answer(
    content: object, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """Return a JSON response."""
    return Response(
        msgspec.json.encode(content),
        status_code=status,
        media_type="application/json",
        headers=headers or {},
    )


def resource_answer(
    request: AnyRequest, view: object, version: int, status: int = 200, location: str = ""
) -> Response[bytes]:
    """Return one document with its ETag; 304 if the client has this version already."""
    body = msgspec.json.encode(view)
    tag = etag(version, body)
    headers = {"ETag": tag}
    known = request.headers.get("if-none-match")
    if request.method == "GET" and known is not None and is_among(tag, known):
        return Response(b"", status_code=304, headers=headers)
    if location:
        headers["Location"] = f"{PREFIX}/{location}"
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def page_answer(
    request: AnyRequest,
    found: Sequence[T],
    most: int,
    view: Callable[[T], object],
    id_of: Callable[[T], str] = attrgetter("id"),
) -> Response[bytes]:
    """Return a page of documents; ``found`` has one more than ``most`` if there is a next page."""
    page, more = found[:most], len(found) > most
    next_ = page_token(id_of(page[-1])) if more else None
    headers = {}
    if next_:
        query = dict(parse_qsl(request.url.query))
        address = f"{request.url.path}?{urlencode({**query, 'after': next_})}"
        headers["Link"] = f'<{address}>; rel="next"'
    return json_answer({"items": [view(one) for one in page], "next": next_}, 200, headers)


async def expected_version(
    request: AnyRequest, get: Callable[[], Awaitable[Any]], *, needed: bool = False
) -> int | None:
    """Return the version that the client wants to change; None without If-Match.

    Raises:
        ProblemError: the document has another version, or If-Match is required and missing.
    """
    header = request.headers.get("if-match")
    if header is None and needed:
        raise ProblemError(
            412, "If-Match is missing. Send the ETag of the document that you change."
        )
    if header is None:
        return None
    found: int = (await get()).version
    if not names_version(header, found):
        raise ProblemError(412, f"The document is at version {found}. Fetch it again and retry.")
    return found
