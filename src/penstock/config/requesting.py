"""Settings of requests to exchanges."""

from typing import Annotated

from msgspec import Meta, Struct

from penstock.config.ranges import Count, Seconds, Whole
from penstock.config.secret import Secret, Sensitive


class Exchanges(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses of exchanges, where they differ from the public ones, and API keys."""

    rest_urls: dict[str, Sensitive] = {}
    """Address to send requests to, by exchange: ``name=http://127.0.0.1:8790``. For
    ``ccxt:NAME``, all its hosts are replaced and the paths are kept."""
    stream_urls: dict[str, Sensitive] = {}
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
