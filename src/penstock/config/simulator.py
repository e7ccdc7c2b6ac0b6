"""Settings of the simulator. Those that only one exchange has are in a section of their own.

The string under each field describes it; ``docs/settings.md`` is generated from these strings.
"""

from msgspec import Struct

from penstock.config.ranges import Count, Port, Seconds, Whole


class SimulatedBinance(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulated Binance."""

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
    streams_per_connection: Count = 1024
    """Streams one connection may carry."""
    ping_every: Seconds = 20.0
    """Seconds between the server's pings."""
    pong_within: Seconds = 60.0
    """Seconds without a pong after which a connection is closed."""
    connection_lifetime: Seconds = 86400.0
    """Seconds after which every connection is closed."""


class SimulatedCoinbase(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulated Coinbase: the only API key that it accepts. It protects nothing."""

    api_key: str = "simulated"
    """The key."""
    api_secret: str = "c2ltdWxhdGVk"  # noqa: S105 - not a secret: it is in the docs
    """Its secret, in base64."""
    api_passphrase: str = "simulated"  # noqa: S105
    """Its passphrase."""


class SimulatedKraken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulated Kraken."""

    subscribe_within: Seconds = 60.0
    """Seconds a connection may stay without a subscription."""
    markets_use_address_limit: bool = True
    """Whether requests limited by market also count for the address; this is not documented."""


class SimulatedUpbit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulated Upbit; the exchange documents none of these."""

    requests_replace: bool = True
    """Whether a subscription replaces all earlier ones."""
    trade_pages_end_at_midnight: bool = True
    """Whether a page of trades ends at midnight."""
    second_candle_days: Count = 90
    """Days for which one-second candles are kept."""


class Simulator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The simulated exchange (``penstock sim``)."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Port = 8790
    """Port to listen on; 0 chooses a free one and prints it."""
    seed: Whole = 1
    """The market is a pure function of this number: same seed, same trades, on every machine."""
    symbols: tuple[str, ...] = ()
    """Markets to list, as slugs or unified names; ``all`` lists all, empty lists a few."""
    faults: str = ""
    """Faults to inject, such as ``drop=0.01,cut=5s``; see docs/simulator.md."""
    fault_seed: Whole = 1
    """Seed that determines which frames the faults affect."""
    limits: dict[str, str] = {}
    """Limits that replace the exchange's own, by name: ``name=15/10`` is 15 in 10 seconds."""
    refusals_before_ban: Count = 10
    """Refusals (429) in one window after which the address is banned (418)."""
    first_ban: Seconds = 120.0
    """Length of the first ban; each further one is twice as long."""
    longest_ban: Seconds = 259200.0
    """No ban is longer."""
    uplink_ms: Whole = 20
    """Requests reach the exchange after a random delay of up to this many milliseconds."""
    latency_ms: Count = 5
    """Median time in milliseconds to answer a request, after admission."""
    binance: SimulatedBinance = SimulatedBinance()
    coinbase: SimulatedCoinbase = SimulatedCoinbase()
    kraken: SimulatedKraken = SimulatedKraken()
    upbit: SimulatedUpbit = SimulatedUpbit()


MOVED = {
    f"simulator.{name}": f"simulator.{exchange}.{name}"
    for exchange, section in (
        ("binance", SimulatedBinance),
        ("kraken", SimulatedKraken),
        ("upbit", SimulatedUpbit),
    )
    for name in section.__struct_fields__
}
"""Names that these settings had before they were in sections; see ``renamed.py``."""
