"""Kraken's envelope, and its way of saying no: a word of text inside an answer of status 200."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply

UNKNOWN_METHOD = "EGeneral:Unknown method"
INTERNAL_ERROR = "EGeneral:Internal error"
TOO_MANY_REQUESTS = "EGeneral:Too many requests"
RATE_LIMIT_EXCEEDED = "EAPI:Rate limit exceeded"
TEMPORARY_LOCKOUT = "EGeneral:Temporary lockout"


def result(body: bytes) -> bytes:
    """An answer."""
    return b'{"error":[],"result":%b}' % body


def error(text: str) -> Reply:
    """A refusal; there is no result beside it."""
    return Reply(msgspec.json.encode({"error": [text]}))


def invalid(name: str = "") -> Refused:
    """A parameter that is missing, or the one named is wrong."""
    return Refused(error("EGeneral:Invalid arguments" + (f":{name}" if name else "")))


def unknown_pair() -> Refused:
    """No such pair is listed."""
    return Refused(error("EQuery:Unknown asset pair"))


def unknown_asset() -> Refused:
    """No such asset."""
    return Refused(error("EQuery:Unknown asset"))
