"""All settings, with their defaults and allowed values.

The string under each field describes it; ``docs/settings.md`` is generated from these strings.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from penstock.config.plans import ConnectorPlan
from penstock.config.ranges import Count, Pause, Port, Seconds, Whole
from penstock.config.simulator import Simulator


class Secret(str):
    """Text that is masked in ``str`` and ``repr``, and so in every log and traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def reveal(self) -> str:
        """Return the text itself, for the code that sends it."""
        return str.__str__(self)

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Logs, written to stderr."""

    format: Literal["auto", "human", "json"] = "auto"
    """``human`` lines, ``json`` lines, or ``auto``: human on a terminal, json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Nothing below this level is written; docs/logs.md has the level of each fact."""


class Exchanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses of exchanges, where they differ from the public ones, and API keys."""

    rest_urls: dict[str, str] = {}
    """Address to send requests to, by exchange: ``name=http://127.0.0.1:8790``. For
    ``ccxt:NAME``, all its hosts are replaced and the paths are kept."""
    stream_urls: dict[str, str] = {}
    """Address to open streams at, by exchange: ``name=ws://127.0.0.1:8790``."""
    api_keys: dict[str, Secret] = {}
    """API key, by exchange. Requests are then signed, and the limits of keys apply. One that may
    only view is enough."""
    api_secrets: dict[str, Secret] = {}
    """The secret of each key."""
    api_passphrases: dict[str, Secret] = {}
    """The passphrase of each key."""


class Requests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """REST requests to exchanges."""

    connect_timeout: Seconds = 5.0
    """Seconds a connection may take to open."""
    read_timeout: Seconds = 10.0
    """Seconds without a byte of the response, before the first byte or between two."""
    total_timeout: Seconds = 30.0
    """Seconds one request may take in all, not counting the wait for the rate limits."""
    acquire_timeout: Seconds = 300.0
    """Seconds a request may wait for capacity in the rate limits before it fails."""
    longest_stop: Seconds = 259200.0
    """Maximum seconds that sending stops after a 429 or a ban, even if the exchange asks more."""
    guard_ms: Whole = 250
    """Nothing is sent in the last milliseconds of a window, as it could arrive in the next."""
    attempts: Count = 4
    """Attempts in all for a request that gets no answer or a server error."""
    first_delay: Seconds = 0.25
    """Seconds before the second attempt."""
    multiplier: Annotated[float, Meta(ge=1)] = 2.0
    """Factor between one delay and the next."""
    longest_delay: Seconds = 10.0
    """Maximum delay in seconds."""
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Up to this share of each delay is subtracted at random, to spread retries of many callers."""


class Breaker(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The circuit breaker of each exchange, shared by all processes."""

    failures: Count = 5
    """Failures in a row that open it: server errors and requests without an answer …"""
    failure_rate: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """… if at least this share of all requests of the window failed …"""
    window: Seconds = 30.0
    """… which has this many seconds …"""
    min_requests: Count = 5
    """… and at least this many requests."""
    cooldown: Seconds = 300.0
    """Seconds without requests once it is open. They double each time it opens again soon."""
    longest_cooldown: Seconds = 3600.0
    """Maximum of these seconds."""
    successes: Count = 3
    """Successful probes, one after the other, that close it."""
    ramp: Seconds = 30.0
    """Seconds after it closed in which a process sends one request at a time, then two, four …"""


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
    waiting to be read; under load, events are batched into one write for up to this long."""
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


class Storage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where records are stored."""

    log_url: str = "rocksdb:"
    """URL of the log: ``rocksdb:`` is in the data folder, ``rocksdb:FOLDER`` in another folder of
    this machine; ``memory:`` lasts as long as the process."""
    log_max_bytes: Whole = 0
    """Maximum size of the log on disk; 0: no limit. Above it, the keeper has sealed records deleted
    before they are ``keep.hot`` old, those of the last ten minutes excepted."""
    lake_url: str = ""
    """The lake: a folder, or a URL of an object store such as ``s3://bucket/lake``. Empty: the
    folder ``lake`` in the data folder."""
    lake_options: dict[str, str] = {}
    """Options of the object store, such as ``aws_endpoint_url`` and ``aws_region``. Variables such
    as ``AWS_ACCESS_KEY_ID`` apply too: keep credentials there."""
    lake_single_writer: bool = False
    """Whether only one process ever writes to the lake. Required for object stores without
    conditional put, which lose commits of several writers."""


class Keep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How records move from the log to the lake, and how long they are kept (``penstock keep``)."""

    seal_every: Seconds = 300.0
    """Seconds between two seals. Each writes a file per exchange and day for every channel."""
    settle: Annotated[float, Meta(ge=2)] = 30.0
    """Seconds after which a record may be sealed: by then it survives a power failure."""
    seal_rows: Count = 200_000
    """Maximum records in one seal; more are sealed in several. They are held in memory."""
    hot: Seconds = 172_800.0
    """Seconds for which the log keeps records that are sealed. Candles and gaps stay in the log."""
    compact_every: Seconds = 3600.0
    """Seconds between two checks for partitions to compact, rows to delete and files to remove."""
    retention: dict[str, str] = {}
    """How long the lake keeps a channel, by age or size: ``book_deltas=30d,tickers=20GB``. Without
    it, everything is kept."""
    vacuum_hours: Count = 168
    """Hours for which files stay that the latest version of a table no longer uses: readers that
    opened an older version may still read them."""


class Publish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where new records are published, once they are stored."""

    urls: tuple[str, ...] = ("zeromq:",)
    """Publishers: ``zeromq:`` is the bus, ``zeromq:ADDRESS`` another one; other schemes can be
    added (docs/add-a-publisher.md). Empty: nothing is published."""
    queue: Count = 10_000
    """Maximum messages queued for a publisher that waits for its receivers; ``bus.queue`` applies
    to the bus. More are dropped and counted."""


class State(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State shared by all processes: connectors, jobs and budgets."""

    url: str = ""
    """Where it is stored: ``sqlite:FILE``, ``postgresql://…`` or ``mongodb://…``. Empty: the file
    ``state.db`` in the data folder."""
    timeout: Seconds = 10.0
    """Seconds the store may take before it counts as unreachable."""


class Live(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The latest ticks, and the processes that run."""

    url: str = ""
    """Where they are stored: ``sqlite:FILE`` for one machine, ``redis://…`` or ``rediss://…`` for
    several. Empty: the file ``live.db`` in the data folder."""
    timeout: Seconds = 2.0
    """Seconds the store may take before it counts as unreachable."""
    tick_ttl: Seconds = 300.0
    """Seconds after which a tick is not served any more."""
    stale_after: Seconds = 60.0
    """Seconds after which a tick is marked as stale."""


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
    files: str = ""
    """Folder, or address such as ``https://files.example.com``, with the files that an exchange
    publishes. Trades and candles that they have are not requested; see docs/ingest.md."""


class Api(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The REST API (``penstock serve``)."""

    host: str = "127.0.0.1"
    """Address to listen on; an address that other machines can reach needs a token."""
    port: Port = 8780
    """Port to listen on; 0 chooses a free one and prints it."""
    token: Secret = Secret("")
    """Token that clients send as ``Authorization: Bearer …``, at least 16 characters if other
    machines can reach the API; empty: local clients only."""
    read_token: Secret = Secret("")
    """Another token, with which clients may read (``GET``) but change nothing. If only this one
    is set, nothing can be changed over HTTP."""
    hosts: tuple[str, ...] = ()
    """Further host names under which clients may reach it, such as that of a proxy."""
    connections: Count = 512
    """Maximum open connections. Above it, a new one replaces the one that is idle longest."""
    headers_s: Seconds = 10
    """Seconds from connecting, or from a request's first byte, to the end of its headers."""
    body_s: Seconds = 20
    """Seconds from the end of a request's headers to the end of its body."""
    idle_s: Seconds = 60
    """Seconds without a request after which a connection is closed."""
    write_s: Seconds = 10
    """Seconds in which a client has to read each 64 KiB of a response."""
    stop_s: Seconds = 2
    """Seconds to finish responses in progress when the server stops."""


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prometheus metrics of a collector or a worker, served by its own process."""

    host: str = "127.0.0.1"
    """Address to serve metrics on, at any path."""
    port: Port = 0
    """Port to serve metrics on, a different one for each process; 0 disables them."""
    hosts: tuple[str, ...] = ()
    """Further host names under which clients may reach it, such as that of this machine."""


class Bus(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bus: new records published to other processes (``penstock bus``)."""

    publish: str = "ipc"
    """Address of the broker for publishers: ``tcp://HOST:PORT``, ``ipc://FILE``, or ``ipc``, a
    socket in the data folder. Empty: nothing is published."""
    subscribe: str = "ipc"
    """Address of the broker for subscribers, in the same forms."""
    payload: Literal["json", "msgpack"] = "json"
    """Encoding of records."""
    queue: Count = 10_000
    """Maximum messages queued for one subscriber; a tenth as many batches of them may be queued for
    the broker. More are dropped and counted; subscribers read them from the log."""
    message_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """Maximum size of a message; subscribers read larger records from the log."""
    connections: Count = 1000
    """Maximum publishers, and maximum subscribers, connected to the broker."""
    subscriptions: Count = 5000
    """Topics or topic prefixes that one connection may be the first to subscribe to."""
    linger: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """Seconds a stopping publisher waits for its queued messages to be sent."""
    key_file: str = ""
    """File with this process's own secret key; required if the bus spans several machines."""
    broker_key: str = ""
    """The broker's public key, for publishers and subscribers."""
    clients: str = ""
    """For the broker: folder with the public keys (``*.public``) of clients that may subscribe."""
    publishers: str = ""
    """For the broker: folder with the public keys of clients that may publish. A client that does
    both has its key in both folders."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator may set."""

    logging: Logging = Logging()
    simulator: Simulator = Simulator()
    collect: Collect = Collect()
    fetch: Fetch = Fetch()
    storage: Storage = Storage()
    keep: Keep = Keep()
    publish: Publish = Publish()
    state: State = State()
    live: Live = Live()
    tickers: Tickers = Tickers()
    exchanges: Exchanges = Exchanges()
    requests: Requests = Requests()
    breaker: Breaker = Breaker()
    jobs: Jobs = Jobs()
    ingest: Ingest = Ingest()
    api: Api = Api()
    metrics: Metrics = Metrics()
    bus: Bus = Bus()
    connectors: dict[str, ConnectorPlan] = {}
