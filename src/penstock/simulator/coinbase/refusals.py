"""Defines the error responses of Coinbase: a status and a message each."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply

NOT_FOUND = "NotFound"


def said(status: int, message: str) -> Reply:
    """A response with a message."""
    return Reply(msgspec.json.encode({"message": message}), status=status)


def invalid(name: str) -> Refused:
    """A parameter's value is invalid."""
    return Refused(said(400, f'Invalid value for "{name}"'))


def bad_granularity() -> Refused:
    """There are no candles of that length."""
    return Refused(said(400, "Unsupported granularity"))


def too_many_candles(most: int) -> Refused:
    """The range has more candles than one response may have."""
    return Refused(
        said(
            400,
            "granularity too small for the requested time range."
            f" Count of aggregations requested exceeds {most}",
        )
    )


def backwards() -> Refused:
    """The range ends before it begins."""
    return Refused(said(400, "start must be before end"))


def no_user_agent() -> Refused:
    """The request has no User-Agent header."""
    return Refused(said(400, "User-Agent header is required."))
