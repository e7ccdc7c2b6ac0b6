"""API keys: an exchange may grant other limits to requests that are signed with one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.config import Exchanges, Secret
from penstock.errors import ConfigError
from penstock.throttle.gate import Limit

Sign = Callable[[str, int], Mapping[str, str]]
"""(path with query, the exchange's time in ms) → the headers that sign a GET request."""


class ApiKey(NamedTuple):
    """The credentials of an account."""

    key: Secret
    secret: Secret
    passphrase: Secret


@dataclass(frozen=True)
class KeyedAccess:
    """What an exchange grants to signed requests, and how they are signed."""

    limits: tuple[Limit, ...]
    signer: Callable[[ApiKey], Sign]
    """Raises ValueError if the secret is malformed."""


def signer_for(exchange: str, keyed: KeyedAccess | None, settings: Exchanges) -> Sign | None:
    """How requests to an exchange are signed; None if there is no API key for it.

    Raises:
        ConfigError: the key cannot be used. No part of it is in the message.
    """
    parts = (settings.api_keys, settings.api_secrets, settings.api_passphrases)
    found = ApiKey(*(part.get(exchange, Secret("")) for part in parts))
    if not any(found):
        return None
    if keyed is None:
        raise _unusable("api_keys", f"requests to {exchange} are not signed: remove its key")
    for name, part in zip(("api_keys", "api_secrets", "api_passphrases"), found, strict=True):
        if not part:
            raise _unusable(name, f"a key for {exchange} needs this too")
    try:
        return keyed.signer(found)
    except ValueError:
        raise _unusable("api_secrets", f"that for {exchange} is not base64") from None


def _unusable(name: str, problem: str) -> ConfigError:
    return ConfigError(f"exchanges.{name}", problem=problem, origin="settings")
