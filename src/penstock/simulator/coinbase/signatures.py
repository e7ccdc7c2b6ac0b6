"""Checks the signatures of requests that have an API key.

The exchange checks them wherever they are sent, and counts such requests by key instead of by
address. For endpoints that need no key, the second is not documented.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import sha256

from penstock.config import SimulatedCoinbase
from penstock.errors import ConfigError
from penstock.simulator.coinbase.refusals import said
from penstock.simulator.engine.exchange import Asked, Refused

KEY, SIGN = "CB-ACCESS-KEY", "CB-ACCESS-SIGN"
TIMESTAMP, PASSPHRASE = "CB-ACCESS-TIMESTAMP", "CB-ACCESS-PASSPHRASE"
_LATE_MS = 30_000


class Signatures:
    """The one key that the simulated exchange has issued."""

    def __init__(self, settings: SimulatedCoinbase) -> None:
        """Raise ConfigError if the secret is not base64."""
        self._key, self._passphrase = settings.api_key, settings.api_passphrase
        try:
            self._secret = b64decode(settings.api_secret, validate=True)
        except ValueError:
            name = "simulator.coinbase.api_secret"
            raise ConfigError(name, problem="it is not base64", origin="settings") from None

    def key_of(self, asked: Asked) -> str:
        """The key that a request is counted under; empty if it is not signed correctly."""
        return self._key if self._problem(asked) == "" else ""

    def check(self, asked: Asked, at_ms: int) -> None:
        """Check a request that has one of the headers.

        Raises:
            Refused: it is not signed correctly, or too late.
        """
        problem = self._problem(asked)
        if problem == "" and abs(at_ms - _sent_ms(asked.headers)) > _LATE_MS:
            problem = "request timestamp expired"
        if problem:
            raise Refused(said(401, problem))

    def _problem(self, asked: Asked) -> str | None:
        """What is wrong with the headers; None if there are none."""
        headers = asked.headers
        names = (KEY, SIGN, TIMESTAMP, PASSPHRASE)
        if not any(name in headers for name in names):
            return None
        for name in names:
            if name not in headers:
                return f"{name} header is required"
        if _sent_ms(headers) < 0:
            return "invalid timestamp"
        if headers[KEY] != self._key:
            return "Invalid API Key"
        if headers[PASSPHRASE] != self._passphrase:
            return "invalid passphrase"
        signed = f"{headers[TIMESTAMP]}GET{asked.target}".encode()
        expected = b64encode(hmac.new(self._secret, signed, sha256).digest())
        return "" if expected == headers[SIGN].encode() else "invalid signature"


def _sent_ms(headers: Mapping[str, str]) -> int:
    try:
        return round(float(headers[TIMESTAMP]) * 1000)
    except (ValueError, OverflowError):
        return -1
