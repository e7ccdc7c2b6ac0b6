"""Groups of errors: those by which a request to an exchange can fail, and those that may pass."""

from penstock.errors.answers import (
    BadRequest,
    ExchangeError,
    ExchangeUnreachable,
    UnexpectedAnswer,
)
from penstock.errors.base import BusUnreachable, PortInUse
from penstock.errors.limits import CostExceedsLimit
from penstock.errors.storage import LogDamaged, NewerStore, SlotInUse, StorageError
from penstock.errors.work import ConnectorPaused

SUSPENDED = (ConnectorPaused, StorageError)
"""No request can be sent: the connector is paused, or the state store cannot be used."""

UNAVAILABLE = (
    ExchangeError,
    ExchangeUnreachable,
    UnexpectedAnswer,
    CostExceedsLimit,
    *SUSPENDED,
)
"""All errors by which a request can fail. It is retried later; streams continue."""


def is_failure(error: BaseException) -> bool:
    """Whether there was no response, or the exchange failed: a retry may help.

    Other errors of the exchange, its refusals, are subclasses of ``ExchangeError``.
    """
    return isinstance(error, ExchangeUnreachable) or type(error) is ExchangeError


TEMPORARY = 75
"""The exit code of a process that ended with an error that may pass: EX_TEMPFAIL of sysexits.h."""
_PASSING = (
    ExchangeError,
    ExchangeUnreachable,
    UnexpectedAnswer,
    PortInUse,
    SlotInUse,
    BusUnreachable,
    *SUSPENDED,
)
_LASTING = (BadRequest, LogDamaged, NewerStore)
"""A rejected login is none of them: the password may just be changed, here or there."""


def may_pass(error: BaseException) -> bool:
    """Whether the same process may succeed later, with the same settings."""
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)
