"""Coinbase's way of saying no: a status and a sentence, each spelled in one place."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply

NOT_FOUND = "NotFound"


def said(status: int, message: str) -> Reply:
    """The answer that carries a message."""
    return Reply(msgspec.json.encode({"message": message}), status=status)


def invalid(name: str) -> Refused:
    """A parameter's value is not one."""
    return Refused(said(400, f'Invalid value for "{name}"'))


def bad_granularity() -> Refused:
    """No candle has that length."""
    return Refused(said(400, "Unsupported granularity"))


def too_many_candles(most: int) -> Refused:
    """The range holds more candles than one answer."""
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
    """Programs must say who they are."""
    return Refused(said(400, "User-Agent header is required."))
