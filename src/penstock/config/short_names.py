"""Variables with short names, without a prefix, for a process that serves one exchange.

Containers that run one process each use the same few names for all of them. The full variable of a
setting takes precedence over its short name.
"""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from penstock.config.loading import Alias

SYMBOLS = "SYMBOLS"
"""The variable for markets, used if none are on the command line."""
_KEY_PARTS = {
    "API_KEY": "exchanges.api_keys",
    "API_SECRET": "exchanges.api_secrets",
    "API_PASSPHRASE": "exchanges.api_passphrases",
}


def _seconds(milliseconds: str) -> str:
    try:
        return str(float(milliseconds) / 1000)
    except ValueError:
        return milliseconds  # rejected later, with the original text in the error


def short_names(exchange: str = "", *, signs: bool = False) -> tuple[Alias, ...]:
    """Return the aliases for the short names; some apply only if the exchange is known.

    Those of an API key apply only if requests to the exchange can be signed (``signs``).
    """
    everywhere = (
        Alias("STORAGE_BASE_DIR", "collect.data_dir"),
        Alias("RATE_LIMIT_MAX_REQUESTS", "fetch.max_requests"),
        Alias("RATE_LIMIT_WINDOW_MS", "fetch.window", _seconds),
    )
    if not exchange:
        return everywhere
    by_exchange: Callable[[str], str] = partial(_table, exchange)
    key = [
        Alias(f"{variable}{suffix}", f"{setting}{suffix.lower()}", by_exchange)
        for variable, setting in _KEY_PARTS.items()
        for suffix in ("", "_FILE")
    ]
    return (
        *everywhere,
        Alias("API_BASE_URL", "exchanges.rest_urls", by_exchange),
        Alias("WSS_BASE_URL", "exchanges.stream_urls", by_exchange),
        *(key if signs else ()),
    )


def unused_key(exchange: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning if the short names have an API key that the exchange cannot use."""
    variables = [f"{name}{suffix}" for name in _KEY_PARTS for suffix in ("", "_FILE")]
    found = ", ".join(variable for variable in variables if environment.get(variable))
    return (f"Ignored: {found}. Requests to {exchange} are not signed.",) if found else ()


def _table(exchange: str, value: str) -> str:
    return msgspec.json.encode({exchange: value}).decode()


def named_symbols(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the markets in ``SYMBOLS``: ``btc_usdt,eth_usdt``."""
    return tuple(environment.get(SYMBOLS, "").replace(",", " ").split())
