"""The dependencies of job kinds: gateways to exchanges, their markets, the log, and other jobs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from penstock.clock import Clock
from penstock.connectors.markets import Gateways
from penstock.coverage.gap_rows import GapRows
from penstock.coverage.writing import CoverageWriter
from penstock.exchanges.base import Info
from penstock.exchanges.symbol_map import SymbolMap
from penstock.ingest.parallel import ConcurrentFetches
from penstock.ingest.planner import Survey
from penstock.ingest.published_files import PublishedFiles
from penstock.jobs.service import JobService
from penstock.recorder import Recorder
from penstock.storage.lake import Lake
from penstock.storage.log import LogReader
from penstock.telemetry import Listener, quiet


class SymbolMaps(Protocol):
    """The market listing of each exchange."""

    async def of(self, exchange_id: str) -> SymbolMap: ...

    async def refresh(self, exchange_id: str, info: Info) -> object:
        """Store what an exchange has just announced."""
        ...


@dataclass(frozen=True)
class HandlerContext:
    """The dependencies that every kind of job receives to run its jobs."""

    gateways: Gateways
    markets: SymbolMaps
    recorder: Recorder
    clock: Clock
    log: LogReader
    """The records of all processes."""
    job_service: JobService
    gaps: GapRows
    emit: Listener = quiet
    log_id: int = 0
    """Identifies the log: another machine's may have slots of the same names."""
    coverage: CoverageWriter | None = None
    """Writes what the worker's slot holds to the state store."""
    lake: Callable[[], Lake | None] = lambda: None
    """Opens the lake. Its libraries are imported then: most jobs do not need them."""
    chunk_concurrency: int | Literal["auto"] = "auto"
    """Pages of one market that are requested concurrently."""
    surveyed: dict[str, Survey] = field(default_factory=dict)
    """Ranges of jobs, by job id, that were searched for shortly before the jobs run."""
    fetches: ConcurrentFetches = field(default_factory=ConcurrentFetches)
    """Those of all jobs of this process."""
    files: PublishedFiles | None = None
    """The files of ``ingest.files``."""
