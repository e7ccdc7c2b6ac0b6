"""Defines the error responses of Binance: a code and a message each."""

import msgspec

from penstock.simulator.engine.exchange import Refused, Reply

# As the exchange returns them, in Java's syntax: any word character that is not lower case.
LEGAL_NUMBER = "^[0-9]{1,20}$"
LEGAL_SYMBOL = "^[\\w\\-._&&[^a-z]]{1,50}$"
LEGAL_SYMBOLS = '^\\[("[\\w\\-._&&[^a-z]]{1,50}"(,"[\\w\\-._&&[^a-z]]{1,50}"){0,}){0,1}\\]$'


def error_body(code: int, message: str) -> bytes:
    """The body of every error."""
    return msgspec.json.encode({"code": code, "msg": message})


def refused(code: int, message: str) -> Refused:
    """A 400 with an error code and a message."""
    return Refused(Reply(error_body(code, message), status=400))


def illegal_characters(name: str, legal: str) -> Refused:
    """The value is malformed."""
    return refused(
        -1100, f"Illegal characters found in parameter '{name}'; legal range is '{legal}'."
    )


def too_many(expected: int, received: int) -> Refused:
    """More parameters than the endpoint has."""
    return refused(-1101, f"Too many parameters; expected '{expected}' and received '{received}'.")


def missing(name: str) -> Refused:
    """A mandatory parameter was not sent."""
    return refused(
        -1102, f"Mandatory parameter '{name}' was not sent, was empty/null, or malformed."
    )


def missing_either(name: str, other: str) -> Refused:
    """Neither of two parameters was sent, one of which is mandatory."""
    return refused(-1102, f"Param '{name}' or '{other}' must be sent, but both were empty/null!")


def unread(read: int, sent: int) -> Refused:
    """A parameter is unknown to the endpoint."""
    return refused(
        -1104,
        f"Not all sent parameters were read; read '{read}' parameter(s) but was sent '{sent}'.",
    )


def empty(name: str) -> Refused:
    """A parameter has no value."""
    return refused(-1105, f"Parameter '{name}' was empty.")


def invalid(name: str) -> Refused:
    """A value is well-formed but not allowed."""
    return refused(-1130, f"Data sent for parameter '{name}' is not valid.")


def bad_interval() -> Refused:
    """There are no candles of that length."""
    return refused(-1120, "Invalid interval.")


def bad_symbol() -> Refused:
    """The symbol is not listed."""
    return refused(-1121, "Invalid symbol.")


def bad_status() -> Refused:
    """The status does not exist."""
    return refused(-1122, "Invalid symbolStatus.")


def bad_combination() -> Refused:
    """The parameters exclude each other."""
    return refused(-1128, "Combination of optional parameters invalid.")


def bad_ticker_type() -> Refused:
    """The ticker type is neither FULL nor MINI."""
    return refused(-1139, "Invalid ticker type.")


def duplicate_symbols() -> Refused:
    """A list contains the same symbol twice."""
    return refused(-1151, "Symbol is present multiple times in the list.")


def bad_time_unit() -> Refused:
    """The time unit is neither of the two."""
    return refused(
        -1194, "Invalid value for time unit; expected either MICROSECOND or MILLISECOND."
    )


def status_mismatch() -> Refused:
    """The requested symbol has another status."""
    return refused(-1220, "The symbol's status does not match the requested symbolStatus.")
