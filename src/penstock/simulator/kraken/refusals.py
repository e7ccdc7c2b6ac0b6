"""Defines Kraken's response envelope and its errors: texts in a response of status 200."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply

UNKNOWN_METHOD = "EGeneral:Unknown method"
INTERNAL_ERROR = "EGeneral:Internal error"
TOO_MANY_REQUESTS = "EGeneral:Too many requests"
RATE_LIMIT_EXCEEDED = "EAPI:Rate limit exceeded"
TEMPORARY_LOCKOUT = "EGeneral:Temporary lockout"


def result(body: bytes) -> bytes:
    """A successful response with a result."""
    return b'{"error":[],"result":%b}' % body


def error(text: str) -> Reply:
    """A response with an error and no result."""
    return Reply(msgspec.json.encode({"error": [text]}))


def invalid(name: str = "") -> Refused:
    """A parameter is missing, or the named one is invalid."""
    return Refused(error("EGeneral:Invalid arguments" + (f":{name}" if name else "")))


def unknown_pair() -> Refused:
    """The pair is not listed."""
    return Refused(error("EQuery:Unknown asset pair"))


def unknown_asset() -> Refused:
    """The asset does not exist."""
    return Refused(error("EQuery:Unknown asset"))
