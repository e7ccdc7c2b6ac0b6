"""Facts about records that are missing."""

from typing import ClassVar

from penstock.telemetry import Fact, Level


class CandlesMissing(Fact, frozen=True, kw_only=True):
    """Candles that the log should hold are missing; a job was created that fetches them."""

    level: ClassVar[Level] = "warning"

    exchange: str
    symbol: str
    interval: str
    since: str
    until: str
    job: str


class GapWatchFailed(Fact, frozen=True, kw_only=True):
    """A check for gaps without a job failed; it is repeated."""

    level: ClassVar[Level] = "error"

    error: str


class IngestStarted(Fact, frozen=True, kw_only=True):
    """``penstock ingest`` starts to fetch some products, within the limits of their exchange."""

    exchange: str
    products: tuple[str, ...]
    workers: int
    chunk_concurrency: int | str
    requests_per_s: float
    """What the tightest limit allows; 0 if there is none."""


class BackfillStarted(Fact, frozen=True, kw_only=True):
    """The trades of a range are fetched, or the rest of them after an interruption.

    ``pages`` is how many requests that takes, and ``concurrency`` how many are in flight; both are
    0 where each page is known only from the one before.
    """

    exchange: str
    symbol: str
    first_id: int
    last_id: int
    pages: int
    concurrency: int


class PageFetched(Fact, frozen=True, kw_only=True):
    """A page of trades was fetched. ``took_ms`` includes the wait for the limit."""

    level: ClassVar[Level] = "debug"

    exchange: str
    symbol: str
    trades: int
    took_ms: int


class PageRefused(Fact, frozen=True, kw_only=True):
    """An exchange refused a page because of its limit; it is requested again, up to ``attempts``
    times."""

    level: ClassVar[Level] = "warning"

    exchange: str
    symbol: str
    first_id: int
    attempt: int
    attempts: int


class BatchRecorded(Fact, frozen=True, kw_only=True):
    """A batch of pages was recorded; ``held`` of its trades were in the log already."""

    level: ClassVar[Level] = "debug"

    exchange: str
    symbol: str
    recorded: int
    held: int
    absent: int
    """Ids that the exchange does not have."""


class CheckpointSaved(Fact, frozen=True, kw_only=True):
    """The cursor of a backfill was stored after a batch; a later run continues there."""

    level: ClassVar[Level] = "debug"

    exchange: str
    symbol: str
    last_id: int
    rows: int
    """Recorded by all runs of the job."""


class BackfillDone(Fact, frozen=True, kw_only=True):
    """All trades of a range are recorded. ``trades`` were recorded by all runs of the job."""

    exchange: str
    symbol: str
    trades: int
    batches: int
