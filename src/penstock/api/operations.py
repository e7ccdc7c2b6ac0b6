"""The API's operations for its description: parameters, bodies, responses and errors."""

from dataclasses import dataclass
from typing import Any

from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from penstock.api import (
    breakers,
    connectors,
    coverage,
    data,
    fleet,
    health,
    jobs,
    live,
    locks,
    login,
    market,
    markets,
    monitoring,
    observing,
    ticks,
)
from penstock.api.breakers import BreakerOrder
from penstock.api.connectors import ConnectorEdit, ConnectorFilters, NewConnector
from penstock.api.coverage import GapOrder, GapQuery, MapQuery
from penstock.api.data import BookQuery, CandleQuery, CoverageQuery, DataPage, TradeQuery
from penstock.api.health import Health
from penstock.api.jobs import JobFilters
from penstock.api.live_hub import Update
from penstock.api.locks import LockOrder
from penstock.api.login import Login, SessionView
from penstock.api.market import ChartQuery, MarketQuery
from penstock.api.monitoring import AlertView, StatisticsView
from penstock.api.observing import LogFilters
from penstock.api.ticks import TickFilters, TickQuery
from penstock.api.views import (
    BreakerView,
    ConnectorPage,
    ConnectorView,
    EditedJob,
    JobPage,
    JobSummary,
    JobView,
    ListingView,
    LockView,
    TickPage,
    TickView,
)
from penstock.jobs.model import JobEvent, NewJob
from penstock.monitor.collected import Collected
from penstock.monitor.config_view import Config
from penstock.monitor.connections import Connections
from penstock.monitor.coverage_map import CoverageMap
from penstock.monitor.gaps import Gaps
from penstock.monitor.limits import Limits
from penstock.monitor.market_documents import CandlesDocument, MarketDocument
from penstock.monitor.overview import Overview
from penstock.monitor.process_logs import LogPage
from penstock.monitor.processes import Processes
from penstock.monitor.storage import Storage


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation."""

    route: HTTPRouteHandler
    id: str
    answers: Any
    """The type of the body of a successful response; None if it has none."""
    status: tuple[int, ...] = (200,)
    query: type[Struct] | None = None
    body: type[Struct] | None = None
    if_match: bool | None = None
    """Whether If-Match is required; None if it is ignored."""
    refusals: tuple[int, ...] = ()
    """Error statuses, in addition to those of every operation of the API."""
    media_type: str = "application/json"
    also: tuple[str, ...] = ()
    """Other media types in which it can respond."""
    streams: bool = False
    """Whether it can also respond with a stream of events."""
    of_api: bool = True
    """Whether it is under the API's prefix."""
    open: bool = False
    """Whether it needs no token even so."""

    @property
    def method(self) -> str:
        """The HTTP method, in lower case as in the description."""
        (method,) = self.route.http_methods
        return str(method).lower()

    @property
    def needs_token(self) -> bool:
        """Whether it needs a token or a session, if the server has tokens."""
        return self.of_api and not self.open

    @property
    def tag(self) -> str:
        """The name of the route's module."""
        return str(self.route.fn.__module__).rpartition(".")[2]

    @property
    def headers(self) -> tuple[str, ...]:
        """The headers that a successful response may have."""
        if self.answers in (ConnectorView, JobView):
            return ("ETag",)
        pages = (ConnectorPage, JobPage, TickPage, DataPage)
        return ("Link",) if self.answers in pages else ()


_BODY = (400, 413, 415, 422)
"""Error statuses of operations with a body."""

OPERATIONS = (
    Operation(
        route=connectors.ensure,
        id="ensureConnector",
        body=NewConnector,
        answers=ConnectorView,
        status=(200, 201),
        refusals=_BODY,
    ),
    Operation(
        route=connectors.listed,
        id="listConnectors",
        query=ConnectorFilters,
        answers=ConnectorPage,
        refusals=(422,),
    ),
    Operation(
        route=connectors.shown,
        id="showConnector",
        answers=ConnectorView,
        status=(200, 304),
        refusals=(404,),
    ),
    Operation(
        route=connectors.edited,
        id="editConnector",
        body=ConnectorEdit,
        answers=ConnectorView,
        if_match=False,
        refusals=(404, 412, *_BODY),
    ),
    Operation(
        route=connectors.deleted,
        id="deleteConnector",
        answers=None,
        status=(204,),
        if_match=False,
        refusals=(404, 409, 412),
    ),
    Operation(route=connectors.paused, id="pauseConnector", answers=ConnectorView, refusals=(404,)),
    Operation(
        route=connectors.resumed, id="resumeConnector", answers=ConnectorView, refusals=(404,)
    ),
    Operation(route=breakers.shown, id="showBreaker", answers=BreakerView, refusals=(404,)),
    Operation(
        route=breakers.forced,
        id="forceBreaker",
        body=BreakerOrder,
        answers=BreakerView,
        refusals=(404, *_BODY),
    ),
    Operation(
        route=jobs.created,
        id="createJob",
        body=NewJob,
        answers=JobView,
        status=(201,),
        refusals=(409, *_BODY),
    ),
    Operation(route=jobs.listed, id="listJobs", query=JobFilters, answers=JobPage, refusals=(422,)),
    Operation(route=jobs.summarized, id="summarizeJobs", answers=JobSummary),
    Operation(route=jobs.shown, id="showJob", answers=JobView, status=(200, 304), refusals=(404,)),
    Operation(
        route=jobs.edited,
        id="editJob",
        body=EditedJob,
        answers=JobView,
        if_match=True,
        refusals=(404, 409, 412, *_BODY),
    ),
    Operation(
        route=jobs.deleted,
        id="deleteJob",
        answers=None,
        status=(204,),
        if_match=False,
        refusals=(404, 412),
    ),
    Operation(route=jobs.paused, id="pauseJob", answers=JobView, refusals=(404, 409)),
    Operation(route=jobs.resumed, id="resumeJob", answers=JobView, refusals=(404, 409)),
    Operation(route=jobs.run, id="runJob", answers=JobView, refusals=(404, 409)),
    Operation(
        route=jobs.events,
        id="listJobEvents",
        answers=list[JobEvent],
        streams=True,
        refusals=(404,),
    ),
    Operation(route=locks.listed, id="listLocks", answers=list[LockView]),
    Operation(
        route=locks.released,
        id="releaseLock",
        body=LockOrder,
        answers=LockView,
        refusals=(404, *_BODY),
    ),
    Operation(route=markets.shown, id="showMarkets", answers=ListingView, refusals=(404,)),
    Operation(
        route=ticks.listed,
        id="listTicks",
        query=TickFilters,
        answers=TickPage,
        refusals=(404, 422),
    ),
    Operation(
        route=ticks.streamed,
        id="streamTicks",
        query=TickQuery,
        answers=list[TickView],
        status=(101,),
        refusals=(403, 404, 422, 426),
    ),
    Operation(route=ticks.shown, id="showTick", answers=TickView, refusals=(404, 422)),
    *(
        Operation(
            route=route,
            id=f"list{name}",
            query=query,
            answers=DataPage,
            also=(data.CSV, data.ARROW),
            refusals=(404, 422),
        )
        for name, route, query in (
            ("Trades", data.trades, TradeQuery),
            ("Candles", data.candles, CandleQuery),
            ("Books", data.books, BookQuery),
            ("Coverage", data.coverage, CoverageQuery),
        )
    ),
    Operation(
        route=market.charted,
        id="chartMarket",
        query=ChartQuery,
        answers=CandlesDocument,
        refusals=(404, 422),
    ),
    Operation(
        route=market.shown,
        id="showMarket",
        query=MarketQuery,
        answers=MarketDocument,
        refusals=(404, 422),
    ),
    Operation(route=monitoring.measured, id="showStatistics", answers=list[StatisticsView]),
    Operation(route=monitoring.alerts, id="listAlerts", answers=list[AlertView]),
    Operation(route=fleet.overview, id="showOverview", answers=Overview),
    Operation(route=fleet.processes, id="listProcesses", answers=Processes),
    Operation(route=fleet.storage, id="showStorage", answers=Storage),
    Operation(route=fleet.collected, id="listCollected", answers=Collected),
    Operation(route=fleet.config, id="listSettings", answers=Config),
    Operation(route=observing.connected, id="listConnections", answers=Connections),
    Operation(route=observing.limited, id="showLimits", answers=Limits),
    Operation(
        route=observing.logged,
        id="listLogs",
        query=LogFilters,
        answers=LogPage,
        refusals=(422,),
    ),
    Operation(
        route=coverage.mapped,
        id="showCoverageMap",
        query=MapQuery,
        answers=CoverageMap,
        refusals=(422,),
    ),
    Operation(route=coverage.gaps, id="listGaps", query=GapQuery, answers=Gaps, refusals=(422,)),
    Operation(
        route=coverage.filled,
        id="fillGap",
        body=GapOrder,
        answers=JobView,
        status=(200, 201),
        refusals=(404, 409, *_BODY),
    ),
    Operation(route=login.shown, id="showSession", answers=SessionView, open=True),
    Operation(
        route=login.begun,
        id="login",
        body=Login,
        answers=None,
        status=(204,),
        open=True,
        refusals=(401, 403, 429, *_BODY),
    ),
    Operation(
        route=login.ended, id="logout", answers=None, status=(204,), open=True, refusals=(403,)
    ),
    Operation(route=live.live, id="live", answers=Update, status=(101,), refusals=(403, 426)),
    Operation(route=health.alive, id="alive", answers=Health, of_api=False),
    Operation(route=health.ready, id="ready", answers=Health, of_api=False, refusals=(503,)),
    Operation(
        route=health.metrics,
        id="metrics",
        answers=str,
        media_type="text/plain",
        of_api=False,
        open=True,
    ),
)
"""All operations except the one that returns the description itself."""
