"""Variables with short names, without a prefix, for a process that serves one exchange.

Containers that run one process each use the same few names for all of them. The full variable of a
setting takes precedence over its short name.
"""

from collections.abc import Mapping

from penstock.config.loading import Alias

SYMBOLS = "SYMBOLS"
"""The variable for markets, used if none are on the command line."""


def _seconds(milliseconds: str) -> str:
    try:
        return str(float(milliseconds) / 1000)
    except ValueError:
        return milliseconds  # rejected later, with the original text in the error


def short_names(exchange: str = "") -> tuple[Alias, ...]:
    """Return the aliases for the short names; some apply only if the exchange is known."""
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
    """Return the markets in ``SYMBOLS``: ``btc_usdt,eth_usdt``."""
    return tuple(environment.get(SYMBOLS, "").replace(",", " ").split())
