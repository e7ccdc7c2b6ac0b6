"""Settings of what collects: streams, polling, jobs, backfills and ticker daemons."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.ranges import Count, Pause, Seconds, Whole
from penstock.config.secret import Sensitive

EventLoop = Literal["auto", "asyncio", "uvloop"]


class Collect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is collected, and where it is stored."""

    data_dir: str = "penstock-data"
    """Data folder."""
    channels: tuple[str, ...] = ("trades", "book_deltas", "tickers")
    """Channels to stream: trades, agg_trades, book_deltas, tickers, candles_1m and so on."""
    durability: Literal["flushed", "synced"] = "flushed"
    """What records survive once published: a crash of the process, or a power failure too."""
    flush_ms: Count = 20
    """Maximum milliseconds before an event is written. It is written as soon as nothing more is
    waiting to be read; under load, events are batched into one write for up to this long, and
    with thousands of events per second for three eighths of it."""
    event_loop: EventLoop = "auto"
    """Event loop of ``penstock collect`` and ``penstock bus``: ``asyncio``, ``uvloop`` (the extra
    ``uvloop``), or ``auto``: uvloop if it is installed."""
    flush_min_ms: Whole = 0
    """Minimum milliseconds between two writes. More saves CPU and adds as much delay."""
    book_depth: Count = 1000
    """Levels per side to request when a book is started."""
    book_every: Seconds = 60.0
    """Seconds between snapshots of the books written to the log, for readers to start from."""
    book_levels: Count = 50
    """Levels per side in those snapshots."""
    snapshots_at_once: Count = 4
    """Book snapshots requested concurrently; of those that wait, lost books precede new ones."""
    audit_every: Pause = 300.0
    """Seconds within which every book is compared once with the exchange's; 0 disables it. Audits
    use at most a fifth of the budget, so many books may take longer."""
    liveness: bool = True
    """Whether to detect and repair streams that deliver nothing although their markets change."""
    min_silence: Seconds = 10.0
    """Minimum seconds without a message before a stream counts as silent; longer for streams that
    seldom have messages."""
    first_message_timeout: Seconds = 60.0
    """Seconds that a stream may take to deliver its first message."""
    rotate_after: Seconds = 82800.0
    """Seconds after which a stream connection is replaced, before the exchange closes it; up to a
    fifth is subtracted at random, so that not all are replaced at once."""
    overlap: Seconds = 5.0
    """Minimum seconds that both connections run after the new one has all its streams."""
    redundancy: Count = 1
    """Connections that carry the same streams at the same time; duplicates are dropped."""
    streams_per_connection: Count = 1000
    """Maximum streams per connection; fewer where the exchange allows fewer."""
    ack_timeout: Seconds = 5.0
    """Seconds an exchange may take to acknowledge a subscription."""
    retry_multiplier: Annotated[float, Meta(ge=1)] = 2.0
    """Factor between one delay and the next before a connection or a subscription is retried: from
    a quarter of a second to half a minute."""
    stop_timeout: Seconds = 300.0
    """Seconds that stopping may take: the latest trades of every market are fetched, as fast as the
    limits allow, and events that wait for a full disk are written. A second signal stops at
    once."""


FetchKind = Literal["trades", "book", "info", "tickers"]


class Fetch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is polled over REST, and how often (``penstock fetch``)."""

    what: tuple[FetchKind, ...] = ()
    """Any of trades, book, info, tickers. Empty: all of them; without a market, the last two."""
    every: Seconds = 60.0
    """Seconds between two fetches of the same data; trades that are behind are fetched at once."""
    info_every: Seconds = 3600.0
    """Seconds between fetches of the exchange's markets and limits."""
    book_depth: Count = 100
    """Levels per side to request."""
    max_requests: Count = 600
    """Requests of this process per window, in addition to the exchange's own limits."""
    window: Seconds = 60.0
    """Length of that window in seconds; requests are spread evenly over it."""
    first_delay: Seconds = 1.0
    """Seconds before a failed fetch is retried; doubled after each failure."""
    longest_delay: Seconds = 60.0
    """Maximum of that delay in seconds."""


class Tickers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ticker daemons (``penstock tickers``)."""

    poll_interval: Seconds = 5.0
    """Seconds between two reads of the symbols that are to be collected."""


class Jobs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How workers run jobs."""

    concurrency: Count = 8
    """Jobs one worker runs concurrently."""
    per_exchange: Count = 4
    """Jobs of one exchange that all workers together run concurrently."""
    lease: Seconds = 30.0
    """Seconds without a heartbeat after which another worker takes over a job."""
    time_slice: Seconds = 20.0
    """Seconds a job may run before it is stopped for more urgent or older jobs that are due."""
    acquire_timeout: Seconds = 5.0
    """Seconds a running job waits for capacity in the rate limits before it is released."""
    attempts: Count = 10
    """Failures in a row without progress after which a job stays failed."""
    first_delay: Seconds = 5.0
    """Seconds before a failed job is retried; doubled after each failure."""
    longest_delay: Seconds = 600.0
    """Maximum of that delay in seconds."""
    poll_interval: Seconds = 0.25
    """Seconds between queries for jobs that other processes created, changed or triggered."""
    gap_watch: Seconds = 10.0
    """Seconds between checks for gaps that no job fills yet."""


class Ingest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How backfills and ``penstock ingest`` fetch trades and candles."""

    workers: Count = 3
    """Products that ``penstock ingest`` fetches concurrently."""
    chunk_concurrency: Count | Literal["auto"] = "auto"
    """Pages of one market that are requested concurrently. ``auto``: as many as the limits allow
    requests in the time that a response takes."""
    files: Sensitive = ""
    """Folder, or address such as ``https://files.example.com``, with the files that an exchange
    publishes. Trades and candles that they have are not requested; see docs/ingest.md."""
