"""Groups of errors by which a request to an exchange can fail."""

from penstock.errors.answers import ExchangeError, ExchangeUnreachable, UnexpectedAnswer
from penstock.errors.limits import CostExceedsLimit
from penstock.errors.storage import StorageError
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
