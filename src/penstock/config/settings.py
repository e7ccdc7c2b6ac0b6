"""Everything an operator may set, with its default and what is allowed.

The string under a field says what it is; ``docs/settings.md`` is made of them.
"""

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta, Struct

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=1)]
Whole = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Pause = Annotated[float, Meta(ge=0)]


class Secret(str):
    """A text that never shows itself: its repr, and so every log and traceback, is a mask."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return str.__str__(self)

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What penstock writes about itself, on stderr."""

    format: Literal["auto", "human", "json"] = "auto"
    """``human`` lines, ``json`` lines, or ``auto``: human on a terminal, json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Nothing below this level is written; docs/logs.md has the level of each fact."""


class Simulator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The built-in exchange to practise on."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8790
    """Port to listen on; 0 takes any free one and says which."""
    seed: Whole = 1
    """The market is a pure function of this number: same seed, same trades, on every machine."""
    symbols: tuple[str, ...] = ()
    """Markets to list, as slugs or unified names; ``all`` for everything, nothing for a few."""
    faults: str = ""
    """Faults to inject, such as ``drop=0.01,cut=5s``; see docs/simulator.md."""
    fault_seed: Whole = 1
    """Which faults strike which frame is a pure function of this number."""
    weight_limit: Count = 6000
    """REQUEST_WEIGHT allowed per window and address."""
    weight_window: Seconds = 60.0
    """Length of that window in seconds; whole seconds, aligned to the epoch."""
    raw_limit: Count = 61000
    """RAW_REQUESTS allowed per window and address."""
    raw_window: Seconds = 300.0
    """Length of that window in seconds."""
    connect_limit: Count = 300
    """Stream connections that may be opened per window and address."""
    connect_window: Seconds = 300.0
    """Length of that window in seconds."""
    messages_per_second: Count = 5
    """Messages a client may send on one stream connection per second, pings and pongs included."""
    limits: dict[str, str] = {}
    """Limits in place of the exchange's own, by their names: ``name=15/10``, so many in 10 s."""
    requests_replace: bool = True
    """Whether a request for streams ends all earlier ones, where that is the one way to leave."""
    trade_pages_end_at_midnight: bool = True
    """Whether a page of trades ends with its day, where trades are asked for by the day."""
    second_candle_days: Count = 90
    """How many days back there are candles of one second, where they are not kept for ever."""
    streams_per_connection: Count = 1024
    """Streams one connection may carry."""
    ping_every: Seconds = 20.0
    """Seconds between the server's pings."""
    pong_within: Seconds = 60.0
    """Seconds without a pong after which a connection is closed."""
    connection_lifetime: Seconds = 86400.0
    """Seconds after which a connection is closed, however well it behaves."""
    subscribe_within: Seconds | None = None
    """Seconds a connection may go without a subscription; unset: as the exchange has it."""
    markets_use_address_limit: bool = True
    """Whether requests limited by market count for the address too, where that is left open."""
    refusals_before_ban: Count = 10
    """Refusals (429) in one window after which the address is banned (418)."""
    first_ban: Seconds = 120.0
    """Length of the first ban; each further one is twice as long."""
    longest_ban: Seconds = 259200.0
    """No ban is longer."""
    uplink_ms: Whole = 20
    """Requests reach the exchange after a jitter of up to so many milliseconds."""
    latency_ms: Count = 5
    """Median time the exchange takes to answer, after admission."""


class Exchanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where exchanges are found, when not at their own public addresses."""

    rest_urls: dict[str, str] = {}
    """Address to send requests to, by exchange: ``name=http://127.0.0.1:8790``. Of a family's
    member, all its hosts are replaced and paths are kept."""
    stream_urls: dict[str, str] = {}
    """Address to open streams at, by exchange: ``name=ws://127.0.0.1:8790``."""


class Requests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How exchanges are asked."""

    connect_timeout: Seconds = 5.0
    """Seconds a connection may take to open."""
    read_timeout: Seconds = 10.0
    """Seconds an answer may stay silent, before its first byte or between two."""
    total_timeout: Seconds = 30.0
    """Seconds one request may take in all, not counting the wait at the gate."""
    acquire_timeout: Seconds = 300.0
    """Seconds a request may wait for capacity in the limits before it is given up."""
    longest_stop: Seconds = 259200.0
    """Seconds for which an exchange that says stop is believed, at most, whatever it says."""
    guard_ms: Whole = 250
    """Nothing is sent in the last milliseconds of a limit's window, lest it arrive in the next."""
    attempts: Count = 4
    """How often a request that got no answer, or a server's error, is sent in all."""
    first_delay: Seconds = 0.25
    """Seconds before the second attempt."""
    multiplier: Annotated[float, Meta(ge=1)] = 2.0
    """Each further delay is so many times the one before."""
    longest_delay: Seconds = 10.0
    """No delay is longer."""
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Up to this share of each delay is taken off at random, so that callers do not march."""


class Collect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is collected, and where it is kept."""

    data_dir: str = "penstock-data"
    """Folder for everything that is collected."""
    channels: tuple[str, ...] = ("trades", "book_deltas", "tickers")
    """Kinds of data to stream: trades, agg_trades, book_deltas, tickers, candles_1m and so on."""
    durability: Literal["flushed", "synced"] = "flushed"
    """What survives before it is published: the death of the process, or a power cut too."""
    flush_ms: Count = 20
    """Milliseconds after which an event is written at the latest. It is written as soon as nothing
    more is waiting to be read; in a flood, events are gathered into one write for so long."""
    flush_min_ms: Whole = 0
    """Milliseconds between two writes at the least. More costs less CPU and adds as much delay."""
    book_depth: Count = 1000
    """Levels a side to ask for when a book is begun."""
    book_every: Seconds = 60.0
    """Seconds between recordings of what the books show, for readers to begin from."""
    book_levels: Count = 50
    """Levels a side in those recordings."""
    snapshots_at_once: Count = 4
    """Books that may be asked for at the same time; the others wait, lost ones before new ones."""
    audit_every: Pause = 300.0
    """Seconds within which every book is compared with the exchange's once; 0 never does. Audits
    leave four fifths of the budget to others, so many books may take longer."""
    liveness: bool = True
    """Whether to find and repair streams that bring nothing although their markets change."""
    min_silence: Seconds = 10.0
    """No stream counts as silent before so many seconds without a message; streams that seldom
    bring one get longer."""
    first_message_timeout: Seconds = 60.0
    """Seconds that a stream may take to bring its first message."""
    rotate_after: Seconds = 82800.0
    """Seconds after which a stream connection is replaced by another, before the exchange ends it;
    up to a fifth is taken off at random, so that not all are replaced at once."""
    overlap: Seconds = 5.0
    """Seconds for which both run, at least, after the new one has everything."""
    redundancy: Count = 1
    """Connections that bring the same streams at the same time; copies are dropped."""
    streams_per_connection: Count = 1000
    """Streams a connection carries, at most; fewer where the exchange allows fewer."""
    ack_timeout: Seconds = 5.0
    """Seconds an exchange may take to acknowledge streams that were asked for."""
    retry_multiplier: Annotated[float, Meta(ge=1)] = 2.0
    """Each further pause before a connection is opened, or a stream asked for, again is so many
    times the one before: from a quarter of a second to half a minute."""
    stop_timeout: Seconds = 300.0
    """Seconds that stopping may take: every market is asked once more, as fast as the limits allow,
    and what waits for a full disk is written. A second signal stops at once."""


FetchKind = Literal["trades", "book", "info", "tickers"]


class Fetch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked for again and again, and how often (``penstock fetch``)."""

    what: tuple[FetchKind, ...] = ()
    """Any of trades, book, info, tickers. Empty: all of them; without a market, the last two."""
    every: Seconds = 60.0
    """Seconds between two fetches of the same thing; trades that are behind are fetched at once."""
    info_every: Seconds = 3600.0
    """Seconds between looks at what the exchange lists and allows."""
    book_depth: Count = 100
    """Levels a side to ask for."""
    max_requests: Count = 600
    """Requests of this process in a window, beside all limits of the exchange …"""
    window: Seconds = 60.0
    """… of so many seconds; they are spread evenly over it."""
    first_delay: Seconds = 1.0
    """Seconds before what failed is asked for again; twice as many after each failure …"""
    longest_delay: Seconds = 60.0
    """… but never more."""


class State(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all processes share: connectors, jobs and budgets."""

    url: str = ""
    """Where it is kept: ``sqlite:FILE``, ``postgresql://…`` or ``mongodb://…``. Empty: the file
    ``state.db`` in the folder for collected data."""
    timeout: Seconds = 10.0
    """Seconds the store may take before it counts as unreachable."""


class Jobs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a worker goes through jobs."""

    concurrency: Count = 8
    """Jobs one worker runs at once …"""
    per_exchange: Count = 4
    """… and at most so many of one exchange, by all workers together."""
    lease: Seconds = 30.0
    """Seconds after which a job whose worker has fallen silent goes to another."""
    time_slice: Seconds = 20.0
    """Seconds a job may run before it is stopped for more urgent or older jobs that are due."""
    acquire_timeout: Seconds = 5.0
    """Seconds a running job waits for capacity in the limits before it is put back to wait."""
    attempts: Count = 10
    """Failures in a row, without a step forward between, after which a job rests as failed."""
    first_delay: Seconds = 5.0
    """Seconds before a job that failed is tried again; twice as many after each failure …"""
    longest_delay: Seconds = 600.0
    """… but never more."""
    poll_interval: Seconds = 0.25
    """Seconds between queries for jobs that other processes have created, changed or asked for."""


class Api(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The REST API (``penstock serve``)."""

    host: str = "127.0.0.1"
    """Address to listen on; any but this machine's own needs a token."""
    port: Port = 8780
    """Port to listen on; 0 takes any free one and says which."""
    token: Secret = Secret("")
    """What clients send as ``Authorization: Bearer …``, 16 characters at least where other machines
    can reach the API; empty serves this machine alone."""
    hosts: tuple[str, ...] = ()
    """Further names under which clients may reach it, such as that of a proxy before it."""
    connections: Count = 512
    """Connections open at once. A new one takes the place of the one that has been idle longest."""
    headers_s: Seconds = 10
    """Seconds from connecting, or from a request's first byte, to the end of its headers."""
    body_s: Seconds = 20
    """Seconds from the end of a request's headers to the end of its body."""
    idle_s: Seconds = 60
    """Seconds after which a connection is closed on which nothing is asked."""
    write_s: Seconds = 10
    """Seconds in which a client has to take each 64 KiB of an answer."""
    stop_s: Seconds = 2
    """Seconds for answers under way to be finished when the server is told to stop."""


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a collector or a worker counts, shown to Prometheus by itself."""

    host: str = "127.0.0.1"
    """Address to show it on, at any path."""
    port: Port = 0
    """Port to show it on, another one for each process; 0 shows nothing."""
    hosts: tuple[str, ...] = ()
    """Further names under which it may be asked, such as that of this machine."""


class Bus(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bus: records handed to other processes as they are written (``penstock bus``)."""

    publish: str = "ipc"
    """Where publishers find the broker: ``tcp://HOST:PORT``, ``ipc://FILE``, or ``ipc``, a socket
    in the folder for collected data. Empty: nothing is published."""
    subscribe: str = "ipc"
    """Where subscribers find it, likewise."""
    payload: Literal["json", "msgpack"] = "json"
    """What records are sent as."""
    queue: Count = 10_000
    """Messages that may wait for one subscriber; a tenth as many batches of them may wait for the
    broker. More are dropped, counted, and read from the log."""
    message_bytes: Annotated[int, Meta(ge=1024)] = 4 * 1024 * 1024
    """No message on the bus is larger; records that are, are read from the log."""
    connections: Count = 1000
    """Publishers, and subscribers, that may be connected to the broker at once."""
    subscriptions: Count = 5000
    """Topics, or beginnings of topics, that one connection may be the first to subscribe to."""
    linger: Annotated[float, Meta(ge=0, le=60)] = 0.5
    """Seconds a publisher that stops waits for what is queued to leave."""
    key_file: str = ""
    """File with this process's own secret key; off this machine there must be one."""
    broker_key: str = ""
    """The broker's public key, for those who connect to it."""
    clients: str = ""
    """Folder with the public keys (``*.public``) of those who may subscribe, for the broker."""
    publishers: str = ""
    """Folder with the public keys of those who may publish, likewise. One that may do both has its
    key in both."""


Text = Annotated[str, Meta(max_length=1000, pattern=r"^[^\x00]*$")]


class LimitPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit to keep, beside or below those the exchange is known to have."""

    amount: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    """So much …"""
    period_ms: Annotated[int, Meta(ge=1, le=31 * 86_400_000)]
    """… in so many milliseconds."""
    unit: Literal["weight", "request"] = "weight"
    """Whether a request counts with its cost, or as one."""
    category: Text = ""
    """Which requests it counts; empty counts all."""
    kind: Literal["aligned", "paced"] = "aligned"
    """Counted in windows of the exchange's clock, or kept by the distance between requests."""
    burst: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """Where it is paced: so much at once."""


class ConnectorPlan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``penstock apply`` sees to on one exchange; NAME is the exchange's."""

    symbols: tuple[str, ...] = ()
    """Markets whose candles are kept, in any spelling."""
    timeframes: tuple[str, ...] = ()
    """Candle lengths to keep of each market: 1m, 1h, 1d."""
    interval: Annotated[float, Meta(ge=1)] | None = None
    """Seconds between looks for new candles; without it, the length of a candle."""
    backfill: bool | date = False
    """Whether to fetch history too: all there is (``true``), or from a day on (``2024-01-01``)."""
    markets_refresh: Annotated[float, Meta(ge=1)] = 43200.0
    """Seconds between looks at what the exchange lists."""
    limits: tuple[LimitPlan, ...] = ()
    """Limits to keep, beside or below the exchange's own: tables of ``amount``, ``period_ms``,
    ``unit``, ``category``, ``kind`` and ``burst``."""
    notes: Text = ""
    """Words for whoever looks at the connector."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator may set."""

    logging: Logging = Logging()
    simulator: Simulator = Simulator()
    collect: Collect = Collect()
    fetch: Fetch = Fetch()
    state: State = State()
    exchanges: Exchanges = Exchanges()
    requests: Requests = Requests()
    jobs: Jobs = Jobs()
    api: Api = Api()
    metrics: Metrics = Metrics()
    bus: Bus = Bus()
    connectors: dict[str, ConnectorPlan] = {}
