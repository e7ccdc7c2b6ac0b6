"""Credentials for an exchange, from a function of the operator, with public access otherwise.

The ticker streams of all supported exchanges are public, so keys are never sent. The provider is
asked all the same, so that an operator sees which exchanges have keys.
"""

from collections.abc import Callable
from typing import Literal

from penstock.exchanges.base import Exchange
from penstock.telemetry import Listener
from penstock.tickers.facts import CredentialsUnavailable

CredentialProvider = Callable[[Exchange], tuple[str, str]]
"""Returns (API key, secret) for an exchange; two empty texts for public access."""
Access = Literal["public", "keys"]


def access_to(exchange: Exchange, provider: CredentialProvider | None, emit: Listener) -> Access:
    """Whether there are keys for an exchange; a provider that fails means public access."""
    if provider is None:
        return "public"
    try:
        api_key, secret = provider(exchange)
    except Exception as error:
        emit(CredentialsUnavailable(exchange=exchange.name, reason=type(error).__name__))
        return "public"
    return "keys" if api_key and secret else "public"
