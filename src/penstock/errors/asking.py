"""Why an exchange cannot be asked just now."""

from penstock.errors.answers import ExchangeError, ExchangeUnreachable, UnexpectedAnswer
from penstock.errors.limits import CostExceedsLimit
from penstock.errors.storage import StorageError
from penstock.errors.work import ConnectorPaused

SUSPENDED = (ConnectorPaused, StorageError)
"""Nothing can be asked: the connector is paused, or the state store cannot be used."""

UNAVAILABLE = (
    ExchangeError,
    ExchangeUnreachable,
    UnexpectedAnswer,
    CostExceedsLimit,
    *SUSPENDED,
)
"""Everything by which asking an exchange can fail. It is asked again later; streams go on."""
