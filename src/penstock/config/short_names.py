"""Short names: variables without a prefix, for a process that serves one exchange.

Containers that run one process each give all of them the same few names. They are weaker than the
variables that name a setting in full.
"""

from collections.abc import Mapping

from penstock.config.loading import Alias

SYMBOLS = "SYMBOLS"
"""Markets, where none are named on the command line."""


def _seconds(milliseconds: str) -> str:
    try:
        return str(float(milliseconds) / 1000)
    except ValueError:
        return milliseconds  # to be refused as what it is


def short_names(exchange: str = "") -> tuple[Alias, ...]:
    """What the short names set; some only if it is known which exchange a process serves."""
    everywhere = (
        Alias("STORAGE_BASE_DIR", "collect.data_dir"),
        Alias("RATE_LIMIT_MAX_REQUESTS", "fetch.max_requests"),
        Alias("RATE_LIMIT_WINDOW_MS", "fetch.window", _seconds),
    )
    if not exchange:
        return everywhere
    return (
        *everywhere,
        Alias("API_BASE_URL", "exchanges.rest_urls", lambda url: f"{exchange}={url}"),
        Alias("WSS_BASE_URL", "exchanges.stream_urls", lambda url: f"{exchange}={url}"),
    )


def named_symbols(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The markets that ``SYMBOLS`` names: ``btc_usdt,eth_usdt``."""
    return tuple(environment.get(SYMBOLS, "").replace(",", " ").split())
